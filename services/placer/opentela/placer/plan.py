"""A plan: what to run where, why, how good it is, and how to get there."""

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from opentela.core.rng import Rng
from opentela.placer.baselines.greedy import greedy
from opentela.placer.baselines.memory_proportional import memory_proportional
from opentela.placer.judge import Judgement, judge
from opentela.placer.moves import Move, moves
from opentela.placer.problem import Counts, Group, Option, Problem, capacity, gpus, served, usd_h
from opentela.placer.solve.result import Objective, Solved

BATCH_S: Final = 300.0
"""Length of the batch by which placements are compared."""


class ModelPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What one model gets.

    Attributes:
        wanted_rps: Asked for, headroom included.
        capacity_rps: What its replicas serve as promised.
        served: Share of what is asked that they have capacity for, at most 1.
    """

    model: str
    wanted_rps: float
    capacity_rps: float
    served: float
    replicas: int
    gpus: int


class GroupPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Replicas that are alike."""

    model: str
    pool: str
    gpu: str
    tp: int
    pp: int
    replicas: int
    gpus: int
    capacity_rps: float
    usd_h: float


class PoolPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a pool is used."""

    pool: str
    gpu: str
    gpus: int
    used: int


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `otela plan` tells.

    Attributes:
        value: What the placement reaches, in `unit`, and `bound` what none exceeds.
        moves: From what runs to the plan.
    """

    objective: Objective
    unit: str
    value: float
    bound: float
    gap: float
    verdict: str
    solver: str
    took_s: float
    usd_h: float
    gpus: int
    models: tuple[ModelPlan, ...]
    groups: tuple[GroupPlan, ...]
    pools: tuple[PoolPlan, ...]
    moves: tuple[Move, ...]
    notes: tuple[str, ...] = ()


def plan(problem: Problem, solved: Solved, notes: tuple[str, ...] = ()) -> Plan:
    """Return what *solved* means for people."""
    return Plan(
        objective=solved.objective,
        unit=solved.objective.unit,
        value=solved.value,
        bound=solved.bound,
        gap=solved.gap,
        verdict=solved.verdict,
        solver=solved.solver,
        took_s=solved.took_s,
        usd_h=usd_h(problem, solved.counts),
        gpus=gpus(solved.counts),
        models=_models(problem, solved.counts),
        groups=_groups(problem, solved.counts),
        pools=_pools(problem, solved.counts),
        moves=tuple(moves(problem, solved.counts)),
        notes=notes,
    )


def _models(problem: Problem, counts: Counts) -> tuple[ModelPlan, ...]:
    have, share = capacity(problem, counts), served(problem, counts)
    return tuple(
        ModelPlan(
            model=demand.model,
            wanted_rps=demand.rate_rps,
            capacity_rps=have[demand.model],
            served=share[demand.model],
            replicas=sum(n for group, n in counts.items() if group.model == demand.model),
            gpus=sum(g.gpus * n for g, n in counts.items() if g.model == demand.model),
        )
        for demand in problem.demands
    )


def _groups(problem: Problem, counts: Counts) -> tuple[GroupPlan, ...]:
    options = problem.candidates()
    pools = {pool.name: pool for pool in problem.pools}
    return tuple(
        GroupPlan(
            model=group.model,
            pool=group.pool,
            gpu=pools[group.pool].gpu,
            tp=group.tp,
            pp=group.pp,
            replicas=count,
            gpus=group.gpus * count,
            capacity_rps=options[group].capacity_rps * count,
            usd_h=pools[group.pool].usd_h * group.gpus * count,
        )
        for group, count in sorted(counts.items())
        if count
    )


