"""How well the simulator does on measurements that it was not fitted to.

Whole groups are left out at a time, a GPU, a model, a source: neighbours of a measurement, which
say nearly the same, would otherwise stand on both sides.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final
from zlib import crc32

import msgspec
import numpy as np

from opentela.placer.calibrate import hierarchy
from opentela.placer.calibrate.points import METRICS, Point, measured, predict
from opentela.placer.fit import Fit
from opentela.placer.shapes import Floats

GROUPINGS: Final[Mapping[str, int]] = {
    "gpu,engine,model": 8,
    "curve": 3,
    "gpu": 7,
    "model": 5,
    "source": 7,
    "id": 3,
}
"""Traits by which groups are left out, and into how many parts the groups are dealt at most.

By `id` a third of the measurements is left out whatever they are: how well gaps are filled. By
`curve` a third of the configurations is, whatever their lengths and loads.
"""
_ROUNDS: Final = 9
"""Of the fit without a part: enough to come within a hundredth of where more would lead."""


class Residual(msgspec.Struct, frozen=True, kw_only=True):
    """What the simulator said beside what was measured."""

    point: Point
    metric: str
    measured: float
    said: float

    @property
    def error(self) -> float:
        """The relative error."""
        return self.said / self.measured - 1


Progress = Callable[[str], None]


def fitted(points: Sequence[Point], base: Fit, timed: frozenset[str], *, rounds: int = 25) -> Fit:
    """Return *base* with its effects fitted to *points*."""
    data, _ = measured(points, base)
    pool, effects = hierarchy.solve(data, timed, rounds=rounds)
    return msgspec.structs.replace(base, effects=pool.named(effects))


def residuals(points: Sequence[Point], fit: Fit) -> list[Residual]:
    """Return what *fit* says to each value that was measured."""
    data, factors = measured(points, fit)
    said = predict(data, factors)
    return list(_residuals(points, said, data.values))


def _residuals(points: Sequence[Point], said: Floats, values: Floats) -> Iterator[Residual]:
    for point, row, truth in zip(points, said, values, strict=True):
        for metric, one, value in zip(METRICS, row, truth, strict=True):
            if np.isfinite(one) and np.isfinite(value):
                yield Residual(point=point, metric=metric, measured=float(value), said=float(one))


def left_out(
    points: Sequence[Point],
    by: str,
    base: Fit,
    timed: frozenset[str],
    progress: Progress = lambda _: None,
) -> list[Residual]:
    """Return the residuals of every point under a fit to the points of other groups."""
    found: list[Residual] = []
    parts = _parts(points, by)
    for number, part in enumerate(parts, start=1):
        progress(f"without {by} {number} of {len(parts)}")
        rest = [point for point in points if point.group(by) not in part]
        own = [point for point in points if point.group(by) in part]
        # A GPU that is left out has no kernels of its own either.
        known = without(base, part) if by == "gpu" else base
        found += residuals(own, fitted(rest, known, timed - part, rounds=_ROUNDS))
    return found


def each_left_out(
    points: Sequence[Point], by: str, base: Fit, timed: frozenset[str]
) -> list[Residual]:
    """Return the residuals of every point under a fit to all points but those of its group."""
    data, _ = measured(points, base)
    groups = [point.group(by) for point in points]
    found: list[Residual] = []
    for own, pool, effects in hierarchy.without_each(data, timed, groups):
        fit = msgspec.structs.replace(base, effects=pool.named(effects))
        found += residuals([points[at] for at in own], fit)
    return found


def without(fit: Fit, gpus: frozenset[str]) -> Fit:
    """Return *fit* without the curves of *gpus*, but for those that others borrow."""
    lent = set(fit.donors.values())
    kept = {k: v for k, v in fit.operators.items() if k not in gpus or k in lent}
    return msgspec.structs.replace(fit, operators=kept)


def _parts(points: Sequence[Point], by: str) -> list[frozenset[str]]:
    """Return the groups dealt into parts, by a checksum so that no trait goes along with a part."""
    names = sorted({point.group(by) for point in points}, key=lambda name: crc32(name.encode()))
    count = min(GROUPINGS.get(by, 8), len(names))
    return [frozenset(names[at::count]) for at in range(count)]
