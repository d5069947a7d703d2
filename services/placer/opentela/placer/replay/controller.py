"""The dynamic policy: what to start and stop, from nothing but what was seen so far.

`step(now, seen)` is fed the work that arrived since the last step, by model, and returns what to
change. Every `epoch_s` the solver decides; in between, a model that is asked for and has no replica
gets one at once, if need be in place of one that idles.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec
import numpy as np

from opentela.placer.baselines.room import filled
from opentela.placer.headroom import with_headroom
from opentela.placer.moves import Verb, moves
from opentela.placer.problem import Counts, Demand, Group, Option, Problem
from opentela.placer.replay.fleet import Change
from opentela.placer.shapes import Floats

Place = Callable[[Problem], dict[Group, int]]
"""Decides a placement: the solver, with limits."""

_RESCUED_MAX: Final = 16
"""Models that get their first replica in one tick; the next tick is near."""

_ASKED: Final = 1e-6
"""Requests a second below which a model is not asked for."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How the dynamic policy decides.

    Attributes:
        epoch_s: Between two plans. Shorter follows demand faster, and moves more.
        tick_s: Between two looks at what waits.
        cool_down_s: A replica is kept for this long after it was started. Longer avoids loading in
            vain, and follows demand more slowly.
        keep_s: A model that nobody asks for keeps a replica for this long. Longer avoids loading
            again, and holds GPUs.
        horizon_s: For which a plan is made: a replica that must be loaded first counts the less,
            the more of this has passed by then.
        keeps_spare: Replicas that no demand needs are stopped only where others need their GPUs,
            and those of models that were asked for longest ago first.
        fast_s: Memory of the estimate that follows a rise.
        slow_s: In which the memory of a peak fades. Longer is ready for the next burst, and holds
            GPUs.
        drain_s: Until a stopped replica's GPUs are free.
        absorb_s: Bursts and queues are to be worked off within this.
        cv: Burstiness that is provided for.
    """

    epoch_s: float = 300.0
    tick_s: float = 10.0
    cool_down_s: float = 1200.0
    keep_s: float = 300.0
    horizon_s: float = 1200.0
    keeps_spare: bool = False
    fast_s: float = 60.0
    slow_s: float = 3600.0
    drain_s: float = 30.0
    absorb_s: float = 30.0
    cv: float = 3.0


class Batch(NamedTuple):
    """Replicas of one group that were started together.

    Attributes:
        ready_s: From when they serve.
    """

    replicas: int
    started_s: float
    ready_s: float


class Controller:
    """One policy at work on one fleet."""

    def __init__(
        self, problem: Problem, policy: Policy, place: Place, running: Counts, now: float
    ) -> None:
        self.problem = problem
        self.policy = policy
        self._place = place
        self._options = problem.candidates()
        self._by_model = _smallest_first(self._options)
        self._models = [demand.model for demand in problem.demands]
        self._index = {model: i for i, model in enumerate(self._models)}
        self._batches: dict[Group, list[Batch]] = {
            group: [Batch(count, -math.inf, now)] for group, count in running.items() if count
        }
        self._freed: list[tuple[float, Group, int]] = []
        self.fast = np.array([demand.rate_rps for demand in problem.demands])
        self.slow = self.fast.copy()
        self.backlog = np.zeros(len(self._models))
        self._asked_s = np.where(self.fast > _ASKED, now, -math.inf)
        self._planned_s = now

    def step(self, now: float, seen: Floats) -> list[Change]:
        """Return what changes at *now*, after *seen* mean requests came since the last step."""
        self._observe(now, seen)
        if now - self._planned_s >= self.policy.epoch_s:
            self._planned_s = now
            return self._plan(now)
        return self._rescue(now)

    def running(self) -> dict[Group, int]:
        """Return what serves or loads."""
        return {
            group: sum(batch.replicas for batch in batches)
            for group, batches in sorted(self._batches.items())
            if batches
        }

    def _observe(self, now: float, seen: Floats) -> None:
        tick = self.policy.tick_s
        rate = seen / tick
        # One follows a rise, the other remembers how high it was: bursts come back.
        self.fast += (rate - self.fast) * min(1.0, tick / self.policy.fast_s)
        faded = self.slow * math.exp(-tick / self.policy.slow_s)
        self.slow = np.maximum(self.fast, faded)
        self.backlog = np.maximum(0.0, self.backlog + seen - self._speed(now) * tick)
        self._asked_s = np.where(seen > 0, now, self._asked_s)
        self._freed = [one for one in self._freed if one[0] > now]

    def _speed(self, now: float) -> Floats:
        speed = np.zeros(len(self._models))
        for group, batches in self._batches.items():
            ready = sum(batch.replicas for batch in batches if batch.ready_s <= now)
            speed[self._index[group.model]] += ready * self._options[group].capacity_rps
        return speed

    def _plan(self, now: float) -> list[Change]:
        running = self.running()
        problem = msgspec.structs.replace(
            self.problem,
            demands=tuple(self._demand(now, i) for i in range(len(self._models))),
            running=running,
            locked=self._locked(now),
            horizon_s=self.policy.horizon_s,
            drain_s=self.policy.drain_s,
        )
        target = self._place(problem)
        if self.policy.keeps_spare:
            target = self._with_spare(target)
        changes: list[Change] = []
        late = 0.0
        for move in moves(problem, target):
            if move.verb is Verb.STOP:
                changes += self._stop(now, move.group, move.count)
                late = self.policy.drain_s
            else:
                # What needs room waits until the replica before it has drained.
                waits = late if not self._has_room(move.group, move.count) else 0.0
                changes.append(self._start(now, move.group, move.count, waits))
        return changes

    def _with_spare(self, target: Counts) -> dict[Group, int]:
        """Return *target* and as much of what runs beside it as finds room."""
        kept = dict(target)
        rooms = filled(self.problem, kept)
        running = self.running()
        for group in sorted(running, key=lambda one: (-self._asked_s[self._index[one.model]], one)):
            for _ in range(running[group] - kept.get(group, 0)):
                if not rooms[group.pool].fits(group):
                    break
                rooms[group.pool].add(group)
                kept[group] = kept.get(group, 0) + 1
        return kept

    def _demand(self, now: float, index: int) -> Demand:
        demand = self.problem.demands[index]
        rate = float(max(self.fast[index], self.slow[index]))
        waiting = float(self.backlog[index]) / self.policy.epoch_s
        asked = now - float(self._asked_s[index]) <= self.policy.keep_s
        if not asked:
            # Nobody has asked for as long as it is kept: its GPUs are of more use elsewhere.
            return msgspec.structs.replace(demand, rate_rps=0.0)
        wanted = with_headroom(rate + waiting, cv=self.policy.cv, absorb_s=self.policy.absorb_s)
        return msgspec.structs.replace(demand, rate_rps=max(wanted, _ASKED))

    def _locked(self, now: float) -> dict[Group, int]:
        young = {
            group: sum(b.replicas for b in batches if now - b.started_s < self.policy.cool_down_s)
            for group, batches in sorted(self._batches.items())
        }
        return {group: count for group, count in young.items() if count}

    def _rescue(self, now: float) -> list[Change]:
        """Start a replica for each model that is waited for and has none."""
        served = {group.model for group, batches in self._batches.items() if batches}
        waiting = [
            self._models[int(index)]
            for index in np.argsort(-self.backlog, kind="stable")
            if self.backlog[index] > 0 and self._models[int(index)] not in served
        ]
        changes: list[Change] = []
        idle = self._idle(now) if waiting else []
        for model in waiting[:_RESCUED_MAX]:
            changes += self._rescue_one(now, model, idle)
        return changes

    def _rescue_one(self, now: float, model: str, idle: list[Group]) -> list[Change]:
        groups = self._by_model[model]
        rooms = filled(self.problem, self._held())
        for group in groups:
            if rooms[group.pool].fits(group):
                return [self._start(now, group, 1, 0.0)]
        for group in groups:
            for place, victim in enumerate(idle):
                if victim.pool == group.pool and victim.tp >= group.tp:
                    del idle[place]
                    stopped = self._stop(now, victim, 1)
                    return [*stopped, self._start(now, group, 1, self.policy.drain_s)]
        return []

    def _idle(self, now: float) -> list[Group]:
        """Return replicas that are not needed, the least useful first; two of a group are two."""
        locked = self._locked(now)
        speed = self._speed(now)
        found: list[tuple[float, Group]] = []
        for group, count in self.running().items():
            index = self._index[group.model]
            rate = self._options[group].capacity_rps
            needed = float(max(self.fast[index], self.slow[index]))
            for _ in range(count - locked.get(group, 0)):
                quiet = now - self._asked_s[index] > self.policy.keep_s
                if speed[index] - rate < needed and not quiet:
                    break
                speed[index] -= rate
                found.append((0.0 if quiet else needed / rate, group))
        return [group for _, group in sorted(found)]

    def _held(self) -> dict[Group, int]:
        """Return what holds GPUs: what runs, and what drains."""
        held = self.running()
        for _, freed, number in self._freed:
            held[freed] = held.get(freed, 0) + number
        return held

    def _has_room(self, group: Group, count: int) -> bool:
        return filled(self.problem, self._held())[group.pool].fits(group, count)

    def _start(self, now: float, group: Group, count: int, waits_s: float) -> Change:
        ready = now + waits_s + self._options[group].load_s
        self._batches.setdefault(group, []).append(Batch(count, now, ready))
        return Change(group, ready, now + waits_s, count)

    def _stop(self, now: float, group: Group, count: int) -> list[Change]:
        """Stop the oldest replicas of *group*; what still loads may be stopped as well."""
        changes, left = [], count
        batches = self._batches[group]
        while left:
            oldest = batches.pop(0)
            taken = min(left, oldest.replicas)
            if oldest.replicas > taken:
                batches.insert(0, oldest._replace(replicas=oldest.replicas - taken))
            left -= taken
            # One that never came to serve ceases the moment it would have begun.
            changes.append(
                Change(group, max(now, oldest.ready_s), now + self.policy.drain_s, -taken)
            )
        self._freed.append((now + self.policy.drain_s, group, count))
        return changes


def _smallest_first(options: Mapping[Group, Option]) -> dict[str, list[Group]]:
    """Return the groups of each model: those that take least and serve most come first."""
    by_model: dict[str, list[Group]] = {}
    for group in sorted(options, key=lambda one: (one.gpus, -options[one].capacity_rps, one)):
        by_model.setdefault(group.model, []).append(group)
    return by_model


def initial(counts: Counts, now: float) -> list[Change]:
    """Return the changes by which *counts* serve from the beginning."""
    return [Change(group, now, now, count) for group, count in sorted(counts.items()) if count]
