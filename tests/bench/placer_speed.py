"""How quick the simulator is: estimates a second, events a second, one core."""

import argparse
import time
from typing import Final

import numpy as np
from tests.bench.report import Figure

from opentela.placer import catalogue
from opentela.placer.shapes import Replica, ReplicaShape, Requests, RoutePolicy, Slo, Workload
from opentela.placer.simulate import analytic, discrete

_ROUNDS: Final = 5
_US: Final = 1e6
_GPUS: Final = ("a100-80g-sxm", "h100-80g-sxm", "h200-141g-sxm", "l40s-48g", "b200-180g-sxm")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare how much is simulated."""
    parser.add_argument("--requests", type=int, default=20_000)


def run(options: argparse.Namespace) -> list[Figure]:
    """Return times of the analytic model and rates of the discrete one."""
    return [_analytic(), *_discrete(options.requests)]


def _analytic() -> Figure:
    shapes = [
        ReplicaShape(model=model, gpu=catalogue.gpu(gpu), tp=tp, pp=pp, w_dtype=w_dtype)
        for model in catalogue.models().values()
        for gpu in _GPUS
        for tp in (1, 2, 4, 8)
        for pp in (1, 2)
        for w_dtype in ("bf16", "fp8")
    ]
    loads = [Workload(rate_rps=1.0, in_len=800, out_len=300, in_cv=1, out_cv=1)] * len(shapes)
    slo = Slo(ttft_s=2.0, tpot_s=0.1)
    analytic.estimate(shapes[:8], loads[:8], slo=slo)
    took = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        analytic.estimate(shapes, loads, slo=slo)
        took.append((time.perf_counter() - began) / len(shapes) * _US)
    name = f"analytic, {len(shapes)} configurations at once, each"
    return Figure.below(name, float(np.median(took)), "us", 50.0)


def _discrete(count: int) -> list[Figure]:
    fleet = [
        Replica(shape=ReplicaShape(model=catalogue.model("llama-3.1-8b"), gpu=catalogue.gpu(gpu)))
        for gpu in ("a100-80g-sxm", "h100-80g-sxm") * 2
    ]
    figures = []
    for load, rate in (("light", 10.0), ("heavy", 60.0)):
        trace = _trace(count, rate)
        began = time.perf_counter()
        done = discrete.simulate(trace, fleet, RoutePolicy.LEAST_LOAD)
        took = time.perf_counter() - began
        events = done.events / took
        figures += [
            Figure(
                f"discrete, {load} load, four replicas", events, "events/s", "> 20000", events > 2e4
            ),
            Figure(f"discrete, {load} load, four replicas", count / took, "requests/s"),
        ]
    return figures


def _trace(count: int, rate: float) -> Requests:
    random = np.random.default_rng(7)
    return Requests(
        arrival_s=np.cumsum(random.exponential(1 / rate, count)),
        in_tokens=random.lognormal(6.3, 0.8, count).astype(np.int64) + 1,
        out_tokens=random.lognormal(5.2, 0.7, count).astype(np.int64) + 1,
        prefix_hit_tokens=np.zeros(count, dtype=np.int64),
    )
