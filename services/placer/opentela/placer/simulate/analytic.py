"""What replicas do under a steady load, in closed form and for thousands at once.

A replica is a queue of as many servers as sequences may run, whose service slows down as more of
them are busy. Its batch, token time and rate are worked out at a few degrees of fullness; what was
asked for lies between two of them. Waiting is that of a queue with general arrivals and lengths
(Sakasegawa's formula for slots, Pollaczek and Khinchine's for the prompts before one's own).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from opentela.placer.fit import BASES, Fit, shipped
from opentela.placer.shapes import (
    Estimates,
    Floats,
    Reason,
    ReplicaShape,
    Slo,
    Workload,
)
from opentela.placer.simulate import columns, memory, steady
from opentela.placer.simulate.columns import Columns
from opentela.placer.simulate.steady import Lengths
from opentela.placer.simulate.step import factor

feasible = memory.feasible

_FULLNESS: Final = np.array([0.0, 0.01, 0.03, 0.08, 0.2, 0.4, 0.6, 0.75, 0.87, 0.94, 0.98, 0.999])
"""Shares of the running sequences that fit, at which a replica is worked out."""
_SPREAD_MOST: Final = 3.0
"""Squared coefficient of variation of lengths beyond which limits on their length matter more."""
_UNPROMISED: Final = Slo()
_RARE: Final = 0.01
_Z99: Final = 2.326


class _Curve(NamedTuple):
    """A replica at each degree of fullness: arrays of shape (N, len(_FULLNESS))."""

    rps: Floats
    ttft: Floats
    tpot: Floats
    e2e: Floats
    ttft_p99: Floats
    e2e_p99: Floats


class _Demand(NamedTuple):
    """Workloads as columns of shape (N, 1)."""

    rate: Floats
    lengths: Lengths
    in_cv2: Floats
    out_cv2: Floats
    arrival_cv2: Floats


def estimate(
    shapes: Sequence[ReplicaShape],
    workloads: Sequence[Workload],
    *,
    slo: Slo | Sequence[Slo] = _UNPROMISED,
    fit: Fit | None = None,
) -> Estimates:
    """Return what one replica of `shapes[i]` does with `workloads[i]`, for every i.

    The rate of a workload is what arrives at that one replica.
    """
    if not shapes:
        return _nothing()
    c, z = columns.of(shapes, fit or shipped())
    demand = _demand(workloads)
    most = steady.running_max(c, z, demand.lengths)
    full = steady.saturated(c, z, demand.lengths).rps[:, 0]
    curve = _curve(c, z, demand, most)
    reasons = _reasons(shapes, workloads, c.kv_tokens[:, 0].tolist())
    can = np.array([reason is None for reason in reasons])
    rate = demand.rate[:, 0]
    slos = [slo] * len(shapes) if isinstance(slo, Slo) else slo
    overloaded = ~can | (rate >= full)

    def at_rate(values: Floats) -> Floats:
        found = _interpolated(rate, curve.rps, values)
        return np.where(overloaded, np.inf, found)

    return Estimates(
        capacity_rps=np.where(can, full, 0.0),
        slo_rps=np.where(can, _slo_rps(curve, slos, full), 0.0),
        batch_max=np.where(can, most[:, 0], 0.0),
        utilisation=np.where(can, rate / full, np.inf),
        ttft_s=at_rate(curve.ttft),
        tpot_s=at_rate(curve.tpot),
        e2e_s=at_rate(curve.e2e),
        ttft_p99_s=at_rate(curve.ttft_p99),
        e2e_p99_s=at_rate(curve.e2e_p99),
        kv_tokens=c.kv_tokens[:, 0],
        usd_h=np.array([shape.gpus * shape.gpu.price_usd_h for shape in shapes]),
        reasons=reasons,
    )


def _nothing() -> Estimates:
    none = np.zeros(0)
    return Estimates(
        capacity_rps=none,
        slo_rps=none,
        batch_max=none,
        utilisation=none,
        ttft_s=none,
        tpot_s=none,
        e2e_s=none,
        ttft_p99_s=none,
        e2e_p99_s=none,
        kv_tokens=none,
        usd_h=none,
        reasons=[],
    )


def _reasons(
    shapes: Sequence[ReplicaShape], workloads: Sequence[Workload], held: Sequence[float]
) -> list[Reason | None]:
    each = zip(shapes, workloads, held, strict=True)
    return [memory.feasible(shape, load, held=tokens) for shape, load, tokens in each]


def _demand(workloads: Sequence[Workload]) -> _Demand:
    table = np.array(
        [
            (w.rate_rps, w.in_len, w.out_len, w.in_cv, w.out_cv, w.prefix_hit, w.burstiness_cv)
            for w in workloads
        ]
    )
    rate, prompt, answer, in_cv, out_cv, hit, arrivals = (column[:, None] for column in table.T)
    answer = np.maximum(answer, 1.0)
    grown = answer / 2 * (1 + np.minimum(out_cv**2, _SPREAD_MOST))
    lengths = Lengths(prompt, prompt * (1 - hit), answer, grown)
    return _Demand(rate, lengths, in_cv**2, out_cv**2, arrivals**2)


def _curve(c: Columns, z: Floats, demand: _Demand, most: Floats) -> _Curve:
    running = most * _FULLNESS
    # A request meets those that run on average, and itself.
    met = np.minimum(running + 1, most)
    lengths = Lengths(*(np.broadcast_to(one, running.shape) for one in demand.lengths))
    tpot, prompt = steady.token_s(c, z, met, lengths)
    service = demand.lengths.answer * tpot
    rps = running / service
    slots, share = _slot_wait(demand, most, running / most, service)
    before = _prompt_wait(demand, rps, prompt / c.pp)
    request = factor(z, "request") * BASES["request"]
    ttft = request + tpot / 2 + prompt + before + slots
    e2e = ttft + (demand.lengths.answer - 1) * tpot
    tail = ttft + _tail(before, np.minimum(rps * prompt, 1.0)) + _tail(slots, share)
    spread = np.sqrt(np.log1p(demand.out_cv2))
    longest = np.exp(_Z99 * spread - spread**2 / 2) - 1
    e2e_tail = e2e + np.hypot(tail - ttft, longest * service)
    return _Curve(rps, ttft, tpot, e2e, tail, e2e_tail)


def _slot_wait(
    demand: _Demand, most: Floats, fullness: Floats, service: Floats
) -> tuple[Floats, Floats]:
    """Return the mean wait for a slot, and the share of requests that wait at all."""
    scatter = (demand.arrival_cv2 + 1 + np.minimum(demand.out_cv2, _SPREAD_MOST)) / 2
    share = fullness ** (np.sqrt(2 * (most + 1)) - 1)
    return scatter * share / (most * (1 - fullness)) * service, share


def _prompt_wait(demand: _Demand, rps: Floats, prompt: Floats) -> Floats:
    """Return the mean wait for the prompts of others that are worked on before one's own."""
    busy = np.minimum(rps * prompt, 0.98)
    scatter = (demand.arrival_cv2 + demand.in_cv2) / 2
    wait: Floats = busy / (1 - busy) * scatter * prompt
    return wait


