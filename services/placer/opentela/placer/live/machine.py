"""A placer: hears what is asked and what there is, decides while it leads, and has it carried out.

`step(now, wall, event)` is the only way to change it and returns what is to be done; it waits for
nothing and knows no mesh, clock or solver.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final

from opentela.core import ids
from opentela.core.rng import Rng
from opentela.placer.live import account, lease
from opentela.placer.live import messages as m
from opentela.placer.live.checks import fingerprint
from opentela.placer.live.config import PlacerConfig
from opentela.placer.live.decide import Decided
from opentela.placer.live.demand import Demands
from opentela.placer.live.fleet import Agent, Fleet, Life
from opentela.placer.live.lease import Lease
from opentela.placer.live.mover import Mover, Say, Send, Step
from opentela.placer.live.survey import Survey, signature
from opentela.wire.audit import AuditEvent, Kind
from opentela.wire.command import Look

URGENT_S: Final = 1.0
"""Between two decisions at the least, whatever happens."""
ANSWER_S: Final = 2.0
"""A new leader waits so long for agents to say what they hold; then it goes on without the rest."""
TERM_AHEAD_MAX_S: Final = 86400.0
"""Terms begin at the time of day in milliseconds and grow by less than that has; one that is later
than any clock may be wrong is made up."""
_TURN_S: Final = 0.25
"""Between two looks at what is due while something moves."""


class PlacerMachine:
    """The decisions of one placer.

    Attributes:
        fleet: What there is.
        mover: What carries plans out.
        decided: The latest decision.
    """

    def __init__(
        self,
        config: PlacerConfig,
        *,
        name: str,
        instance: str,
        rng: Rng,
        now: float,
        wall: float,
    ) -> None:
        names = names_of(config)
        self._config = config
        self._name = name
        self._rng = rng
        self._now, self._wall = now, wall
        self._demands = Demands(config.demand, names, now)
        self.fleet = Fleet(names)
        self.mover = Mover(config, self.fleet, self._new_id)
        self._survey = Survey(config, self._demands, self.fleet, self.mover, now)
        self._lease = Lease(
            placer=name,
            instance=instance,
            lease_s=config.lease.lease_s,
            renew_s=config.lease.renew_s,
            settings=fingerprint(config),
        )
        self._own_term = int(wall * 1000)
        self._epoch = 0
        self._led_at = self._whole_at = -math.inf
        self._is_leading = self._is_whole = self._is_over = False
        self._number = 0
        self._led_term = 0
        self._decision = ""
        self._is_planning = False
        self._planned_at = -math.inf
        self._signature: tuple[object, ...] = ()
        self._checked_at = -math.inf
        self._actions: list[m.Action] = []
        self.decided = Decided(reason="nothing was decided yet")

    # What others ask

    @property
    def term(self) -> int:
        """Under which it leads; 0 when it does not, or leads nothing."""
        if self._config.dry_run:
            return 0
        return self._own_term if self._config.lease.kind == "none" else self._lease.term

    @property
    def is_leading(self) -> bool:
        """Whether it acts."""
        return self._is_leading

    @property
    def epoch(self) -> int:
        """Counts its times as leader: what agents answered to an earlier one counts no more."""
        return self._epoch

    def may_act(self, now: float) -> bool:
        """Return whether it still leads at *now*, which may be long after the latest step.

        A process can be paused between a decision and the moment at which it is sent.
        """
        return self._is_leading and (not self._elects() or self._lease.leads(now))

    def why_not(self) -> str:
        """Return why it moves nothing; empty when it does, or follows another that does."""
        if not self._is_whole:
            return "no registry has told yet who is there"
        if self._config.dry_run or self._config.lease.kind == "none":
            return ""
        return "" if self._lease.term else self._lease.why_not

    def differs_from(self) -> str:
        """Return who leads and is told to do other things than this one; nobody if all is well."""
        return self._lease.leader if self._lease.differs and not self._is_leading else ""

    def next_deadline(self) -> float:
        """Return when to tick at the latest."""
        due = self._now + (_TURN_S if self._is_moving() else URGENT_S)
        return min(due, self._lease.next_deadline()) if self._elects() else due

    def status(self, now: float, wall: float) -> dict[str, object]:
        """Return what `/status` tells."""
        asked = self._survey.asked(now)
        follows = self._lease.leader if not self._is_leading else ""
        return {
            "leads": self._is_leading,
            "leader": self._name if self._is_leading else self._lease.leader,
            "term": self.term,
            "dry_run": self._config.dry_run,
            **account.status(self.decided, asked, self._survey.running(now, wall)),
            **({"reason": f"{follows} decides"} if follows else {}),
            "notes": list(self._notes()),
            "agents": account.agents(self.fleet, now),
            "replicas": account.replicas(self.fleet, now),
            "failures": account.failures(self.mover.blame, now),
        }

    # Events

    def step(self, now: float, wall: float, event: m.Event) -> list[m.Action]:
        """Take in what happened at *now* (monotonic) and *wall* (Unix); return what to do."""
        self._now, self._wall = now, wall
        self._actions = []
        if not self._is_over:
            # What is over was over before this came.
            self._elect(lease.Tick())
            self._take_in(event)
        # What was used is counted at the next turn; there are many records a second.
        if not self._is_over and not isinstance(event, m.Used):
            self._elect(lease.Tick())
            self._act()
        if self._is_leading:
            self._led_term = self.term
        return self._actions

    def _take_in(self, event: m.Event) -> None:
        match event:
            case m.Tick():
                pass
            case m.Used(records=records):
                self._survey.used(self._now, self._wall, records)
            case m.Changed(records=records, is_whole=is_whole):
                if is_whole and not self._is_whole:
                    self._is_whole, self._whole_at = True, self._now
                for life, why in self.fleet.apply(self._now, records):
                    self._say([self.mover.ended(self._now, life, why)])
            case m.Held():
                self._hear(event)
            case m.Elected(event=elected):
                self._elect(elected)
            case m.Planned(number=number, decided=decided):
                self._carry(number, decided)
            case m.Leaving():
                self._resign()

    def _hear(self, held: m.Held) -> None:
        agent = self.fleet.agents.get(held.agent)
        if agent is None or held.epoch != self._epoch or held.provider != agent.path.provider:
            return
        if held.holding.term > self.term > 0:
            self._outdone(agent, held.holding.term)
            return
        steps = self.mover.answered(self._now, agent, held.holding)
        found, ended = self.fleet.hear(self._now, self._wall, agent, held.holding)
        steps += [Say("ADOPTED", life, "found at its agent") for life in found]
        self.mover.keep(found)
        steps += [self.mover.ended(self._now, life, why) for life, why in ended]
        self._say(steps)

    def _outdone(self, agent: Agent, term: int) -> None:
        if term > (self._wall + TERM_AHEAD_MAX_S) * 1000:
            agent.fault = f"it says that it has heard of term {term}, which nobody can have"
        elif self._config.lease.kind == "none":
            # Nobody else is meant to lead: our clock is behind that of an earlier run.
            self._own_term = term + 1
        else:
            self._elect(lease.Outdone(term=term))

    # The election

    def _elects(self) -> bool:
        return self._config.lease.kind == "jetstream" and not self._config.dry_run

    def _elect(self, event: lease.Event) -> None:
        if self._elects():
            for action in self._lease.step(self._now, event):
                self._actions.append(m.AskBucket(action=action))
            leads = self._lease.leads(self._now)
        else:
            leads = True
        if leads != self._is_leading:
            self._is_leading = leads
            self._begin() if leads else self._end()

    def _begin(self) -> None:
        """Forget what an earlier time as leader believed, and ask every agent."""
        self._led_at, self._planned_at = self._now, -math.inf
        self._reset()
        self._audit("LED", reason="it holds the lease" if self._elects() else "nobody else may")

    def _end(self) -> None:
        self._reset()
        self._audit("DEPOSED", term=self._led_term, reason=self._lease.why_lost(self._name))

    def _reset(self) -> None:
        self._epoch += 1
        self._number += 1
        self._is_planning = False
        self.mover.forget_plan()
        self.fleet.lives.clear()
        for agent in self.fleet.agents.values():
            agent.holding, agent.heard_at, agent.looked_at = None, -math.inf, -math.inf

    def _resign(self) -> None:
        self._is_over = True
        if self._elects():
            for action in self._lease.resign(self._now):
                self._actions.append(m.AskBucket(action=action))
        if self._is_leading:
            self._is_leading = False
            self._audit("DEPOSED", term=self._led_term, reason="it stops")

    # What a leader does

    def _act(self) -> None:
        if not self._is_leading or not self._is_whole:
            return
        self._look()
        agents = [one for one in self.fleet.agents.values() if one.is_live]
        unheard = any(one.heard_at < self._led_at for one in agents)
        # Before the map is whole nobody is known who could be asked.
        if unheard and self._now - max(self._led_at, self._whole_at) < ANSWER_S:
            return
        if not self._config.dry_run:
            demanded = self._survey.demanded(self._now)
            steps = self.mover.step(self._now, self._wall, term=self.term, demanded=demanded)
            self._say(steps)
        self._plan()

    def _look(self) -> None:
        every_s = self._config.moves.look_s
        busy = {one.agent for one in self.fleet.lives.values() if _is_moving(one)}
        for agent in self.fleet.agents.values():
            wait_s = every_s / 5 if agent.session in busy or agent.holding is None else every_s
            if agent.is_live and self._now - agent.looked_at >= wait_s:
                agent.looked_at = self._now
                look = Look(term=self.term)
                self._actions.append(m.Tell(epoch=self._epoch, path=agent.path, command=look))

    def _plan(self) -> None:
        is_early = self._now - self._planned_at < URGENT_S or self._now - self._checked_at < _TURN_S
        if self._is_planning or is_early:
            return
        self._checked_at = self._now
        signed = signature(self._survey.glance(self._now, self._wall))
        is_due = self._now - self._planned_at >= self._config.plan.every_s
        if not is_due and signed == self._signature:
            return
        self._signature, self._planned_at, self._is_planning = signed, self._now, True
        self._number += 1
        question = self._survey.question(self._now, self._wall)
        self._actions.append(m.Plan(number=self._number, question=question))

    def _carry(self, number: int, decided: Decided) -> None:
        if number != self._number or not self._is_planning:
            return
        self._is_planning = False
        self.decided = decided
        if not self._config.dry_run:
            self.mover.follow(decided.target, decided.yields, decided.turns)
        kind: Kind = "PLANNED" if decided.is_change else "HELD"
        self._decision = self._audit(
            kind,
            reason=decided.reason,
            asked=account.asked(decided, self._survey.asked(self._now)),
            placed=account.placed(decided, self._survey.running(self._now, self._wall)),
            notes=self._notes(),
        )

    def _notes(self) -> tuple[str, ...]:
        other = self.differs_from()
        odd = (f"{other} leads with other settings: give both placers the same",) if other else ()
        return (*odd, *self.decided.notes, *self.mover.notes())

    def _is_moving(self) -> bool:
        return any(_is_moving(one) for one in self.fleet.lives.values())

    # What is told

    def _say(self, steps: Iterable[Step]) -> None:
        for step in steps:
            match step:
                case Send(agent=agent, command=command):
                    told = m.Tell(epoch=self._epoch, path=agent.path, command=command)
                    self._actions.append(told)
                case Say(kind=kind, life=life, reason=reason):
                    self._audit_life(kind, life, reason)

    def _audit_life(self, kind: Kind, life: Life, reason: str) -> None:
        agent = self.fleet.agents.get(life.agent)
        # What failed is stopped whatever was decided.
        is_decided = kind in {"START", "STOP"} and not life.has_failed
        self._audit(
            kind,
            reason=reason,
            decision=self._decision if is_decided else "",
            command=life.start.command,
            model=life.model,
            agent=life.agent,
            provider=agent.path.provider if agent else "",
            site=agent.path.site if agent else "",
            pool=agent.pool if agent else "",
        )

    def _audit(self, kind: Kind, *, term: int | None = None, **values: object) -> str:
        event = AuditEvent(
            id=self._new_id(),
            kind=kind,
            at=account.at(self._wall),
            placer=self._name,
            term=self.term if term is None else term,
            dry_run=self._config.dry_run,
            **values,  # type: ignore[arg-type]
        )
        self._actions.append(m.Audit(event=event))
        return event.id

    def _new_id(self) -> str:
        return ids.ulid(int(self._wall * 1000), self._rng.randbytes(ids.NOISE_BYTES))


def names_of(config: PlacerConfig) -> Mapping[str, str]:
    """Return the model behind each name that clients use."""
    return {name: model.name for model in config.models for name in (model.name, *model.aliases)}


def _is_moving(life: Life) -> bool:
    return life.is_leaving or not life.is_serving
