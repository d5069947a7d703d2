"""Brings what runs to what shall run: one start, one stop after another, each watched to its end.

It does not follow a list of steps. At every turn it looks at what is missing and what is too much,
and does what can be done then; so it goes on from whatever an earlier leader has left, and nothing
is done twice. The last replica that serves a model which is asked for stays until another serves.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

import msgspec

from opentela.placer.live.blame import Blame
from opentela.placer.live.config import ModelConfig, PlacerConfig
from opentela.placer.live.fleet import Agent, Fleet, Life
from opentela.placer.live.places import Places, Surplus
from opentela.placer.problem import Group
from opentela.wire.audit import Kind
from opentela.wire.command import Command, Holding, Start, Stop

_SHUT_S: Final = 60.0
"""For so long nothing is planned for a place where it turned out to find no room; less if some
becomes free."""


class Say(NamedTuple):
    """Something to be told of a replica."""

    kind: Kind
    life: Life
    reason: str = ""


class Send(NamedTuple):
    """A command to an agent."""

    agent: Agent
    command: Command


class Shut(NamedTuple):
    """Until when nothing is planned for a group, and why it found no room."""

    until: float
    why: str


Step = Say | Send


class Mover:
    """Carries out targets.

    Args:
        config: Of the placer.
        fleet: What there is; replicas that are started are added to it.
        new_id: Makes a ULID.

    Attributes:
        target: What shall run; None before it was decided.
        stopped: When replicas of a group were last stopped.
        yields: Models whose last replica may be stopped before another serves.
        turns: Models whose replicas are started for their turn, which may be short.
        owed: Those of the former that were stopped to run elsewhere, and do not yet.
        shut: Groups that cannot be started.
        blame: What failed where.
    """

    def __init__(self, config: PlacerConfig, fleet: Fleet, new_id: Callable[[], str]) -> None:
        self._config = config.moves
        self._cool_down_s = config.plan.cool_down_s
        self._turn_s = config.plan.turn_s
        self._models: Mapping[str, ModelConfig] = {model.name: model for model in config.models}
        self._fleet = fleet
        self._new_id = new_id
        self.blame = Blame(config.moves.backoff_s, config.moves.backoff_max_s)
        self.target: dict[Group, int] | None = None
        self.yields: frozenset[str] = frozenset()
        self.turns: frozenset[str] = frozenset()
        self.owed: dict[str, None] = {}
        self.stopped: dict[Group, float] = {}
        self.shut: dict[Group, Shut] = {}

    def follow(
        self, target: Mapping[Group, int], yields: Collection[str], turns: Collection[str]
    ) -> None:
        """Bring about *target* from now on."""
        self.target = dict(target)
        self.yields, self.turns = frozenset(yields), frozenset(turns)

    def forget_plan(self) -> None:
        """Bring about nothing until there is another plan."""
        self.target = None
        self.yields = self.turns = frozenset()
        self.owed.clear()

    # What is seen

    def forget(self, now: float) -> None:
        """Forget what was shut or stopped so long ago that it counts no more."""
        self.shut = {group: one for group, one in self.shut.items() if one.until > now}
        self.stopped = {
            group: at for group, at in self.stopped.items() if now - at < self._cool_down_s
        }

    def answered(self, now: float, agent: Agent, holding: Holding) -> list[Step]:
        """Take in whether *agent* takes a command; before its replicas are looked at."""
        life = self._fleet.lives.get(holding.command)
        if life is not None and life.agent == agent.session and not life.stop:
            if holding.accepted:
                life.is_known = True
                return []
            del self._fleet.lives[holding.command]
            return [self._failed(now, life, holding.reason)]
        for one in self._fleet.of_agent(agent):
            if one.stop != holding.command or not one.stop:
                continue
            if not holding.accepted:
                # Under that id it is never done: the agent takes it for an old one.
                one.stop = self._new_id()
            else:
                one.is_stop_taken = True
                if not one.is_known:
                    # It never knew of the start, and would refuse it now.
                    del self._fleet.lives[one.start.command]
                    return [Say("FREED", one, one.why)]
        return []

    def ended(self, now: float, life: Life, reason: str) -> Step:
        """Take in that a replica holds nothing any more."""
        if life.is_leaving or life.has_failed:
            return Say("FREED", life, reason)
        return self._failed(now, life, reason)

    def keep(self, found: Collection[Life]) -> None:
        """Count replicas that were found as wanted until the next decision, which knows of them."""
        if self.target is None or not found:
            return
        self.target = dict(self.target)
        for life in found:
            group = self._fleet.group(life)
            self.target[group] = self.target.get(group, 0) + 1

    def locked(self, now: float, life: Life) -> bool:
        """Return whether *life* is too young to be stopped."""
        return now - life.began_at < (self._turn_s if life.is_turn else self._cool_down_s)

    def is_place(self, now: float, wall: float, agent: Agent) -> bool:
        """Return whether something may be started at *agent*."""
        return (
            agent.is_live
            and agent.gpus > 0
            and now - agent.heard_at < self._config.silent_s
            and agent.ends_at - wall > self._config.ends_s
        )

    def is_lasting(self, now: float, wall: float, life: Life) -> bool:
        """Return whether *life* goes on: neither it nor its agent's time comes to an end.

        What does not serve yet at an agent that is silent may never do so.
        """
        agent = self._fleet.agents.get(life.agent)
        if agent is None or life.is_leaving or agent.ends_at - wall <= self._config.ends_s:
            return False
        return life.is_serving or now - agent.heard_at < self._config.silent_s

    def answers(self, now: float, agent: Agent) -> bool:
        """Return whether *agent* answers, or what it runs serves although it does not."""
        is_heard = now - agent.heard_at < self._config.silent_s
        return is_heard or any(one.is_serving for one in self._fleet.of_agent(agent))

    def notes(self) -> tuple[str, ...]:
        """Return what cannot be done for now, and why, for people."""
        return tuple(
            f"{group.model} ({group.label()}) finds no room in {group.pool}: {one.why}"
            for group, one in sorted(self.shut.items())
        )

    # What is done

    def step(self, now: float, wall: float, *, term: int, demanded: Collection[str]) -> list[Step]:
        """Return what is to be done at *now* under *term*.

        Args:
            now: Monotonic seconds.
            wall: Unix seconds.
            term: Of the lease.
            demanded: Models that somebody asks for, or that are to be kept.
        """
        steps = [
            step
            for life in list(self._fleet.lives.values())
            for step in self._watch(now, life, term)
        ]
        if self.target is not None:
            steps += self._approach(now, wall, term, demanded)
        return steps

    def _watch(self, now: float, life: Life, term: int) -> list[Step]:
        """See one replica through: repeat what was not answered, give up what does not come."""
        agent = self._fleet.agents.get(life.agent)
        if agent is None:
            return []
        steps: list[Step] = []
        if life.is_serving and not life.was_told_serving:
            life.was_told_serving = True
            self.blame.served(life.agent, life.model)
            steps.append(Say("SERVES", life))
        ends_early = life.is_leaving and not life.stop and not life.was_told_serving
        if ends_early and not life.has_failed:
            # Before anything is started in its place, which would be the same place.
            steps.append(self._failed(now, life, life.why or "it ends before it has served"))
        if not life.stop and not life.is_leaving:
            reason = ""
            if not life.is_known and now - life.began_at >= self._config.command_s:
                reason = f"the agent did not answer within {self._config.command_s:g} s"
            elif life.is_known and now - life.down_at >= self._config.start_s:
                reason = f"it did not serve within {self._config.start_s:g} s"
            if reason:
                steps += [
                    self._failed(now, life, reason),
                    *self._stop(now, life, term, reason, fails=True),
                ]
        is_due = now - life.sent_at >= self._config.retry_s
        if life.stop and not life.is_stop_taken and is_due:
            life.sent_at = now
            steps.append(
                Send(
                    agent,
                    Stop(command=life.stop, term=term, start=life.start.command, reason=life.why),
                )
            )
        elif not life.stop and not life.is_known and is_due:
            life.sent_at = now
            steps.append(Send(agent, msgspec.structs.replace(life.start, term=term)))
        return steps

    def _approach(
        self, now: float, wall: float, term: int, demanded: Collection[str]
    ) -> list[Step]:
        assert self.target is not None
        running: dict[Group, list[Life]] = {}
        for life in self._fleet.lives.values():
            if self.is_lasting(now, wall, life):
                running.setdefault(self._fleet.group(life), []).append(life)
        missing = {
            group: n - len(running.get(group, ()))
            for group, n in sorted(self.target.items())
            # What an earlier leader started and is listed no more runs on, but not anew.
            if n > len(running.get(group, ())) and group.model in self._models
        }
        spare = {
            group: lives
            for group, lives in sorted(running.items())
            if len(lives) > self.target.get(group, 0)
        }
        under_way = sum(not life.is_serving for lives in running.values() for life in lives)
        places = self._places(now, wall)
        self._reopen(places)
        # What is to run on does not stop before it runs elsewhere, whether anybody asks or not.
        lasting = {group.model for group, n in self.target.items() if n}
        surplus = Surplus(spare, ({*demanded} | lasting) - self.yields, self.target)
        steps: list[Step] = []
        # Large ones first: small ones would take the room of a whole agent from them.
        for group in sorted(missing, key=lambda one: (-one.gpus, one)):
            for _ in range(missing[group]):
                if under_way >= self._config.moves_max:
                    return steps
                agent = places.free(group)
                if agent is not None:
                    steps += self._start(now, group, agent, term)
                    under_way += 1
                    continue
                victims = places.room(group, surplus)
                if victims is None:
                    steps += self._gather(now, term, group, places, surplus)
                    break
                for victim in victims:
                    reason = f"its GPUs are for {group.model}"
                    steps += self._stop(now, victim, term, reason)
        if not missing:
            steps += self._trim(now, term, spare, surplus.demanded)
        return steps

    def _places(self, now: float, wall: float) -> Places:
        able = [one for one in self._fleet.agents.values() if self.is_place(now, wall, one)]
        return Places(
            self._fleet,
            able,
            may_start=lambda agent, model: (
                model in self._models and self.blame.may_start(now, agent.session, model)
            ),
            failures=lambda agent, model: self.blame.count(agent.session, model),
            stoppable=lambda lives: self.stoppable(now, lives),
        )

    def _reopen(self, places: Places) -> None:
        """Have planned again what has room by now: an agent has come, or has waited enough."""
        for group in [one for one in self.shut if places.free(one) is not None]:
            del self.shut[group]

    def _gather(
        self, now: float, term: int, group: Group, places: Places, surplus: Surplus
    ) -> list[Step]:
        """Bring about that GPUs which are there are free at one agent: one step of that at most.

        What is too much goes; what is needed runs elsewhere before it gives up its place.
        """
        if places.is_gathering(group.pool):
            return []
        if found := places.aside(group):
            moved, agent = found
            reason = f"elsewhere it makes room for {group.model}"
            return self._start(now, moved, agent, term, reason, is_aside=True)
        life = places.dispensable(group.pool, surplus)
        if life is None:
            self.shut[group] = Shut(now + _SHUT_S, places.why_not(group, surplus))
            return []
        return self._stop(now, life, term, f"its GPUs are for {group.model}")

    def _trim(
        self, now: float, term: int, spare: Mapping[Group, list[Life]], demanded: Collection[str]
    ) -> list[Step]:
        """Stop what is too much, once everything else is as it shall be."""
        assert self.target is not None
        steps: list[Step] = []
        for group, lives in spare.items():
            wanted = sum(n for g, n in self.target.items() if g.model == group.model)
            for life in self.stoppable(now, lives):
                left = [one for one in lives if not one.is_leaving]
                if len(left) <= self.target.get(group, 0):
                    break
                others = self._fleet.serving(group.model, besides=life)
                # One that does not serve yet may be about to, while another is not.
                enough = others >= (max(wanted, 1) if life.is_serving else 1)
                if enough or group.model not in demanded:
                    steps += self._stop(now, life, term, "another place is better")
        return steps

    def stoppable(self, now: float, lives: Collection[Life]) -> list[Life]:
        """Return those of *lives* that may be stopped; first what serves least, and not long."""
        able = [one for one in lives if not one.is_leaving and not self.locked(now, one)]
        ends = {one.session: one.ends_at for one in self._fleet.agents.values()}
        return sorted(
            able,
            key=lambda one: (
                one.is_serving,
                ends.get(one.agent, 0.0),
                one.began_at,
                one.start.command,
            ),
        )

    def _start(
        self,
        now: float,
        group: Group,
        agent: Agent,
        term: int,
        reason: str = "",
        *,
        is_aside: bool = False,
    ) -> list[Step]:
        model = self._models[group.model]
        start = Start(
            command=self._new_id(),
            term=term,
            template=model.template,
            model=model.name,
            tp=group.tp,
            pp=group.pp,
            quantisation=model.quantisation,
            kv_dtype=model.engine_kv_dtype,
            context_max=model.context_max,
        )
        life = Life(start, agent, began_at=now, now=now)
        life.sent_at, life.is_aside, life.is_turn = now, is_aside, model.name in self.turns
        self._fleet.lives[start.command] = life
        return [Say("START", life, reason), Send(agent, start)]

    def _stop(
        self, now: float, life: Life, term: int, reason: str, *, fails: bool = False
    ) -> list[Step]:
        agent = self._fleet.agents[life.agent]
        if not fails:
            self.stopped[self._fleet.group(life)] = now
        life.stop, life.why, life.sent_at = self._new_id(), reason, now
        if life.model in self.yields and any(g.model == life.model for g in self.target or ()):
            self.owed[life.model] = None
        stop = Stop(command=life.stop, term=term, start=life.start.command, reason=reason)
        return [Say("STOP", life, reason), Send(agent, stop)]

    def _failed(self, now: float, life: Life, reason: str) -> Step:
        life.has_failed = True
        if life.agent in self._fleet.agents:  # that it is gone is no fault of the model's
            self.blame.failed(now, life.agent, life.model, reason, was_tried=life.is_known)
        return Say("FAILED", life, reason)