def _tail(mean: Floats, share: Floats) -> Floats:
    """Return how far the 99th percentile of a wait lies beyond its mean.

    Of those that wait, which are *share*, the waits are taken to be exponential.
    """
    share = np.maximum(share, 1e-12)
    waits = mean / share
    beyond: Floats = np.maximum(waits * np.log(np.maximum(share / _RARE, 1.0)) - mean, 0.0)
    return beyond


def _interpolated(at: Floats, x: Floats, y: Floats) -> Floats:
    """Return *y* where *x*, which grows along the second axis, is *at*."""
    rows = np.arange(len(at))
    right = np.clip((x < at[:, None]).sum(axis=1), 1, x.shape[1] - 1)
    x0, x1 = x[rows, right - 1], x[rows, right]
    share = np.clip((at - x0) / np.maximum(x1 - x0, 1e-300), 0.0, 1.0)
    # Times grow like 1 / (1 - load): their inverses lie on lines.
    found: Floats = 1 / ((1 - share) / y[rows, right - 1] + share / y[rows, right])
    return found


def _slo_rps(curve: _Curve, slos: Sequence[Slo], full: Floats) -> Floats:
    """Return the greatest rate at which no mean is beyond what was promised."""
    promised = np.array([(one.ttft_s, one.tpot_s, one.e2e_s) for one in slos])
    excess = np.stack([curve.ttft, curve.tpot, curve.e2e]) / promised.T[:, :, None]
    worst = np.maximum(excess.max(axis=0), 1e-12)
    held = worst <= 1
    # Times grow with the load, but for the first few points where a step may get no longer.
    last = np.where(held.any(axis=1), held.shape[1] - 1 - held[:, ::-1].argmax(axis=1), -1)
    rows = np.arange(len(last))
    right = np.minimum(last + 1, held.shape[1] - 1)
    a, b = 1 / worst[rows, last], 1 / worst[rows, right]
    share = np.clip((a - 1) / np.maximum(a - b, 1e-12), 0.0, 1.0)
    reached = curve.rps[rows, last] + share * (curve.rps[rows, right] - curve.rps[rows, last])
    reached = np.where(right == last, full, reached)
    return np.where(last < 0, 0.0, np.minimum(reached, full))
