"""Replica shapes: every way to run what is asked on what there is, with what each can do."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from opentela.placer.load_cost import LoadCost
from opentela.placer.problem import GPUS_PER_STAGE, Option, Pool
from opentela.placer.shapes import Floats, Gpu, Model, ReplicaShape, Slo, Workload
from opentela.placer.simulate import analytic, memory

SAFE: Final = 0.9
"""Utilisation up to which a replica without promises is used: beyond, waiting grows without end."""

UTILISATIONS: Final = (0.05, 0.3, 0.5, 0.7, 0.85, 0.95)
"""Where the time of a request is worked out, for the objective that is about it."""

_PP: Final = (1, 2, 4, 8)
_NEVER: Final = 1e-9


class Wanted(NamedTuple):
    """One demand as the simulator sees it.

    Attributes:
        name: What the demand is called.
        tp: Sizes of tensor parallelism that may be used; empty for all.
        pp: Pipeline stages that may be used; empty for as few as work.
    """

    name: str
    model: Model
    workload: Workload
    slo: Slo
    w_dtype: str = "bf16"
    kv_dtype: str = "bf16"
    engine: str = "vllm"
    tp: tuple[int, ...] = ()
    pp: tuple[int, ...] = ()


class Enumerated(NamedTuple):
    """What there is to choose from.

    Attributes:
        shapes: The shape of each option, in the order of the options.
        capacity_rps: What each serves at saturation, promises or not.
        notes: By demand without an option: why.
    """

    options: tuple[Option, ...]
    shapes: tuple[ReplicaShape, ...]
    capacity_rps: Floats
    notes: dict[str, str]


def enumerate_options(
    wanted: Sequence[Wanted],
    pools: Sequence[Pool],
    gpus: Mapping[str, Gpu],
    load_cost: LoadCost,
    *,
    keeps_promises: bool = True,
    with_latency: bool = False,
) -> Enumerated:
    """Return every shape that can run and what it can do.

    Args:
        wanted: The demands.
        pools: Where they may run.
        gpus: By type, those that the simulator knows; others are skipped.
        load_cost: What starting costs.
        keeps_promises: Capacities keep the promised latencies; otherwise they are those of
            saturation, less a reserve.
        with_latency: Also work out the time of a request by utilisation.
    """
    known = [pool for pool in pools if pool.gpu in gpus]
    pairs = [(one, shape) for one in wanted for shape in _shapes(one, known, gpus)]
    estimates = analytic.estimate(
        [shape for _, shape in pairs],
        [one.workload for one, _ in pairs],
        slo=[one.slo for one, _ in pairs],
    )
    kept = [i for i, reason in enumerate(estimates.reasons) if reason is None]
    full = estimates.capacity_rps
    usable = np.array(
        [
            estimates.slo_rps[i] if keeps_promises and _is_promised(one.slo) else SAFE * full[i]
            for i, (one, _) in enumerate(pairs)
        ]
    )
    kept = _with_fewest_stages(pairs, [i for i in kept if usable[i] > _NEVER])
    curves = _latencies([pairs[i] for i in kept], full[kept]) if with_latency else [()] * len(kept)
    options = tuple(
        Option(
            model=pairs[i][0].name,
            gpu=pairs[i][1].gpu.id,
            tp=pairs[i][1].tp,
            pp=pairs[i][1].pp,
            capacity_rps=float(usable[i]),
            latency_s=curve,
            load_s=_load_s(load_cost, pairs[i][1]),
        )
        for i, curve in zip(kept, curves, strict=True)
    )
    reasons = [_reason(estimates.reasons[i], full[i], usable[i]) for i in range(len(pairs))]
    return Enumerated(
        options,
        tuple(pairs[i][1] for i in kept),
        full[kept],
        _notes(wanted, pairs, reasons, {option.model for option in options}),
    )


def _shapes(one: Wanted, pools: Sequence[Pool], gpus: Mapping[str, Gpu]) -> Iterator[ReplicaShape]:
    node: dict[str, int] = {}
    total: dict[str, int] = {}
    for pool in pools:
        node[pool.gpu] = max(node.get(pool.gpu, 0), pool.gpus_per_node)
        total[pool.gpu] = max(total.get(pool.gpu, 0), pool.gpus)
    for gpu, tp, pp in itertools.product(node, one.tp or GPUS_PER_STAGE, one.pp or _PP):
        # More stages than one are for what one node cannot hold.
        if tp <= node[gpu] and tp * pp <= total[gpu] and (one.pp or pp == 1 or tp == node[gpu]):
            yield ReplicaShape(
                model=one.model,
                gpu=msgspec.structs.replace(gpus[gpu], gpus_per_node=node[gpu]),
                tp=tp,
                pp=pp,
                w_dtype=one.w_dtype,
                kv_dtype=one.kv_dtype,
                engine=one.engine,
            )


def _with_fewest_stages(
    pairs: Sequence[tuple[Wanted, ReplicaShape]], usable: Sequence[int]
) -> list[int]:
    """Drop shapes of more stages than the same GPUs need; they are slower and no cheaper."""
    fewest: dict[tuple[str, str], int] = {}
    for i in usable:
        one, shape = pairs[i]
        key = one.name, shape.gpu.id
        fewest[key] = min(fewest.get(key, shape.pp), shape.pp)
    return [
        i
        for i in usable
        if pairs[i][0].pp or pairs[i][1].pp == fewest[pairs[i][0].name, pairs[i][1].gpu.id]
    ]


def _latencies(
    pairs: Sequence[tuple[Wanted, ReplicaShape]], full: Floats
) -> list[tuple[tuple[float, float], ...]]:
    """Return the mean time of a request of each pair at a few utilisations."""
    asked = [
        msgspec.structs.replace(one.workload, rate_rps=float(rate) * share)
        for share in UTILISATIONS
        for (one, _), rate in zip(pairs, full, strict=True)
    ]
    told = analytic.estimate([shape for _, shape in pairs] * len(UTILISATIONS), asked).e2e_s
    table = told.reshape(len(UTILISATIONS), len(pairs))
    return [
        tuple(zip(UTILISATIONS, (float(s) for s in table[:, column]), strict=True))
        for column in range(len(pairs))
    ]


def _load_s(load_cost: LoadCost, shape: ReplicaShape) -> float:
    """Return how long a replica loads; the GPUs of one node share its disk."""
    return load_cost.load_s(memory.weight_bytes(shape) * shape.stage_gpus)


def _is_promised(slo: Slo) -> bool:
    return min(slo.ttft_s, slo.tpot_s, slo.e2e_s) < float("inf")


def _reason(reason: str | None, full: float, usable: float) -> str:
    if reason is not None:
        return str(reason)
    return "no load is so small that it keeps its promises" if full > 0 >= usable - _NEVER else ""


def _notes(
    wanted: Iterable[Wanted],
    pairs: Sequence[tuple[Wanted, ReplicaShape]],
    reasons: Sequence[str],
    placed: set[str],
) -> dict[str, str]:
    """Return, for each demand without an option, what kept each GPU from running it."""
    notes = {}
    for one in wanted:
        if one.name not in placed:
            said: dict[str, set[str]] = {}
            for (other, shape), reason in zip(pairs, reasons, strict=True):
                if other.name == one.name and reason:
                    said.setdefault(reason, set()).add(shape.gpu.id)
            notes[one.name] = "; ".join(
                f"{reason} ({', '.join(sorted(gpus))})" for reason, gpus in sorted(said.items())
            )
    return notes
