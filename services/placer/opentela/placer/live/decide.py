"""Decides what shall run where: the demands of now, solved for the agents that there are.

A decision stands unless a better one is worth the moves, and what nobody needs to make room for
stays: a replica that waits for requests costs nothing that its GPUs would be wanted for.
"""

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from opentela.core.errors import OtelaError
from opentela.placer import catalogue
from opentela.placer.baselines.room import filled
from opentela.placer.headroom import with_headroom
from opentela.placer.live.candidates import Candidates
from opentela.placer.live.config import ModelConfig, PlacerConfig
from opentela.placer.live.demand import Asked
from opentela.placer.live.hardware import gpu_of
from opentela.placer.live.pools import PoolSeen
from opentela.placer.load_cost import LoadCost
from opentela.placer.options import Wanted
from opentela.placer.plan import in_words, parts
from opentela.placer.problem import (
    GPUS_PER_STAGE,
    Demand,
    Group,
    InfeasibleError,
    Pool,
    Problem,
    capacity,
    served,
)
from opentela.placer.solve.milp import Limits
from opentela.placer.solve.result import Objective
from opentela.placer.solve.run import solve

_SMALL: Final = 1e-3
"""Requests a second of a model that is asked for at all: enough for one replica."""
_BY_HAND: Final = "by hand"
_TOO_FEW: Final = (
    "there are too few GPUs for all that is asked: most is served",
    "there are too few GPUs for all that is asked: the worst served comes first",
)
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
    """

    asked: tuple[Asked, ...]
    pools: tuple[PoolSeen, ...] = ()
    running: dict[Group, int] = {}
    locked: dict[Group, int] = {}
    by_hand: dict[tuple[str, str, str, int], int] = {}
    shut: tuple[Group, ...] = ()
    stopped: tuple[Group, ...] = ()
    idle: tuple[str, ...] = ()


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A decision.

    Attributes:
        target: What shall run; engines that were started by hand are not in it.
        is_change: Whether it is worth carrying out; else what runs stays.
        reason: Why it is, or is not.
        wanted_rps: By model, with headroom.
        capacity_rps: By model, of the target, engines that were started by hand included.
        notes: What stands in the way of more.
        words: What each model gets and why, as `otela plan --explain` says it.
    """

    target: dict[Group, int] = {}
    is_change: bool = False
    reason: str = ""
    wanted_rps: dict[str, float] = {}
    capacity_rps: dict[str, float] = {}
    notes: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


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
        problem = self._problem(question, notes)
        if _is_enough(problem, question):
            # Nothing could be gained by a move; what is spare stays in any case.
            return self._told(problem, question.running, ENOUGH, notes)
        try:
            counts, objective = self._solved(problem, question, notes)
        except OtelaError as error:
            return Decided(target=dict(question.running), reason=error.line())
        ours = {group: n for group, n in counts.items() if n and not _is_by_hand(group)}
        target = self._kept(problem, question, ours)
        reason, is_change = self._worth(problem, question, target)
        target = target if is_change else question.running
        return self._told(problem, target, reason, notes, is_change=is_change, objective=objective)

    def _told(
        self,
        problem: Problem,
        target: Mapping[Group, int],
        reason: str,
        notes: list[str],
        *,
        is_change: bool = False,
        objective: Objective = Objective.COST,
    ) -> Decided:
        everything = {**target, **{g: n for g, n in problem.running.items() if _is_by_hand(g)}}
        return Decided(
            target=dict(target),
            is_change=is_change,
            reason=reason,
            wanted_rps={demand.model: demand.rate_rps for demand in problem.demands},
            capacity_rps=capacity(problem, everything),
            notes=tuple(notes),
            words=_in_words(problem, everything, objective),
        )

    # The problem

    def _problem(self, question: Question, notes: list[str]) -> Problem:
        asked = {one.model: one for one in question.asked}
        options = self._candidates.of(question.pools, asked, notes)
        for group in question.shut:
            if group not in question.running:
                options.pop(group, None)
        pools = [_pool(pool, self._config.hardware) for pool in question.pools]
        running, locked = dict(question.running), dict(question.locked)
        for group, n, pool in _by_hand(question, self._models):
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

    # The solution

    def _solved(
        self, problem: Problem, question: Question, notes: list[str]
    ) -> tuple[dict[Group, int], Objective]:
        limits = Limits(time_s=self._config.plan.solver_s, gap=self._config.plan.gap)
        if not problem.pools or not problem.demands:
            return {}, Objective.COST
        try:
            return solve(problem, Objective.COST, limits=limits).counts, Objective.COST
        except InfeasibleError:
            pass
        # Nobody gives up the last replica of a model that is asked for; so none is planned to.
        locked = dict(problem.locked)
        for model in sorted(one.model for one in question.asked if one.rate_rps):
            mine = {g: n for g, n in problem.running.items() if g.model == model}
            if mine and not any(locked.get(group) for group in mine):
                locked[max(mine, key=lambda group: (mine[group], group))] = 1
        is_fair = self._config.plan.scarce == "fair"
        notes.append(_TOO_FEW[is_fair])
        scarce = msgspec.structs.replace(
            problem,
            locked=locked,
            # Nobody is kept waiting for what cannot be had.
            demands=tuple(msgspec.structs.replace(d, replicas_min=0) for d in problem.demands),
        )
        objective = Objective.MAX_MIN if is_fair else Objective.SERVED
        return solve(scarce, objective, limits=limits).counts, objective

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

    def _worth(
        self, problem: Problem, question: Question, target: Mapping[Group, int]
    ) -> tuple[str, bool]:
        """Return whether *target* is worth its moves, and why."""
        running = question.running
        if target == running:
            return ENOUGH, False
        theirs = {g: n for g, n in problem.running.items() if _is_by_hand(g)}
        now, then = served(problem, {**running, **theirs}), served(problem, {**target, **theirs})
        waiting = [
            d.model for d in problem.demands if d.rate_rps and now[d.model] == 0 < then[d.model]
        ]
        if waiting:
            return f"{', '.join(waiting)} is asked for and runs nowhere", True
        lacking = [d.model for d in problem.demands if _short(d, running) > _short(d, target)]
        if lacking:
            return f"{', '.join(lacking)} has fewer replicas than are to be kept", True
        worst = min(then.values(), default=1.0) - min(now.values(), default=1.0)
        mean = _mean(problem, then) - _mean(problem, now)
        gain = max(worst, mean)
        if gain >= self._config.plan.gain_min:
            return f"{gain:.0%} more are served", True
        freed = sorted({g.model for g in running if g.model in question.idle})
        if freed and any(running.get(g, 0) > target.get(g, 0) for g in running):
            return f"nobody asks for {', '.join(freed)} any more", True
        return f"a better plan would serve {max(gain, 0.0):.1%} more, which is too little", False


