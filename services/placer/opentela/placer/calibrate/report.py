"""Writes a fit, what it leaves unexplained, and pictures of that."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
import msgspec
import numpy as np

from opentela.placer.calibrate.crossval import Residual
from opentela.placer.fit import Fit

mpl.use("agg")

from matplotlib import pyplot as plt

_TRAITS: Final = ("source", "gpu", "engine")
_BINS: Final = np.linspace(-0.6, 0.6, 41)
_METRIC_COLOURS: Final = {"ttft": "C1", "tpot": "C2", "e2e": "C0", "rps": "C3"}


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """How well one group of measurements is met: quantiles of the relative error's size."""

    group: str
    metric: str
    count: int
    median: float
    p90: float
    bias: float


def scores(residuals: Sequence[Residual], by: str) -> list[Score]:
    """Return the scores of each group and metric."""
    groups: dict[tuple[str, str], list[float]] = {}
    for one in residuals:
        groups.setdefault((one.point.group(by), one.metric), []).append(one.error)
    return [
        Score(
            group=group,
            metric=metric,
            count=len(errors),
            median=float(np.median(np.abs(errors))),
            p90=float(np.percentile(np.abs(errors), 90)),
            bias=float(np.median(errors)),
        )
        for (group, metric), errors in sorted(groups.items())
    ]


def write_fit(fit: Fit, path: Path) -> None:
    """Write *fit* as JSON that people can read."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(fit), indent=1) + b"\n")


def write_residuals(residuals: Sequence[Residual], path: Path) -> None:
    """Write one row a measured value: which, what was measured, what is said."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(
            ["id", "source", "gpu", "engine", "model", "mode", "metric", "measured", "said"]
        )
        for one in residuals:
            p = one.point
            traits = (p.source, p.shape.gpu.id, p.shape.engine, p.shape.model.id, p.mode)
            rows.writerow(
                [p.id, *traits, one.metric, f"{one.measured:.5g}", f"{one.said:.5g}"],
            )


def write_plots(residuals: Sequence[Residual], folder: Path, title: str) -> list[Path]:
    """Draw what is said against what was measured, and the errors by source, GPU and engine."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "said.png", *(folder / f"errors_by_{trait}.png" for trait in _TRAITS)]
    _draw_said(residuals, paths[0], title)
    for trait, path in zip(_TRAITS, paths[1:], strict=True):
        _draw_errors(residuals, trait, path, title)
    return paths


def _draw_said(residuals: Sequence[Residual], path: Path, title: str) -> None:
    figure, axes = plt.subplots(1, len(_METRIC_COLOURS), figsize=(17, 4.5))
    for axis, (metric, colour) in zip(axes, _METRIC_COLOURS.items(), strict=True):
        own = [one for one in residuals if one.metric == metric]
        axis.loglog([o.measured for o in own], [o.said for o in own], ".", ms=2, color=colour)
        low, high = axis.get_xlim()
        axis.loglog([low, high], [low, high], color="black", lw=0.8)
        axis.set_title(metric)
        axis.set_xlabel("measured, " + ("1/s" if metric == "rps" else "s"))
    axes[0].set_ylabel("said")
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_errors(residuals: Sequence[Residual], by: str, path: Path, title: str) -> None:
    groups = sorted({one.point.group(by) for one in residuals})
    columns = min(4, len(groups))
    rows = -(-len(groups) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(4 * columns, 2.4 * rows), sharex=True, squeeze=False
    )
    for axis, group in zip(axes.flat, groups, strict=False):
        for metric, colour in _METRIC_COLOURS.items():
            errors = [
                one.error
                for one in residuals
                if (one.point.group(by), one.metric) == (group, metric)
            ]
            if errors:
                label = f"{metric}: {np.median(np.abs(errors)):.0%}"
                clipped = np.clip(errors, _BINS[0], _BINS[-1])
                axis.hist(clipped, _BINS, histtype="step", color=colour, label=label)
        axis.set_title(group, fontsize=9)
        axis.axvline(0, color="black", lw=0.6)
        axis.legend(fontsize=7, title="median size", title_fontsize=7)
    for axis in axes.flat[len(groups) :]:
        axis.set_visible(False)
    figure.suptitle(f"{title}: relative error by {by}")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
