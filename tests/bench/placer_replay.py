"""How quick a replay is, and what dynamic placement is worth on a trace of many bursty models."""

import argparse
import random
import time
from pathlib import Path
from typing import Final

import numpy as np
from tests.bench.report import Figure

from opentela.placer import files
from opentela.placer.problem import Group, Pool
from opentela.placer.replay.controller import Policy
from opentela.placer.replay.fleet import Change, Known, Manner, life
from opentela.placer.replay.outcome import times
from opentela.placer.replay.run import Run, Setting, Way, at_equal_hours
from opentela.placer.replay.run import run as place
from opentela.placer.replay.setting import setting
from opentela.placer.replay.trace import means, parsed, together
from opentela.placer.shapes import Requests, Slo

EXAMPLES: Final = Path(__file__).parents[2] / "docs" / "examples" / "placement"
_COUNT: Final = 1_000_000
_RATE_MIN: Final = 200_000
_SIZES: Final = (0.5, 1.0, 2.0)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the trace."""
    parser.add_argument("--trace", type=Path, default=EXAMPLES / "rates.csv")
    parser.add_argument("--clients", type=Path, default=EXAMPLES / "clients.csv")
    parser.add_argument("--scale", type=float, default=0.002)
    parser.add_argument("--nodes", type=int, default=2, help="of 8 H100, and as many of 8 A100")


def run(options: argparse.Namespace) -> list[Figure]:
    """Return speed, and dynamic placement against the others at equal GPU-hours."""
    return [_speed(), *_placements(options), *_services(options)]


def _speed() -> Figure:
    draw = np.random.default_rng(0)
    manner = Manner(50.0, 0.1, (0.01,) * 5)
    known = Known("m", 500.0, 200.0, 0.3, Slo(ttft_s=2.0), {("g", 1, 1): manner})
    requests = Requests(
        arrival_s=np.cumsum(draw.exponential(1 / 400, size=_COUNT)),
        in_tokens=draw.integers(1, 1000, size=_COUNT),
        out_tokens=draw.integers(1, 400, size=_COUNT),
        prefix_hit_tokens=np.zeros(_COUNT, dtype=np.int64),
    )
    group = Group("m", "p", 1)
    changes = [Change(group, 60.0 * i, 60.0 * i, 1 if i % 3 else 12) for i in range(40)]
    over = life(changes, known, {"p": "g"}, 0.0)
    began = time.perf_counter()
    times(requests, known, over)
    rate = _COUNT / (time.perf_counter() - began)
    return Figure("analytic replay", rate, "requests/s", "> 200000", rate > _RATE_MIN)


def _placements(options: argparse.Namespace) -> list[Figure]:
    lengths = means(options.clients.read_text())
    trace = parsed(
        options.trace.read_text(), "m", random.Random(1), scale=options.scale, lengths=lengths
    )
    served = files.read(EXAMPLES / "models.toml", files.ServedFile).model
    made = setting(trace, _pools(options.nodes), served, 0.5)
    return _compared(made, "many models")


def _services(options: argparse.Namespace) -> list[Figure]:
    """Three services of production, for as long as their traces are."""
    trace = together(
        [
            parsed((EXAMPLES / f"{name}.csv").read_text(), name, random.Random(1))
            for name in ("conversation", "code", "mooncake")
        ]
    )
    served = files.read(EXAMPLES / "services-models.toml", files.ServedFile).model
    return _compared(setting(trace, _pools(options.nodes), served, 0.5), "three services")


def _compared(made: Setting, name: str) -> list[Figure]:
    runs = [place(made, way, Policy(), size=size) for size in _SIZES for way in Way]
    about = f"{name}, {len(made.future.requests)} requests judged"
    return [
        *(figure for one in runs for figure in _figures(one, name)),
        *(
            Figure(
                f"as promised at {one.gpu_hours:.0f} GPU-hours, {one.way} ({about})",
                100 * one.dynamic_slo,
                "%",
                f"> {100 * one.other_slo:.1f} ({one.against})",
                one.dynamic_slo > one.other_slo,
            )
            for way in (Way.STATIC, Way.MEMORY)
            for one in at_equal_hours(runs, way)
        ),
    ]


def _pools(nodes: int) -> list[Pool]:
    return [
        Pool(name=gpu, gpu=gpu, nodes=nodes, gpus_per_node=8)
        for gpu in ("h100-80g-sxm", "a100-80g-sxm")
    ]


def _figures(one: Run, trace: str) -> list[Figure]:
    name = f"{trace}, {one.way}, {one.gpus} GPUs"
    told = one.outcome
    return [
        Figure(f"{name}: as promised", 100 * told.slo_attained, "%"),
        Figure(f"{name}: P99", told.p99_s if np.isfinite(told.p99_s) else -1.0, "s (-1: never)"),
        Figure(f"{name}: without any replica", 100 * told.unserved, "%"),
        Figure(f"{name}: held", told.gpu_hours, "GPU-hours"),
    ]
