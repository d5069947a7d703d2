"""One judge for every placement: the same requests, the same router, the same figures.

Placements used to be compared under routers of their own, by requests per second added up over
models. That rewards serving much of what is cheap to serve, and mixes what the placement does with
what the router does.
"""

import math
from collections.abc import Mapping

import msgspec
import numpy as np

from opentela.core.rng import Rng
from opentela.placer.problem import Counts, Group, Problem, gpus
from opentela.placer.replay.queue import Speed, drain
from opentela.placer.shapes import Floats


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a batch of requests under one placement.

    Attributes:
        served: Share of its demand that each model has capacity for, at most 1.
        rate_rps: By model: requests over the time until the last of them ended.
        makespan_s: From the first arrival until the last request of all ended.
        mean_s: Mean time of a request, and p99_s the time that 99 of 100 stay below.
        gpu_hours: GPUs held until the last request ended.
    """

    served: dict[str, float]
    rate_rps: dict[str, float]
    makespan_s: float
    mean_s: float
    p99_s: float
    gpu_hours: float

    @property
    def served_min(self) -> float:
        """The share that the worst served model gets."""
        return min(self.served.values(), default=1.0)


def judge(
    problem: Problem,
    counts: Counts,
    *,
    duration_s: float,
    rng: Rng,
    shares: Mapping[Group, float] | None = None,
) -> Judgement:
    """Return what becomes of the requests of *duration_s* under *counts*.

    Args:
        problem: What is asked, and what each replica does.
        counts: The placement.
        duration_s: How long requests arrive.
        rng: Draws arrivals (Poisson); the same seed gives the same requests for every placement.
        shares: Where a router of its own sends the requests of each model, by group. By default
            each goes to the least loaded replica, and all of them work like one.
    """
    capacities = _capacities(problem, counts)
    served, rates, ends, times = {}, {}, [0.0], [np.zeros(0)]
    for demand in problem.demands:
        here = {group: rps for group, rps in capacities.items() if group.model == demand.model}
        split = _split(here, shares)
        arrivals = _arrivals(demand.rate_rps, duration_s, rng)
        if shares is None and here:
            done = _drained(arrivals, math.fsum(here.values()))
        else:
            done = _done(arrivals, here, split, rng)
        usable = min((here[group] / part for group, part in split.items() if part), default=0.0)
        served[demand.model] = min(1.0, usable / demand.rate_rps) if demand.rate_rps else 1.0
        if len(arrivals):
            end = float(done.max())
            rates[demand.model] = len(arrivals) / end if math.isfinite(end) else 0.0
            ends.append(end)
            times.append(done - arrivals)
    spent = np.concatenate(times)
    return Judgement(
        served=served,
        rate_rps=rates,
        makespan_s=max(ends),
        mean_s=float(spent.mean()) if len(spent) else 0.0,
        p99_s=_percentile(spent, 0.99),
        gpu_hours=gpus(counts) * max(ends) / 3600,
    )


def _capacities(problem: Problem, counts: Counts) -> dict[Group, float]:
    options = problem.candidates()
    return {group: options[group].capacity_rps * n for group, n in counts.items() if n}


def _split(here: Mapping[Group, float], shares: Mapping[Group, float] | None) -> dict[Group, float]:
    if shares is not None:
        return {group: shares[group] for group in here}
    total = math.fsum(here.values())
    return {group: rps / total for group, rps in here.items()}


def _arrivals(rate_rps: float, duration_s: float, rng: Rng) -> Floats:
    """Return as many arrivals as are expected, at instants drawn at random."""
    count = round(rate_rps * duration_s)
    draw = np.random.default_rng(int.from_bytes(rng.randbytes(8), "big"))
    return np.sort(draw.random(count)) * duration_s


def _done(
    arrivals: Floats, here: Mapping[Group, float], split: Mapping[Group, float], rng: Rng
) -> Floats:
    """Return when each request ends; infinite where its model has no replica."""
    done = np.full(len(arrivals), np.inf)
    if not here or not len(arrivals):
        return done
    draw = np.random.default_rng(int.from_bytes(rng.randbytes(8), "big"))
    groups = list(here)
    edges = np.cumsum([split[group] for group in groups])
    chosen = np.minimum(
        np.searchsorted(edges, draw.random(len(arrivals)), side="right"), len(groups) - 1
    )
    for index, group in enumerate(groups):
        mine = chosen == index
        done[mine] = _drained(arrivals[mine], here[group])
    return done


def _drained(arrivals: Floats, rps: float) -> Floats:
    """Return when each request ends that goes to replicas which serve *rps* together."""
    return drain(arrivals, np.ones(len(arrivals)), Speed(np.zeros(1), np.array([rps]))).done_s


def _percentile(values: Floats, share: float) -> float:
    """Return the least value that *share* of all do not exceed; infinite ones count too."""
    if not len(values):
        return 0.0
    rank = max(0, math.ceil(share * len(values)) - 1)
    return float(np.partition(values, rank)[rank])
