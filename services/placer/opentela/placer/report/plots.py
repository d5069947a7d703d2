"""Plots of a replay, as PNG."""

import io
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from opentela.placer.replay.run import Run, Way

_COLOURS: Final = {
    Way.STATIC: "#1f77b4",
    Way.MEMORY: "#ff7f0e",
    Way.DYNAMIC: "#2ca02c",
    Way.KEPT: "#9467bd",
    Way.LIVE: "#d62728",
}
_MARKS: Final = {Way.STATIC: "s", Way.MEMORY: "^", Way.DYNAMIC: "o", Way.KEPT: "D", Way.LIVE: "v"}
_NEVER: Final = "some requests never served"


def frontier(runs: Sequence[Run]) -> bytes:
    """Return promise kept, and the 99th percentile, by GPU-hours for each way to place."""
    figure = Figure(figsize=(10, 4.2), dpi=110, layout="constrained")
    left, right = figure.subplots(1, 2)
    _lines(left, runs, lambda run: 100 * run.outcome.slo_attained)
    left.set_ylabel("requests served as promised, %")
    left.legend(loc="best", framealpha=1.0)
    finite = [run.outcome.p99_s for run in runs if np.isfinite(run.outcome.p99_s)]
    top = 3 * max(finite, default=1.0)
    _lines(right, runs, lambda run: min(run.outcome.p99_s, top))
    right.set_yscale("log")
    right.yaxis.set_major_formatter(lambda seconds, _: f"{seconds:,.0f}")
    right.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.0, 0.4)))
    right.set_ylabel("99th percentile of a request's time, s")
    if len(finite) < len(runs):
        right.axhline(top, color="grey", linestyle=":", linewidth=1)
        right.annotate(
            _NEVER,
            (0.98, top),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=8,
            color="grey",
        )
        right.set_ylim(top=top * 2)
    return _png(figure)


def sensitivity(runs: Sequence[Run], base: Run) -> bytes:
    """Return what load cost and cool-down do to a way that moves models."""
    figure = Figure(figsize=(10, 4.2), dpi=110, layout="constrained")
    left, right = figure.subplots(1, 2)
    by_cost = [run for run in runs if run.cool_down_s == base.cool_down_s]
    by_cool = [run for run in runs if run.load_factor == base.load_factor]
    _varied(left, by_cost, lambda run: run.load_factor, "time to load, times the measured")
    _varied(right, by_cool, lambda run: run.cool_down_s / 60, "cool-down, minutes")
    return _png(figure)


def models(runs: Sequence[Run]) -> bytes:
    """Return which share of models keeps which promise, for each way at one size."""
    figure = Figure(figsize=(7, 4.2), dpi=110, layout="constrained")
    axes = figure.subplots()
    for run in runs:
        values = np.sort(np.array(list(run.outcome.slo_by_model.values())))
        share = np.arange(1, len(values) + 1) / len(values)
        axes.step(
            100 * values,
            100 * share,
            where="post",
            color=_COLOURS[run.way],
            label=f"{run.way}, {run.outcome.gpu_hours:.3g} GPU-hours",
        )
    axes.set_xlabel("requests of a model served as promised, %")
    axes.set_ylabel("models at or below that, %")
    axes.grid(alpha=0.3)
    axes.legend(loc="best", framealpha=1.0)
    return _png(figure)


def _lines(axes: Axes, runs: Sequence[Run], value: Callable[[Run], float]) -> None:
    for way in Way:
        mine = sorted(
            (run for run in runs if run.way is way), key=lambda run: run.outcome.gpu_hours
        )
        if mine:
            axes.plot(
                [run.outcome.gpu_hours for run in mine],
                [value(run) for run in mine],
                color=_COLOURS[way],
                marker=_MARKS[way],
                label=str(way),
            )
    axes.set_xlabel("GPU-hours held")
    axes.grid(alpha=0.3)


def _varied(axes: Axes, runs: Sequence[Run], at: Callable[[Run], float], label: str) -> None:
    mine = sorted(runs, key=at)
    x = [at(run) for run in mine]
    axes.plot(x, [100 * run.outcome.slo_attained for run in mine], color="#2ca02c", marker="o")
    axes.set_xscale("log")
    axes.set_xticks(x, [f"{one:g}" for one in x])
    axes.minorticks_off()
    axes.set_xlabel(label)
    axes.set_ylabel("requests served as promised, %", color="#2ca02c")
    axes.grid(alpha=0.3)
    hours = axes.twinx()
    hours.plot(x, [run.outcome.gpu_hours for run in mine], color="#9467bd", marker="v")
    hours.set_ylabel("GPU-hours held", color="#9467bd")
    hours.set_ylim(bottom=0)


def _png(figure: Figure) -> bytes:
    FigureCanvasAgg(figure)
    out = io.BytesIO()
    figure.savefig(out, format="png", metadata={"Software": ""})
    return out.getvalue()
