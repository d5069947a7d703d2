"""How well the simulator meets measurements, in sample and without whole groups of them.

Prints one row a group; writes residuals and plots to `build/bench/placer_accuracy/`. `--data DIR`
takes other measurements (the table of `docs/simulator.md`), `--fit` another fit; `--left-out` fits
again without one part of the groups after the other, which takes minutes; `--each-out` leaves every
group out on its own, by one step from the fit to all.
"""

import argparse
import csv
import gzip
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table
from tests.bench.report import OUTPUT, Figure

from opentela.placer import calibrate, catalogue
from opentela.placer.calibrate import crossval, points, report
from opentela.placer.calibrate.crossval import Residual
from opentela.placer.fit import Fit, shipped
from opentela.placer.shapes import Replica, ReplicaShape, Requests
from opentela.placer.simulate import discrete

FOLDER: Final = OUTPUT / "placer_accuracy"
_PERCENT: Final = 100.0
_REPLAYED: Final = {
    "Llama-3.1-8B": ReplicaShape(
        model=catalogue.model("llama-3.1-8b"),
        gpu=catalogue.gpu("rtxpro6000-96g"),
        max_batch=128,
        batched_tokens_max=2048,
    ),
    "Qwen3-32B": ReplicaShape(
        model=catalogue.model("qwen3-32b"),
        gpu=catalogue.gpu("rtxpro6000-96g"),
        tp=2,
        max_batch=128,
        batched_tokens_max=2048,
    ),
}
"""Replicas whose requests were recorded one by one."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare which measurements and which fit."""
    parser.add_argument("--data", type=Path, default=calibrate.packaged())
    parser.add_argument("--fit", type=Path, help="a fit.json instead of the shipped one")
    parser.add_argument("--left-out", nargs="*", default=[], choices=list(crossval.GROUPINGS))
    parser.add_argument("--each-out", nargs="*", default=[], choices=["curve"])


def run(options: argparse.Namespace) -> list[Figure]:
    """Return the figures that were promised, and print all others."""
    fit = shipped()
    if options.fit:
        fit = msgspec.json.decode(options.fit.read_bytes(), type=Fit)
    found = calibrate.score(options.data, fit)
    _written(found, "fitted")
    figures = _figures("fitted", found)
    for title, without in _held_out(options):
        _written(without, title)
        figures += _figures(title, without)
    return figures + _replays(options.data, fit)


def _held_out(options: argparse.Namespace) -> Iterator[tuple[str, list[Residual]]]:
    """Yield what was asked for of fits that did not see what they are asked."""
    if not options.left_out and not options.each_out:
        return
    base, measured = calibrate.base(options.data), calibrate.read(options.data)
    for by in options.left_out:
        found = crossval.left_out(measured, by, base, calibrate.TIMED, _told)
        yield f"without {by}", found
    for by in options.each_out:
        yield f"without each {by}", crossval.each_left_out(measured, by, base, calibrate.TIMED)


def _told(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _written(found: Sequence[Residual], title: str) -> None:
    folder = FOLDER / title.replace(" ", "_").replace(",", "_")
    report.write_plots(found, folder, title)
    report.write_residuals(found, folder / "residuals.csv")
    table = Table(title=f"{title} ({folder})", title_justify="left")
    for column in ("by", "group", "metric", "count", "median", "p90", "bias"):
        table.add_column(column)
    for by in ("source", "gpu", "engine"):
        for one in report.scores(found, by):
            row = (f"{value:.1%}" for value in (one.median, one.p90, one.bias))
            table.add_row(by, one.group, one.metric, str(one.count), *row)
    Console(width=120).print(table)


def _is(point: points.Point, mode: str, *, mixture: bool | None = None) -> bool:
    """Return whether a point is of this kind of load, on NVIDIA, and of this kind of model."""
    return (
        point.mode == mode
        and point.shape.gpu.vendor == "NVIDIA"
        and mixture in {None, point.shape.model.experts > 0}
    )


def _is_bridged(point: points.Point) -> bool:
    return point.shape.gpu.link > 0 and "bridge" not in point.shape.gpu.link_kind


_PROMISES: Final[dict[str, tuple[Callable[[Residual], bool], float, float | None]]] = {
    "static batch, end to end": (
        lambda one: one.metric == "e2e" and _is(one.point, "static_batch", mixture=False),
        0.08,
        0.20,
    ),
    "closed loop, dense, end to end": (
        lambda one: one.metric == "e2e" and _is(one.point, "closed_loop", mixture=False),
        0.08,
        0.20,
    ),
    "mixtures": (
        lambda one: (
            one.point.shape.model.experts > 0
            and one.metric == ("rps" if one.point.mode == "offline_inf_rate" else "e2e")
        ),
        0.15,
        None,
    ),
    "saturated, NVLink": (
        lambda one: _is(one.point, "offline_inf_rate") and _is_bridged(one.point),
        0.10,
        0.30,
    ),
    "saturated, PCIe": (
        lambda one: _is(one.point, "offline_inf_rate") and not _is_bridged(one.point),
        0.12,
        None,
    ),
    "time to first token": (lambda one: one.metric == "ttft", 0.25, None),
}
"""What is promised of which residuals: the median and the 90th percentile of errors' sizes."""


def _figures(title: str, found: Iterable[Residual]) -> list[Figure]:
    rows = list(found)
    figures = []
    for name, (belongs, median, p90) in _PROMISES.items():
        errors = [abs(one.error) * _PERCENT for one in rows if belongs(one)]
        if errors:
            label = f"{title}: {name} ({len(errors)})"
            figures.append(_below(f"{label}, median", float(np.median(errors)), median))
            if p90 is not None:
                figures.append(_below(f"{label}, p90", float(np.percentile(errors, 90)), p90))
    return figures


def _below(name: str, value: float, limit: float) -> Figure:
    return Figure.below(name, value, "%", limit * _PERCENT)


def _replays(data: Path, fit: Fit) -> list[Figure]:
    """Return how far off the mean latency of recorded requests is, arrival by arrival."""
    figures = []
    for name, shape in _REPLAYED.items():
        path = data / "measured" / f"requests_RTXPRO6000_{name}.csv"
        rows = _recorded(path)
        if not rows:
            continue
        trace = Requests(
            arrival_s=_column(rows, "arrival_s"),
            in_tokens=_column(rows, "in_tokens").astype(np.int64),
            out_tokens=_column(rows, "out_tokens").astype(np.int64),
            prefix_hit_tokens=np.zeros(len(rows), dtype=np.int64),
        )
        done = discrete.simulate(trace, [Replica(shape=shape)], fit=fit)
        for what, said in (("e2e_s", done.done_s), ("ttft_s", done.first_s)):
            truth = float(_column(rows, what).mean())
            error = abs(float((said - trace.arrival_s).mean()) / truth - 1) * _PERCENT
            limit = 20.0 if what == "e2e_s" else 25.0
            figures.append(Figure.below(f"open loop, {name}: mean {what}", error, "%", limit))
    return figures


def _recorded(path: Path) -> list[dict[str, str]]:
    packed = path.with_name(f"{path.name}.gz")
    if packed.exists():
        with gzip.open(packed, "rt", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    if path.exists():
        with path.open(encoding="utf-8") as file:
            return list(csv.DictReader(file))
    return []


def _column(
    rows: Sequence[dict[str, str]], name: str
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.array([float(row[name]) for row in rows])
