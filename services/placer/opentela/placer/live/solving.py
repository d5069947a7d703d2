"""What the solver says of a question: the cheapest that is enough, or the best of what there is."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from opentela.placer.baselines.room import filled
from opentela.placer.live.config import PlanConfig
from opentela.placer.live.demand import Asked
from opentela.placer.live.turns import Turn, turns
from opentela.placer.problem import Counts, Group, InfeasibleError, Problem, gpus, served
from opentela.placer.solve.effort import Effort
from opentela.placer.solve.expected import Level, most_expected
from opentela.placer.solve.milp import Limits
from opentela.placer.solve.result import Objective
from opentela.placer.solve.run import named, solve

START_SHARE: Final = 0.25
"""Of what a plan has to gain, so much each replica that is started for it: a move is a risk, too,
and small gains are not worth that."""
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
    levels: Mapping[str, Sequence[Level]] = {},
) -> Iterator[Found]:
    """Yield what may be done: at first what is done if nothing else is better by far.

    Args:
        problem: What is demanded, runs, and may be started.
        asked: Of each model.
        late: Models that are to wait no more, the first in turn first.
        plan: The operator's wishes.
        notes: Gets what stands in the way of more.
        guests: Models that run because they had waited for long.
        levels: By model, what may be asked and how much of it is to be expected.
    """
    if not problem.pools or not problem.demands:
        yield Found({}, Objective.COST)
        return
    solver = _Solver(levels, plan)
    if solver.is_fair:
        try:
            yield Found(solver.cheapest(problem), Objective.COST)
        except InfeasibleError:
            pass
        else:
            return
    mine = _last(problem, asked)
    # Nobody gives up the last replica of a model that is asked for; so none is planned to.
    kept = {**problem.locked, **{group: problem.locked.get(group, 0) + 1 for group in mine}}
    waiting = _waiting(problem, asked, late)
    # Without turns last replicas are for ever.
    others = waiting if plan.wait_max_s else []
    made = turns(problem, kept, mine, late, others, guests=guests)
    losers = {loser for turn in made for loser in turn.losers}
    locked = {
        group: n for group, n in kept.items() if group not in mine or group.model not in losers
    }
    floor = {turn.model for turn in made} | set(_fitting(problem, (*late, *waiting)))
    found = solver.best(problem, locked, floor, made)
    if _is_short(problem, found.counts):
        notes.append(_TOO_FEW[solver.is_fair])
    yield found
    if plan.swap == "pays" and mine:
        # The same, but who has one replica left may have it elsewhere.
        floor |= {group.model for group in mine} - losers
        yield solver.best(problem, problem.locked, floor, made, stays=False)


class _Solver:
    """Solves for what the operator wants most.

    Args:
        levels: By model, what may be asked and how much of it is to be expected.
    """

    def __init__(self, levels: Mapping[str, Sequence[Level]], plan: PlanConfig) -> None:
        self._levels = levels
        self._limits = Limits(time_s=plan.solver_s, gap=plan.gap)
        self._start_share = plan.gain_min * START_SHARE
        self.is_fair = plan.scarce == "fair"

    def cheapest(self, problem: Problem) -> dict[Group, int]:
        """Return what meets every demand.

        Raises:
            InfeasibleError: There are too few GPUs for that.
        """
        return solve(problem, Objective.COST, limits=self._limits).counts

    def best(
        self,
        problem: Problem,
        locked: Mapping[Group, int],
        floor: Collection[str],
        made: Sequence[Turn],
        *,
        stays: bool = True,
    ) -> Found:
        """Return what serves most of what is to come, or the worst served best.

        Args:
            problem: What is demanded, runs, and may be started.
            locked: What is not stopped.
            floor: Models that get a replica in any case.
            made: Turns that are told of.
            stays: Whether nobody who runs is gone while it loads elsewhere.
        """
        objective = Objective.MAX_MIN if self.is_fair else Objective.SERVED
        asked = _with_floor(problem, locked, floor, keeps=True)
        try:
            counts = self._solved(asked, stays=stays)
        except InfeasibleError:
            counts = self._solved(_with_floor(problem, locked, floor, keeps=False), stays=stays)
        return Found(counts, objective, tuple(made))

    def _solved(self, problem: Problem, *, stays: bool) -> dict[Group, int]:
        if self.is_fair:
            return solve(problem, Objective.MAX_MIN, limits=self._limits).counts
        bare = tuple(msgspec.structs.replace(one, rate_rps=0.0) for one in problem.demands)
        return most_expected(
            msgspec.structs.replace(problem, demands=bare),
            self._levels,
            Effort(named("highs"), self._limits),
            start_share=self._start_share,
            stays=stays,
        )


def _is_short(problem: Problem, counts: Counts) -> bool:
    """Return whether *counts* take every GPU, and somebody lacks some."""
    is_full = gpus(counts) >= sum(pool.gpus for pool in problem.pools)
    return is_full and min(served(problem, counts).values(), default=1.0) < 1


def _fitting(problem: Problem, waiting: Sequence[str]) -> list[str]:
    """Return those who wait and for whom there is room beside all that runs."""
    rooms = filled(problem, problem.running)
    options = sorted(problem.candidates(), key=lambda group: (group.gpus, group))
    found = []
    for model in waiting:
        group = next((g for g in options if g.model == model and rooms[g.pool].fits(g)), None)
        if group is not None:
            rooms[group.pool].add(group)
            found.append(model)
    return found


def _waiting(problem: Problem, asked: tuple[Asked, ...], late: tuple[str, ...]) -> list[str]:
    """Return who waits besides, most valuable first."""
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


def _with_floor(
    problem: Problem, locked: Mapping[Group, int], floor: Collection[str], *, keeps: bool
) -> Problem:
    """Return *problem* with nobody kept waiting but for *floor*, and what the operator *keeps*."""
    return msgspec.structs.replace(
        problem,
        locked=dict(locked),
        demands=tuple(
            msgspec.structs.replace(
                one,
                replicas_min=max(one.replicas_min if keeps else 0, int(one.model in floor)),
            )
            for one in problem.demands
        ),
    )