def _pools(problem: Problem, counts: Counts) -> tuple[PoolPlan, ...]:
    return tuple(
        PoolPlan(
            pool=pool.name,
            gpu=pool.gpu,
            gpus=pool.gpus,
            used=sum(group.gpus * n for group, n in counts.items() if group.pool == pool.name),
        )
        for pool in problem.pools
    )


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One placement among others, all judged by the same requests under the same router."""

    name: str
    gpus: int
    usd_h: float
    judgement: Judgement


def compared(
    problem: Problem,
    placements: Mapping[str, Counts],
    rng: Callable[[], Rng],
    *,
    duration_s: float = BATCH_S,
) -> list[Compared]:
    """Return how each of *placements* does.

    Args:
        problem: What is asked, and what each replica does.
        placements: By name.
        duration_s: How long requests arrive.
        rng: Gives the same source of randomness anew, so that all meet the same requests.
    """
    return [
        Compared(
            name=name,
            gpus=gpus(counts),
            usd_h=usd_h(problem, counts),
            judgement=judge(problem, counts, duration_s=duration_s, rng=rng()),
        )
        for name, counts in placements.items()
    ]


def baselines(problem: Problem, weights_bytes: Mapping[str, float]) -> dict[str, Counts]:
    """Return what simpler ways come to, and what runs now if anything does."""
    made: dict[str, Counts] = {"greedy": greedy(problem)}
    if all(demand.model in weights_bytes for demand in problem.demands):
        made["memory-proportional"] = memory_proportional(problem, weights_bytes)
    if problem.running:
        made["running now"] = problem.running
    return made


def explanation(problem: Problem, made: Plan) -> list[str]:
    """Return why the plan is as it is, one sentence a line."""
    return [_about_worth(made), *in_words(problem, made)]


class Parts(NamedTuple):
    """What a placement gives to whom, however it was come by."""

    objective: Objective
    models: tuple[ModelPlan, ...]
    groups: tuple[GroupPlan, ...]
    pools: tuple[PoolPlan, ...]


def parts(problem: Problem, counts: Counts, objective: Objective) -> Parts:
    """Return what *counts* give to whom."""
    return Parts(
        objective, _models(problem, counts), _groups(problem, counts), _pools(problem, counts)
    )


def in_words(problem: Problem, made: Parts | Plan) -> list[str]:
    """Return what limits a placement, and why each model has what it has, one sentence a line."""
    options: dict[str, dict[Group, Option]] = {model.model: {} for model in made.models}
    for group, option in problem.candidates().items():
        options[group.model][group] = option
    return [
        *_about_pools(made),
        *(_about_model(options[model.model], made, model) for model in made.models),
    ]


def _about_worth(made: Plan) -> str:
    shown = f"{made.value:.4g} {made.unit}" if made.unit != "share" else f"{made.value:.2%}"
    bound = f"{made.bound:.4g} {made.unit}" if made.unit != "share" else f"{made.bound:.2%}"
    return (
        f"{made.objective}: {shown}; no placement is better than {bound}"
        f" (gap {made.gap:.2%}, {made.verdict}, {made.solver}, {made.took_s:.2f} s)"
    )


def _about_pools(made: Parts | Plan) -> list[str]:
    full = [pool.pool for pool in made.pools if pool.used == pool.gpus and pool.gpus]
    idle = [
        f"{pool.pool} ({pool.gpus - pool.used})" for pool in made.pools if pool.used < pool.gpus
    ]
    said = []
    if full:
        said.append("what limits: every GPU is taken in " + ", ".join(full))
    if idle:
        said.append("GPUs left over in " + ", ".join(idle))
    return said


def _about_model(options: Mapping[Group, Option], made: Parts | Plan, model: ModelPlan) -> str:
    here = [group for group in made.groups if group.model == model.model]
    parts = [
        f"{group.replicas} of {_division(group)} in {group.pool}"
        f" ({group.capacity_rps / group.replicas:.3g} requests/s each)"
        for group in here
    ]
    best = _best_unused(options, made, model.model)
    text = f"{model.model}: {model.served:.1%} of {model.wanted_rps:.3g} requests/s; "
    text += ", ".join(parts) if parts else "no replica"
    return f"{text}; {best}" if best else text


def _division(group: GroupPlan) -> str:
    return Group(group.model, group.pool, group.tp, group.pp).label()


def _best_unused(options: Mapping[Group, Option], made: Parts | Plan, model: str) -> str:
    """Return the shape that serves most for each GPU, if it is not among those chosen, and why."""
    if not options:
        return "no shape of it can run here"
    used = {(group.pool, group.tp, group.pp) for group in made.groups if group.model == model}
    best = max(options, key=lambda g: (options[g].capacity_rps / g.gpus, g))
    if not used or (best.pool, best.tp, best.pp) in used:
        return ""
    pool = next(one for one in made.pools if one.pool == best.pool)
    free = pool.gpus - pool.used
    why = "whose GPUs others use better" if free < best.gpus else "which is more than it needs"
    if made.objective is Objective.COST and free >= best.gpus:
        why = "which costs more for what is asked"
    rate = options[best].capacity_rps / best.gpus
    return f"fastest for a GPU would be {best.label()} in {best.pool} ({rate:.3g}), {why}"


def is_whole(made: Plan) -> bool:
    """Return whether everything that is asked is served."""
    return all(model.served >= 1 - 1e-9 or math.isclose(model.served, 1) for model in made.models)
