"""How near to its bound the solver comes, and how soon, on random instances of one size.

Each has 150 models of the catalogue (drawn with their lengths and promises), 8 types of GPU and
about 500 GPUs; demand falls with rank as Zipf's law has it. `--show` prints every instance.
"""

import argparse
import random
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec
from tests.bench.report import Figure

from opentela.placer import catalogue
from opentela.placer.load_cost import measured
from opentela.placer.options import Wanted, enumerate_options
from opentela.placer.problem import Demand, Pool, Problem, is_within
from opentela.placer.published import published
from opentela.placer.shapes import Slo, Workload
from opentela.placer.solve.milp import Limits
from opentela.placer.solve.result import Objective, Solved
from opentela.placer.solve.run import solve

MODELS: Final = 150
GPUS: Final = 500
TYPES: Final = 8
_KINDS: Final = [
    "a10-24g",
    "a100-40g-sxm",
    "a100-80g-sxm",
    "b200-180g-sxm",
    "gh200-96g",
    "h100-80g-sxm",
    "h100-94g-nvl",
    "h200-141g-sxm",
    "l4-24g",
    "l40s-48g",
    "mi300x-192g",
    "rtx4090-24g",
]
_FITS: Final = 0.7
"""Share of what can be had at all that is asked where everything is to be served."""


class Case(NamedTuple):
    """One objective at one load, and what it has to reach.

    Attributes:
        load: What is asked over what all GPUs could serve, roughly; 0: what fits.
    """

    name: str
    objective: Objective
    load: float
    limits: Limits
    gap_max: float
    time_max_s: float


# Time is that on a processor, so that a busy machine changes little. Limits are by the clock, and
# wide therefore: the gap is what ends the search.
_QUICK: Final = Limits(time_s=5.0, gap=0.0095)
_LONG: Final = Limits(time_s=4.6, gap=0.04)
CASES: Final = (
    Case("cost, demand fits", Objective.COST, 0.0, _QUICK, 0.01, 1.0),
    Case("served, half of what there is", Objective.SERVED, 0.5, _QUICK, 0.01, 1.0),
    Case("served, contended", Objective.SERVED, 2.0, _QUICK, 0.01, 1.0),
    Case("max-min, demand fits", Objective.MAX_MIN, 0.0, _LONG, 0.05, 5.0),
    Case("max-min, half of what there is", Objective.MAX_MIN, 0.5, _LONG, 0.05, 5.0),
    Case("max-min, contended", Objective.MAX_MIN, 2.0, _LONG, 0.05, 5.0),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare how many instances are solved."""
    parser.add_argument("--instances", type=int, default=20)
    parser.add_argument("--solver", choices=("highs", "cp-sat"), default="highs")
    parser.add_argument("--show", action="store_true", help="print every instance")


def run(options: argparse.Namespace) -> list[Figure]:
    """Return the worst and the median gap and time of each case."""
    figures = [_published()]
    for case in CASES:
        told = [_measured(case, seed, options.solver) for seed in range(options.instances)]
        gaps, times = [gap for gap, _ in told], [spent for _, spent in told]
        if options.show:
            for seed, (gap, spent) in enumerate(told):
                print(f"{case.name:34} {seed:3} gap {gap:7.3%} in {spent:5.2f} s", flush=True)
        figures += [
            Figure.below(f"{case.name}: worst gap", 100 * max(gaps), "%", 100 * case.gap_max),
            Figure.below(f"{case.name}: longest", max(times), "s CPU", case.time_max_s),
            Figure(f"{case.name}: median gap", 100 * _median(gaps), "%"),
            Figure(f"{case.name}: median time", _median(times), "s CPU"),
        ]
    return figures


def instance(seed: int, load: float, *, promised: bool = True) -> Problem:
    """Return a random problem."""
    draw = random.Random(seed)
    pools = _pools(draw)
    wanted = [_wanted(draw, f"m{i}") for i in range(MODELS)]
    made = enumerate_options(wanted, pools, catalogue.gpus(), measured(), keeps_promises=promised)
    best: dict[str, float] = {}
    for option in made.options:
        each = option.capacity_rps / option.gpus
        best[option.model] = max(best.get(option.model, 0.0), each)
    shares = {
        one.name: draw.lognormvariate(0.0, 0.5) / (rank + 1)
        for rank, one in enumerate(wanted)
        if one.name in best
    }
    gpus = sum(pool.gpus for pool in pools)
    total = sum(shares.values())
    demands = tuple(
        Demand(model=name, rate_rps=share / total * gpus * (load or 0.5) * best[name])
        for name, share in shares.items()
    )
    problem = Problem(pools=pools, demands=demands, options=made.options)
    return problem if load else _fitting(problem)


def _fitting(problem: Problem) -> Problem:
    """Return *problem* with demands scaled to what can be served."""
    share = solve(problem, Objective.MAX_MIN, limits=_LONG).value * _FITS
    demands = tuple(
        msgspec.structs.replace(one, rate_rps=one.rate_rps * share) for one in problem.demands
    )
    return msgspec.structs.replace(problem, demands=demands)


def _pools(draw: random.Random) -> tuple[Pool, ...]:
    kinds = draw.sample(_KINDS, TYPES)
    weights = [draw.random() + 0.3 for _ in kinds]
    pools = []
    for kind, weight in zip(kinds, weights, strict=True):
        gpu = catalogue.gpu(kind)
        nodes = max(1, round(GPUS * weight / sum(weights) / gpu.gpus_per_node))
        pools.append(
            Pool(
                name=kind,
                gpu=kind,
                nodes=nodes,
                gpus_per_node=gpu.gpus_per_node,
                usd_h=gpu.price_usd_h or 1.0,
            )
        )
    return tuple(pools)


def _wanted(draw: random.Random, name: str) -> Wanted:
    models = list(catalogue.models().values())
    load = Workload(
        rate_rps=0.0,
        in_len=20 + draw.lognormvariate(6.3, 0.8),
        out_len=5 + draw.lognormvariate(5.2, 0.7),
        in_cv=1.0,
        out_cv=1.0,
    )
    return Wanted(name, draw.choice(models), load, Slo(ttft_s=5.0, tpot_s=0.15))


def _measured(case: Case, seed: int, solver: str) -> tuple[float, float]:
    problem = instance(seed, case.load, promised=case.objective is not Objective.SERVED)
    solved, spent = _timed(
        lambda: solve(problem, case.objective, limits=case.limits, solver=solver)
    )
    assert is_within(problem, solved.counts), "a placement that does not fit"
    return solved.gap, spent


def _published() -> Figure:
    case = published()
    exact = Limits(time_s=30.0, gap=0.0)
    solved, spent = _timed(lambda: solve(case.problem(), Objective.MAX_MIN, limits=exact))
    is_found = solved.counts == case.counts(case.placements[0])
    name = f"published case, proven to {100 * solved.gap:.4f} %"
    return Figure(name, spent, "s", "its placement", is_found and solved.gap < 2e-5)


def _timed(work: Callable[[], Solved]) -> tuple[Solved, float]:
    began = time.process_time()
    solved = work()
    return solved, time.process_time() - began


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
