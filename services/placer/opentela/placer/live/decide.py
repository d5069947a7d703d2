"""Decides what shall run where: the demands of now, solved for the agents that there are.

A decision stands unless a better one is worth the moves, and what nobody needs to make room for
stays: a replica that waits for requests costs nothing that its GPUs would be wanted for.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from opentela.core.errors import OtelaError
from opentela.placer.baselines.room import filled
from opentela.placer.headroom import with_headroom
from opentela.placer.live import by_hand
from opentela.placer.live.candidates import Candidates
from opentela.placer.live.config import PlacerConfig
from opentela.placer.live.demand import Asked
from opentela.placer.live.experience import Seen
from opentela.placer.live.outlook import Outlook
from opentela.placer.live.pools import PoolSeen, priced
from opentela.placer.live.solving import Found, overdue, solutions
from opentela.placer.live.turns import Gaps, gaps
from opentela.placer.load_cost import LoadCost
from opentela.placer.options import Wanted
from opentela.placer.plan import in_words, parts
from opentela.placer.problem import (
    Demand,
    Group,
    Problem,
    capacity,
    served,
)
from opentela.placer.solve.result import Objective

_SMALL: Final = 1e-3
"""Requests a second of a model that is asked for at all: enough for one replica."""
ENOUGH: Final = "what runs is what shall run"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision is made from.

    Attributes:
        asked: Of each model that may be placed.
        pools: Where it may be placed.
        running: What runs there and is to go on.
        locked: Of that, what may not be stopped.
        by_hand: Engines that others started: model, site, hardware, GPUs; how many.
        shut: What cannot be started for now.
        stopped: What was stopped a short while ago.
        idle: Models that nobody has asked for since so long that they need not be kept.
        owed: Models that were stopped so that they could run elsewhere, and do not yet.
        guests: Models that run because they had waited for long.
        seen: What replicas were seen to do.
    """

    asked: tuple[Asked, ...]
    pools: tuple[PoolSeen, ...] = ()
    running: dict[Group, int] = {}
    locked: dict[Group, int] = {}
    by_hand: dict[tuple[str, str, str, int], int] = {}
    shut: tuple[Group, ...] = ()
    stopped: tuple[Group, ...] = ()
    idle: tuple[str, ...] = ()
    owed: tuple[str, ...] = ()
    guests: tuple[str, ...] = ()
    seen: dict[Group, Seen] = {}


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A decision.

    Attributes:
        target: What shall run; engines that were started by hand are not in it.
        is_change: Whether it is worth carrying out; else what runs stays.
        yields: Models whose last replica may be stopped before another serves.
        turns: Models that have waited for long enough, and have their turn.
        reason: Why it is, or is not.
        wanted_rps: By model, with headroom.
        capacity_rps: By model, of the target, engines that were started by hand included.
        notes: What stands in the way of more.
        words: What each model gets and why, as `otela plan --explain` says it.
    """

    target: dict[Group, int] = {}
    is_change: bool = False
    yields: tuple[str, ...] = ()
    turns: tuple[str, ...] = ()
    reason: str = ""
    wanted_rps: dict[str, float] = {}
    capacity_rps: dict[str, float] = {}
    notes: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


class Case(NamedTuple):
    """What is to be decided.

    Attributes:
        late: Models that are to wait no more, the first in turn first.
    """

    problem: Problem
    question: Question
    late: tuple[str, ...]
    outlook: Outlook


class Choice(NamedTuple):
    """What may be decided.

    Attributes:
        gaps: Whose last replica may be stopped before another serves.
        worth: Share of all that is to be expected which is served, less what is lost on the way.
    """

    target: Mapping[Group, int]
    found: Found
    gaps: Gaps
    worth: float


class Planner:
    """Answers questions; quick but for the solver, which has its time.

    Args:
        config: Of the placer.
        specs: The models that the simulator knows, by name.
        load_cost: What starting a replica costs; as measured if not given.
    """

    def __init__(
        self,
        config: PlacerConfig,
        specs: Mapping[str, Wanted],
        *,
        load_cost: LoadCost | None = None,
    ) -> None:
        self._config = config
        self._models = {model.name: model for model in config.models}
        self._candidates = Candidates(config, specs, load_cost)

    def answer(self, question: Question) -> Decided:
        """Return what to do about *question*."""
        notes: list[str] = []
        plan, problem = self._config.plan, self._problem(question, notes)
        late = overdue(problem, question.asked, question.owed, plan.wait_max_s)
        outlook = Outlook(problem, question.asked, question.idle, self._models, plan)
        case = Case(problem, question, late, outlook)
        if self._is_enough(case):
            # Too little could be gained by a move; what is spare stays in any case.
            return self._told(problem, question.running, ENOUGH, notes)
        try:
            choice = self._best(case, notes)
        except OtelaError as error:
            return Decided(target=dict(question.running), reason=error.line())
        reason, is_change = self._worth(case, choice)
        if not is_change:
            choice = choice._replace(target=question.running, gaps=Gaps())
        return self._told(problem, choice.target, reason, notes, choice=choice, is_change=is_change)

    def _told(
        self,
        problem: Problem,
        target: Mapping[Group, int],
        reason: str,
        notes: list[str],
        *,
        is_change: bool = False,
        choice: Choice | None = None,
    ) -> Decided:
        objective = choice.found.objective if choice else Objective.COST
        everything = {**target, **{g: n for g, n in problem.running.items() if by_hand.is_one(g)}}
        return Decided(
            target=dict(target),
            is_change=is_change,
            yields=choice.gaps.models if choice else (),
            turns=tuple(turn.model for turn in choice.found.turns if turn.is_late)
            if choice and is_change
            else (),
            reason=reason,
            wanted_rps={demand.model: demand.rate_rps for demand in problem.demands},
            capacity_rps=capacity(problem, everything),
            notes=tuple(notes),
            words=_in_words(problem, everything, objective),
        )

    # The problem

    def _problem(self, question: Question, notes: list[str]) -> Problem:
        asked = {one.model: one for one in question.asked}
        options = self._candidates.of(question.pools, asked, notes, question.seen)
        for group in question.shut:
            if group not in question.running:
                options.pop(group, None)
        pools = [priced(pool, self._config.hardware) for pool in question.pools]
        running, locked = dict(question.running), dict(question.locked)
        for group, n, pool in by_hand.engines(question.by_hand, self._models):
            pools.append(pool)
            running[group] = locked[group] = n
        for group in running:
            options.setdefault(group, self._candidates.unknown(group))
        models = dict.fromkeys((*asked, *(group.model for group in running)))
        have, given_up = dict.fromkeys(models, 0.0), set(question.idle)
        for group, n in running.items():
            # What is to be given back is worth nothing.
            have[group.model] += n * options[group].capacity_rps * (group.model not in given_up)
        demands = [self._demand(model, asked.get(model), have[model]) for model in models]
        placeable = {group.model for group in options}
        shut = {group.model for group in question.shut}
        notes += [
            f"{one.model} finds no room for now, and is tried again"
            if one.model in shut
            else f"{one.model} fits no agent that there is"
            for one in demands
            if one.rate_rps and one.model not in placeable
        ]
        return Problem(
            pools=tuple(pools),
            demands=tuple(one for one in demands if one.model in placeable),
            options=tuple(options.values()),
            running={group: n for group, n in running.items() if n},
            locked={group: n for group, n in locked.items() if n},
            horizon_s=self._config.plan.horizon_s,
        )

    def _demand(self, model: str, asked: Asked | None, have_rps: float) -> Demand:
        """Return what is to be had capacity for: for what is asked, and what was asked so far.

        A request that is to be expected counts the same whatever headroom its model needs.
        """
        config = self._models.get(model)
        rate, weight = 0.0, config.weight if config else 1.0
        is_most = self._config.plan.scarce == "most"
        if asked is not None and asked.rate_rps > 0:
            rate = max(self._with_headroom(asked.rate_rps, asked), _SMALL)
            weight *= (asked.expected_rps or asked.rate_rps) / rate if is_most else 1.0
        elif asked is not None and asked.expected_rps > 0 and have_rps > 0 and is_most:
            # Nobody asks now: what it has may be worth keeping, and more is not.
            rate = min(have_rps, max(self._with_headroom(asked.expected_rps, asked), _SMALL))
            weight *= asked.expected_rps / rate
        return Demand(
            model=model,
            rate_rps=rate,
            weight=weight,
            replicas_min=config.replicas_min if config else 0,
        )

    def _with_headroom(self, rate_rps: float, asked: Asked) -> float:
        return with_headroom(rate_rps, cv=asked.cv, absorb_s=self._config.plan.absorb_s)

    def _is_enough(self, case: Case) -> bool:
        """Return whether nobody waits, no move could pay, and nothing is to be given back."""
        problem, question = case.problem, case.question
        if any(group.model in question.idle for group in question.running) or any(
            _short(demand, problem.running) for demand in problem.demands
        ):
            return False
        shares = served(problem, problem.running)
        if self._config.plan.scarce == "fair":
            return all(share >= 1 for share in shares.values())
        waits = any(demand.rate_rps and not shares[demand.model] for demand in problem.demands)
        return not waits and case.outlook.share(problem.running) > 1 - self._config.plan.gain_min

    # The solution

    def _best(self, case: Case, notes: list[str]) -> Choice:
        """Return the first solution, or a later one that is worth more by far."""
        plan, question = self._config.plan, case.question
        best: Choice | None = None
        for found in solutions(
            *(case.problem, question.asked, case.late, plan, notes),
            guests=question.guests,
            levels=case.outlook.levels,
        ):
            choice = self._choice(case, found)
            if best is None or choice.worth - best.worth >= plan.gain_min:
                best = choice
        assert best is not None, "there is always one"
        return best

    def _choice(self, case: Case, found: Found) -> Choice:
        """Return what *found* comes to, and who has to be gone for a while if it pays."""
        problem, question, plan = case.problem, case.question, self._config.plan
        ours = {group: n for group, n in found.counts.items() if n and not by_hand.is_one(group)}
        target = self._kept(problem, question, ours)
        theirs = by_hand.of(problem)
        asked = {one.model for one in question.asked if one.rate_rps}
        asked |= {demand.model for demand in problem.demands if demand.replicas_min}
        needed = gaps(problem, {**target, **theirs}, asked)
        now, then = served(problem, problem.running), served(problem, {**target, **theirs})
        worth = case.outlook.share({**target, **theirs}) - needed.share
        gain = worth - case.outlook.share(problem.running)
        waits = any(d.rate_rps and now[d.model] == 0 < then[d.model] for d in problem.demands)
        losers = {loser for turn in found.turns for loser in turn.losers}
        is_due = any(now[model] == 0 < then[model] for model in case.late)
        pays = plan.swap == "pays" and (gain > 0 if waits else gain >= plan.gain_min)
        if not (pays or is_due):
            # The rest of the plan is carried out as far as that goes without.
            allowed = tuple(model for model in needed.models if model in losers)
            needed = Gaps(models=allowed)
        return Choice(target, found, needed, worth)

    def _kept(
        self, problem: Problem, question: Question, counts: Mapping[Group, int]
    ) -> dict[Group, int]:
        """Return *counts* with what runs and has room beside it, and with nothing undone."""
        target = dict(counts)
        running = question.running
        for group in question.stopped:
            others = sum(n for g, n in running.items() if g.model == group.model)
            if others and target.get(group, 0) > running.get(group, 0):
                target[group] = running.get(group, 0)
        rooms = filled(problem, {group: n for group, n in target.items() if n})
        for group in sorted(running):
            if group.model in question.idle:
                continue
            while target.get(group, 0) < running[group] and rooms[group.pool].fits(group):
                rooms[group.pool].add(group)
                target[group] = target.get(group, 0) + 1
        return {group: n for group, n in target.items() if n}

    def _worth(self, case: Case, choice: Choice) -> tuple[str, bool]:
        """Return whether *choice* is worth its moves, and why."""
        problem, question = case.problem, case.question
        running, target = question.running, choice.target
        if target == running:
            return ENOUGH, False
        theirs = by_hand.of(problem)
        now, then = served(problem, {**running, **theirs}), served(problem, {**target, **theirs})
        waiting = [
            d.model for d in problem.demands if d.rate_rps and now[d.model] == 0 < then[d.model]
        ]
        if waiting:
            return _waited(question, waiting, choice), True
        lacking = [d.model for d in problem.demands if _short(d, running) > _short(d, target)]
        if lacking:
            return f"{', '.join(lacking)} has fewer replicas than are to be kept", True
        gain = choice.worth - case.outlook.share({**running, **theirs})
        if self._config.plan.scarce == "fair":
            worst = min(then.values(), default=1.0) - min(now.values(), default=1.0)
            gain = max(gain, worst - choice.gaps.share)
        if gain >= self._config.plan.gain_min:
            return f"{gain:.0%} more are served{_gone(choice)}", True
        freed = sorted({g.model for g in running if g.model in question.idle})
        if freed and any(running.get(g, 0) > target.get(g, 0) for g in running):
            return f"nobody asks for {', '.join(freed)} any more", True
        return f"a better plan would serve {max(gain, 0.0):.1%} more, which is too little", False


def _waited(question: Question, waiting: list[str], choice: Choice) -> str:
    """Return who is waited for, and who makes room for whom after how long."""
    waits_s = {one.model: one.waits_s for one in question.asked}
    said = [
        f"{turn.model} has waited for {waits_s.get(turn.model, 0.0) / 60:.0f} min: "
        f"{', '.join(turn.losers)}, expected to use its GPUs least, gives them up"
        for turn in choice.found.turns
        if turn.model in waiting and turn.losers
    ]
    told = {turn.model for turn in choice.found.turns if turn.losers}
    if rest := [model for model in waiting if model not in told]:
        said.append(f"{', '.join(rest)} is asked for and runs nowhere{_gone(choice)}")
    return "; ".join(said)


def _gone(choice: Choice) -> str:
    """Return who is not served for a while, in words."""
    moved = [m for m in choice.gaps.models if any(g.model == m for g in choice.target)]
    if not moved:
        return ""
    return (
        f", and {', '.join(moved)} is not for some {choice.gaps.longest_s:.0f} s: it changes places"
    )


def _in_words(
    problem: Problem, counts: Mapping[Group, int], objective: Objective
) -> tuple[str, ...]:
    made = parts(problem, counts, objective)
    ours = tuple(one for one in made.pools if not by_hand.is_pool(one.pool))
    return tuple(in_words(problem, made._replace(pools=ours)))


def _short(demand: Demand, counts: Mapping[Group, int]) -> int:
    """Return how many replicas are missing that are to be kept in any case."""
    return max(
        0, demand.replicas_min - sum(n for g, n in counts.items() if g.model == demand.model)
    )