def _is_enough(problem: Problem, question: Question) -> bool:
    """Return whether what runs serves all that is asked, and nothing is to be given back."""
    if any(group.model in question.idle for group in question.running):
        return False
    shares = served(problem, problem.running)
    return all(
        shares[demand.model] >= 1 and not _short(demand, problem.running)
        for demand in problem.demands
    )


def _in_words(
    problem: Problem, counts: Mapping[Group, int], objective: Objective
) -> tuple[str, ...]:
    made = parts(problem, counts, objective)
    ours = tuple(one for one in made.pools if not _is_of_others(one.pool))
    return tuple(in_words(problem, made._replace(pools=ours)))


def _short(demand: Demand, counts: Mapping[Group, int]) -> int:
    """Return how many replicas are missing that are to be kept in any case."""
    have = sum(n for group, n in counts.items() if group.model == demand.model)
    return max(0, demand.replicas_min - have)


def _mean(problem: Problem, shares: Mapping[str, float]) -> float:
    worth = {d.model: d.rate_rps * d.weight for d in problem.demands}
    total = math.fsum(worth.values())
    return math.fsum(shares[m] * worth[m] for m in worth) / total if total else 1.0


def _pool(pool: PoolSeen, hardware: Mapping[str, str]) -> Pool:
    listed = catalogue.gpus().get(gpu_of(pool.hardware, hardware))
    price = listed.price_usd_h if listed and listed.price_usd_h > 0 else 1.0
    return Pool(
        name=pool.name,
        gpu=pool.name,
        nodes=pool.agents,
        gpus_per_node=pool.gpus,
        site=pool.site,
        usd_h=price,
    )


def _by_hand(
    question: Question, models: Mapping[str, ModelConfig]
) -> list[tuple[Group, int, Pool]]:
    """Return engines that others started: each kind in a pool that it fills."""
    found: list[tuple[Group, int, Pool]] = []
    for (model, site, _, gpus), count in question.by_hand.items():
        if model not in models:
            continue
        tp = next((size for size in GPUS_PER_STAGE if size >= gpus), GPUS_PER_STAGE[-1])
        # Numbered, for whoever runs an engine says what its hardware is called.
        name = f"{_BY_HAND}/{len(found)}"
        pool = Pool(name=name, gpu=name, nodes=count, gpus_per_node=tp, site=site, usd_h=0.0)
        found.append((Group(model, name, tp), count, pool))
    return found


def _is_by_hand(group: Group) -> bool:
    return _is_of_others(group.pool)


def _is_of_others(pool: str) -> bool:
    return pool.startswith(f"{_BY_HAND}/")
