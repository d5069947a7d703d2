"""What became of a trace under one fleet: the time of every request, and what it was promised."""

import math
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from opentela.placer.replay.fleet import LOADS, Change, Known, Life, gpu_hours, life
from opentela.placer.replay.queue import drain
from opentela.placer.replay.trace import Trace
from opentela.placer.shapes import Floats, Requests

_LOAD_WINDOW_S: Final = 20.0
"""A replica's batch follows its load within the time of a request or two."""

_QUEUED_S: Final = 0.05
"""Who waits longer met full replicas."""


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Times of the requests of one model; infinite where a request was never served."""

    ttft_s: Floats
    e2e_s: Floats
    met: Floats


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one policy came to.

    Attributes:
        slo_attained: Share of requests that were served as promised.
        unserved: Share that was not served by the end.
        slo_by_model: The same for each model that was asked.
    """

    requests: int
    mean_s: float
    p99_s: float
    ttft_mean_s: float
    ttft_p99_s: float
    slo_attained: float
    unserved: float
    gpu_hours: float
    gpus_mean: float
    starts: int
    slo_by_model: dict[str, float]


def outcome(
    trace: Trace,
    models: Sequence[Known],
    changes: Sequence[Change],
    kinds: dict[str, str],
    until_s: float,
) -> Outcome:
    """Return what becomes of *trace* under a fleet that changes.

    Args:
        trace: Requests; it begins at their first.
        models: What is known of each of its models, in its order.
        changes: Everything that the fleet did.
        kinds: GPU type by pool.
        until_s: Until when GPUs are counted.
    """
    from_s = float(trace.requests.arrival_s[0])
    by_model: dict[str, list[Change]] = {one.name: [] for one in models}
    for change in changes:
        by_model[change.group.model].append(change)
    told = {}
    for index, one in enumerate(models):
        mine = trace.of(index)
        if len(mine):
            told[one.name] = times(mine, one, life(by_model[one.name], one, kinds, from_s))
    ttft, e2e, met = (
        np.concatenate([getattr(one, name) for one in told.values()])
        for name in ("ttft_s", "e2e_s", "met")
    )
    hours = gpu_hours(changes, from_s, until_s)
    started = sum(one.replicas for one in changes if one.replicas > 0 and one.held_s >= from_s)
    return Outcome(
        requests=len(e2e),
        mean_s=_mean(e2e),
        p99_s=_percentile(e2e, 0.99),
        ttft_mean_s=_mean(ttft),
        ttft_p99_s=_percentile(ttft, 0.99),
        slo_attained=float(met.mean()),
        unserved=float(np.isinf(e2e).mean()),
        gpu_hours=hours,
        gpus_mean=hours * 3600 / max(until_s - from_s, 1e-9),
        starts=started,
        slo_by_model={name: float(one.met.mean()) for name, one in told.items()},
    )


def times(requests: Requests, model: Known, over: Life) -> Times:
    """Return the times of one model's requests."""
    fresh = (requests.in_tokens - requests.prefix_hit_tokens).astype(np.float64)
    out = requests.out_tokens.astype(np.float64)
    work = model.work(fresh, out)
    arrival = requests.arrival_s
    served = drain(arrival, work, over.speed)
    wait = served.began_s - arrival
    at = np.where(np.isfinite(served.began_s), served.began_s, arrival)
    segment = np.clip(np.searchsorted(over.speed.at_s, at, side="right") - 1, 0, None)
    load = np.where(wait > _QUEUED_S, 1.0, _load(arrival, work, over))
    tpot = _by_load(over.tpot_s[segment], load)
    ttft = wait + over.ttft_s[segment] * fresh / model.in_mean
    e2e = ttft + np.maximum(out - 1, 0) * tpot
    never = ~np.isfinite(served.done_s)
    ttft, e2e = np.where(never, np.inf, ttft), np.where(never, np.inf, e2e)
    slo = model.slo
    met = (ttft <= slo.ttft_s) & (tpot <= slo.tpot_s) & (e2e <= slo.e2e_s) & ~never
    return Times(ttft_s=ttft, e2e_s=e2e, met=met.astype(np.float64))


def _load(arrival: Floats, work: Floats, over: Life) -> Floats:
    """Return how busy the replicas are with what came shortly before each request."""
    came = np.concatenate([[0.0], np.cumsum(work)])
    since = np.searchsorted(arrival, arrival - _LOAD_WINDOW_S)
    recent = came[1:] - came[since]
    start = np.maximum(arrival - _LOAD_WINDOW_S, over.speed.at_s[0])
    could = over.speed.done_by(arrival) - over.speed.done_by(start)
    span = np.maximum(arrival - start, 1e-9)
    # The very first requests have nothing before them to be judged by.
    could = np.where(span < 1.0, np.inf, could)
    load: Floats = np.clip(recent / np.maximum(could, 1e-9), 0.0, 1.0)
    return load


def _by_load(tpot: Floats, load: Floats) -> Floats:
    """Return the time of a token at each request's load, between the loads that are known."""
    grid = np.array(LOADS)
    right = np.clip(np.searchsorted(grid, load), 1, len(grid) - 1)
    low, high = grid[right - 1], grid[right]
    part = np.clip((load - low) / (high - low), 0.0, 1.0)
    rows = np.arange(len(load))
    below, above = tpot[rows, right - 1], tpot[rows, right]
    mixed: Floats = below + part * (above - below)
    return mixed


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def _percentile(values: Floats, share: float) -> float:
    if not len(values):
        return 0.0
    rank = max(0, math.ceil(share * len(values)) - 1)
    return float(np.partition(values, rank)[rank])
