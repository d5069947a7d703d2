"""Fits the manners of engines and GPUs to measurements of whole replicas, by partial pooling.

Every component of a step has a factor, whose logarithm is a sum of effects: one for all, one for
the engine's family, for its version, for the GPU, and for the version on that GPU. Routed experts
have one more, for how weights are stored under that family, which writes a kernel for each format.
One factor of the whole step is that of one model on all of these, for kernels suit one shape better
than another.
Each effect is drawn towards nothing by a prior, so that what is known of few measurements stays
close to what is known of many, and an engine or GPU that was never measured gets what its relatives
have. This is the maximum a posteriori estimate, found by Gauss-Newton steps on robust residuals.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from opentela.placer.calibrate import facts
from opentela.placer.calibrate.least_squares import huber_cost, huber_weights
from opentela.placer.calibrate.points import METRICS, Measured, predict
from opentela.placer.fit import COMPONENTS, LEVELS, levels_of
from opentela.placer.shapes import Floats, Ints

_STEP: Final = 1e-4
_LONGEST: Final = 0.7
_NOISE: Final = 0.08
"""Logarithmic scatter of a measurement about a right model."""
_TURN: Final = 2.0
"""Residuals beyond so many times the noise count like outliers."""
_GROUP_FULL: Final = 12
"""Measurements of one GPU, engine and model that count in full; more share that weight, since what
is wrong about one is wrong about all."""
_METRIC_WEIGHTS: Final[Mapping[str, float]] = {"ttft": 0.3, "tpot": 1.0, "e2e": 1.0, "rps": 1.0}
_REPLAYED: Final = 10.0
_ENOUGH: Final = 1e-4
_STUCK: Final = 1e4
_NOTHING: Final = 5e-4
_WRONG: Final = 3.0
"""The largest logarithmic error that is told apart."""

_SECONDS: Final = (0.7, 0.7, 0.5, 0.4, 0.2, 0.2, 0.0, 0.0, 0.0)
_OPERATOR: Final = (0.3, 0.15, 0.15, 0.1, 0.12, 0.07, 0.0, 0.0, 0.0)
_WIDER: Final = (0.5, 0.25, 0.2, 0.15, 0.25, 0.15, 0.0, 0.0, 0.0)
_PRIORS: Final[Mapping[str, tuple[float, ...]]] = {
    # Operators say nothing of these.
    **dict.fromkeys(("host", "host_tp", "seq", "layer", "request", "crowd"), _SECONDS),
    # Kernels that differ much between engines, or were timed less well.
    **dict.fromkeys(("experts_floor", "quant", "quant4", "blocks8", "link"), _WIDER),
    # Grouped products are written anew for every format.
    "experts": (0.5, 0.25, 0.2, 0.15, 0.25, 0.15, 0.0, 0.3, 0.0),
    # Between kernels timed one after the other there is less than between those of an engine.
    "floor": (0.8, 0.2, 0.2, 0.15, 0.15, 0.07, 0.0, 0.0, 0.0),
    # KV made of latents goes through products that no timing of attention holds.
    "latent": (1.5, 0.25, 0.2, 0.15, 0.25, 0.15, 0.0, 0.0, 0.0),
    # Some engines have another kernel where there is a window, however long it is.
    "windowed": (0.0, 0.0, 0.0, 0.7, 0.0, 0.15, 0.0, 0.0, 0.0),
    # Limits are set by whoever runs an engine on a GPU, hardly by the GPU.
    "batch": (0.1, 0.05, 0.05, 0.15, 0.02, 0.3, 0.0, 0.0, 0.0),
    "drafted": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.3, 0.0, 0.0),
    "whole": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.05, 0.0, 0.05),
}
"""Standard deviations of effects before anything was measured, by the kinds of `LEVELS`."""
_UNTIMED: Final = 3.0
"""Times that the prior of a GPU is wider if its kernels were not timed."""


class Pool:
    """The effects, as one vector, and which of them act on which measurement."""

    def __init__(self, data: Measured, timed: frozenset[str]) -> None:
        levels = [levels_of(point.shape) for point in data.points]
        self.names: list[tuple[str, str]] = []
        sigmas: list[float] = []
        # The last effect is none: it stands where a prior forbids any.
        self.at = np.full((len(COMPONENTS), len(LEVELS), len(levels)), -1)
        for k, component in enumerate(COMPONENTS):
            for slot, kind in enumerate(LEVELS):
                own = [row[slot] for row in levels]
                widths = {name: _sigma(component, slot, kind, name, timed) for name in set(own)}
                free = sorted(name for name, width in widths.items() if width > 0)
                index = {name: len(self.names) + i for i, name in enumerate(free)}
                self.names += [(component, name) for name in free]
                sigmas += [widths[name] for name in free]
                self.at[k, slot] = [index.get(name, -1) for name in own]
        self.sigmas = np.array(sigmas)

    def factors(self, effects: Floats) -> Floats:
        """Return the factors of every measurement: shape (N, K)."""
        padded = np.append(effects, 0.0)
        factors: Floats = np.exp(padded[self.at].sum(axis=1).T)
        return factors

    def named(self, effects: Floats) -> dict[str, dict[str, float]]:
        """Return the effects that are something, by component and level."""
        found: dict[str, dict[str, float]] = {component: {} for component in COMPONENTS}
        for (component, name), value in zip(self.names, effects, strict=True):
            if abs(value) > _NOTHING:
                found[component][name] = round(float(value), 4)
        return found


def _sigma(component: str, slot: int, kind: str, name: str, timed: frozenset[str]) -> float:
    if name == "build=":
        return 0.0  # not known
    sigma = _PRIORS.get(component, _OPERATOR)[slot]
    is_untimed = kind == "gpu" and name.partition("=")[2] not in timed
    return sigma * _UNTIMED if is_untimed and _PRIORS.get(component) is not _SECONDS else sigma


class _Problem:
    """The measurements, their weights, and how far effects are from explaining them."""

    def __init__(self, data: Measured, pool: Pool) -> None:
        weights = _weights(data)
        logs = np.log(data.values)
        self.used = np.isfinite(logs) & (weights > 0)
        self._data, self._pool = data, pool
        self._logs = logs[self.used]
        self._scale = np.sqrt(weights[self.used]) / _NOISE
        self._alike = _alike(pool, np.nonzero(self.used)[0])

    def residuals(self, factors: Floats) -> Floats:
        """Return the logarithmic errors in units of the noise, weighted."""
        errors = np.log(predict(self._data, factors)[self.used]) - self._logs
        errors = np.clip(np.nan_to_num(errors, nan=_WRONG), -_WRONG, _WRONG)
        return np.asarray(errors * self._scale, dtype=np.float64)

    def cost(self, effects: Floats) -> float:
        """Return what is minimised: misfit and distance from the priors."""
        misfit = huber_cost(self.residuals(self._pool.factors(effects)), _TURN)
        return misfit + float(np.sum((effects / self._pool.sigmas) ** 2)) / 2

    def normal_equations(self, effects: Floats) -> tuple[Floats, Floats]:
        """Return curvature and gradient."""
        curvature, gradient = self.sums(*self.slopes(effects))
        prior = 1 / self._pool.sigmas**2
        curvature[np.diag_indices_from(curvature)] += prior
        return curvature, gradient + prior * effects

    def slopes(self, effects: Floats) -> tuple[Floats, Floats]:
        """Return the residuals, and how each goes with each component, which all levels share."""
        factors = self._pool.factors(effects)
        now = self.residuals(factors)
        slopes = np.empty((len(now), len(COMPONENTS)))
        for k in range(len(COMPONENTS)):
            nudged = factors.copy()
            nudged[:, k] *= np.exp(_STEP)
            slopes[:, k] = (self.residuals(nudged) - now) / _STEP
        return now, slopes

    def sums(
        self, now: Floats, slopes: Floats, points: Sequence[int] | None = None
    ) -> tuple[Floats, Floats]:
        """Return what all measurements add to curvature and gradient, or what *points* do."""
        weights = huber_weights(now, _TURN)
        if points is not None:
            weights = weights * np.isin(np.nonzero(self.used)[0], points)
        size = len(self._pool.sigmas) + 1
        curvature, gradient = np.zeros((size, size)), np.zeros(size)
        for rows, parts, effects_at in self._alike:
            if not weights[rows].any():
                continue
            own, weighted = slopes[rows], slopes[rows] * weights[rows, None]
            square = own.T @ weighted
            curvature[np.ix_(effects_at, effects_at)] += square[np.ix_(parts, parts)]
            gradient[effects_at] += (weighted.T @ now[rows])[parts]
        return curvature[:-1, :-1], gradient[:-1]


def _alike(pool: Pool, rows: Ints) -> list[tuple[Ints, Ints, Ints]]:
    """Return which residuals the same effects act on: residuals, components, effects."""
    kinds, of = np.unique(pool.at.reshape(-1, pool.at.shape[2]), axis=1, return_inverse=True)
    component = np.repeat(np.arange(len(COMPONENTS)), len(LEVELS))
    return [
        (np.flatnonzero(of[rows] == number), component[kind >= 0], kind[kind >= 0])
        for number, kind in enumerate(kinds.T)
    ]


def solve(data: Measured, timed: frozenset[str], *, rounds: int = 25) -> tuple[Pool, Floats]:
    """Return the pool of *data* and its effects."""
    pool = Pool(data, timed)
    problem = _Problem(data, pool)
    effects = np.zeros(len(pool.sigmas))
    cost, damping = problem.cost(effects), 0.1
    for _ in range(rounds):
        curvature, gradient = problem.normal_equations(effects)
        while True:
            damped = curvature + damping * np.diag(np.diag(curvature))
            move = np.linalg.solve(damped, -gradient)
            moved = effects + np.clip(move, -_LONGEST, _LONGEST)
            lower = problem.cost(moved)
            if lower < cost:
                break
            damping *= 4
            if damping > _STUCK:
                return pool, effects
        gained, effects, cost = cost - lower, moved, lower
        damping = max(damping / 4, 1e-3)
        if gained < _ENOUGH * cost:
            break
    return pool, effects


def without_each(
    data: Measured, timed: frozenset[str], groups: Sequence[str], *, rounds: int = 25
) -> Iterator[tuple[list[int], Pool, Floats]]:
    """Yield the points of each of *groups*, and the effects that all other points have.

    It is one step from the fit to all: enough for a group that is small beside the rest, and so
    much quicker that every group can be left out on its own.
    """
    pool, effects = solve(data, timed, rounds=rounds)
    problem = _Problem(data, pool)
    curvature, gradient = problem.normal_equations(effects)
    now, slopes = problem.slopes(effects)
    members: dict[str, list[int]] = {}
    for at, group in enumerate(groups):
        members.setdefault(group, []).append(at)
    for own in members.values():
        bent, pulled = problem.sums(now, slopes, own)
        move = np.linalg.solve(curvature - bent, pulled - gradient)
        yield own, pool, effects + np.clip(move, -_LONGEST, _LONGEST)


def _weights(data: Measured) -> Floats:
    """Return how much each measured value counts, of shape (N, 4)."""
    groups = [f"{p.source} {p.group('gpu,engine,model')} {p.shape.w_dtype}" for p in data.points]
    _names, index, counts = np.unique(groups, return_inverse=True, return_counts=True)
    share = np.minimum(1.0, _GROUP_FULL / counts)[index]
    metric = np.array([_METRIC_WEIGHTS[name] for name in METRICS])
    weights: Floats = share[:, None] * metric
    for row, point in enumerate(data.points):
        weights[row] *= facts.trust(point.quality)
        if point.mode == "closed_loop" and point.source == "aic_silicon":
            weights[row, METRICS.index("e2e")] = 0.0  # worked out from the other two
            weights[row, METRICS.index("rps")] = 0.0
        if point.mode == "open_loop_replay":
            weights[row] *= _REPLAYED  # the mean of so many requests that it hardly scatters
        if point.mode == "closed_loop":
            weights[row, METRICS.index("rps")] *= 0.5
    return weights
