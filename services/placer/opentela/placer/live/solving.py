"""What the solver says of a question: the cheapest that is enough, or the best of what there is."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from opentela.placer.live.config import PlanConfig
from opentela.placer.live.demand import Asked
from opentela.placer.live.turns import Turn, turns
from opentela.placer.problem import Group, InfeasibleError, Problem
from opentela.placer.solve.milp import Limits
from opentela.placer.solve.result import Objective
from opentela.placer.solve.run import solve

_TOO_FEW: Final = (
    "there are too few GPUs for all that is asked: most is served",
    "there are too few GPUs for all that is asked: the worst served comes first",
)


class Found(NamedTuple):
    """One solution.

    Attributes:
        turns: Of models that have waited for long enough.
    """

    counts: dict[Group, int]
    objective: Objective
    turns: tuple[Turn, ...] = ()


def overdue(
    problem: Problem, asked: tuple[Asked, ...], owed: tuple[str, ...], wait_max_s: float
) -> tuple[str, ...]:
    """Return models that run nowhere and are to wait no more, the first in turn first.

    Args:
        problem: What runs.
        asked: Of each model.
        owed: Those that were stopped so that they could run elsewhere.
        wait_max_s: As long as anybody waits; 0 for ever.
    """
    known = {demand.model for demand in problem.demands if demand.rate_rps > 0}
    running = {group.model for group, n in problem.running.items() if n}
    waited = sorted(
        (-one.waits_s, one.model)
        for one in asked
        if one.rate_rps and wait_max_s and one.waits_s >= wait_max_s
    )
    models = dict.fromkeys((*owed, *(model for _, model in waited)))
    return tuple(model for model in models if model in known and model not in running)


def solutions(
    problem: Problem,
    asked: tuple[Asked, ...],
    late: tuple[str, ...],
    plan: PlanConfig,
    notes: list[str],
    *,
    guests: tuple[str, ...] = (),
) -> Iterator[Found]:
    """Yield what may be done: at first what is done if nothing else is better by far.

    Args:
        problem: What is demanded, runs, and may be started.
        asked: Of each model.
        late: Models that are to wait no more, the first in turn first.
        plan: The operator's wishes.
        notes: Gets what stands in the way of more.
        guests: Models that run because they had waited for long.
    """
    limits = Limits(time_s=plan.solver_s, gap=plan.gap)
    if not problem.pools or not problem.demands:
        yield Found({}, Objective.COST)
        return
    try:
        enough = solve(problem, Objective.COST, limits=limits).counts
    except InfeasibleError:
        pass
    else:
        yield Found(enough, Objective.COST)
        return
    is_fair = plan.scarce == "fair"
    objective = Objective.MAX_MIN if is_fair else Objective.SERVED
    notes.append(_TOO_FEW[is_fair])
    mine = _last(problem, asked)
    # Nobody gives up the last replica of a model that is asked for; so none is planned to.
    kept = {**problem.locked, **{group: problem.locked.get(group, 0) + 1 for group in mine}}
    others = _others(problem, asked, late, plan.wait_max_s)
    made = turns(problem, kept, mine, late, others, guests=guests)
    losers = {loser for turn in made for loser in turn.losers}
    locked = {
        group: n for group, n in kept.items() if group not in mine or group.model not in losers
    }
    scarce = _with_floor(problem, locked, {turn.model for turn in made})
    counts = solve(scarce, objective, limits=limits).counts
    yield Found(counts, objective, tuple(made))
    if plan.swap == "pays" and mine:
        # The same, but who has one replica left may have it elsewhere.
        floor = {turn.model for turn in made} | {group.model for group in mine} - losers
        freer = _with_floor(problem, problem.locked, floor)
        yield Found(solve(freer, objective, limits=limits).counts, objective, tuple(made))


def _others(
    problem: Problem, asked: tuple[Asked, ...], late: tuple[str, ...], wait_max_s: float
) -> list[str]:
    """Return who waits besides, most valuable first; nobody if last replicas are for ever."""
    if not wait_max_s:
        return []
    running = {group.model for group, n in problem.running.items() if n}
    rates = {one.model: one.rate_rps for one in asked}
    waiting = [
        (-demand.rate_rps * demand.weight, demand.model)
        for demand in problem.demands
        if rates.get(demand.model) and demand.model not in running and demand.model not in late
    ]
    return [model for _, model in sorted(waiting)]


def _last(problem: Problem, asked: tuple[Asked, ...]) -> set[Group]:
    """Return a group of each model that is asked for, unless it has a replica that stays anyway."""
    found: set[Group] = set()
    for model in sorted(one.model for one in asked if one.rate_rps):
        mine = {g: n for g, n in problem.running.items() if g.model == model}
        if mine and not any(problem.locked.get(group) for group in mine):
            found.add(max(mine, key=lambda group: (mine[group], group)))
    return found


def _with_floor(problem: Problem, locked: dict[Group, int], floor: set[str]) -> Problem:
    """Return *problem* with nobody kept waiting for what cannot be had, but for *floor*."""
    return msgspec.structs.replace(
        problem,
        locked=locked,
        demands=tuple(
            msgspec.structs.replace(one, replicas_min=int(one.model in floor))
            for one in problem.demands
        ),
    )
