"""An agent: a session without models, the commands that it takes, the replicas that it runs.

`step(now, wall, event)` is the only way to change it and returns what is to be done; it waits for
nothing and knows no process, socket or clock.

- No two replicas share a GPU: whoever holds one is in the `Fleet` until no process of it is left.
- A command is done at most once: what became of it is in the `Memory` before anything is done.
- A placer that does not lead any more changes nothing: terms only rise.
"""

import math
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from opentela.core.errors import UsageError
from opentela.core.record import Lifecycle, Offer
from opentela.core.rng import Rng
from opentela.supervisor.actions import AskEnd, Exit, TellEnd
from opentela.supervisor.agent import templates
from opentela.supervisor.agent.actions import AgentAction, Answer
from opentela.supervisor.agent.config import AgentConfig, TemplateConfig
from opentela.supervisor.agent.devices import Devices
from opentela.supervisor.agent.events import (
    AgentEvent,
    CommandArrived,
    Listening,
    ReplicaEnded,
    ReplicaSpoke,
    ReplicaStuck,
)
from opentela.supervisor.agent.fleet import TERM_MARGIN_S, Fleet
from opentela.supervisor.agent.memory import Memory, Outcome
from opentela.supervisor.agent.presence import Presence
from opentela.supervisor.allotment import Allotment
from opentela.supervisor.claims import OwnSession, Place
from opentela.supervisor.events import (
    EndTold,
    MeshJoined,
    ProbeArrived,
    StopAsked,
    Tick,
    VerdictArrived,
    Warned,
)
from opentela.supervisor.walltime import Walltime
from opentela.wire.command import ENGINE, TEMPLATES, Command, Holding, Look, Start, Stop

STORY_EVENTS_MAX: Final = 64
"""What is kept of the past for `/status`."""
STUCK_S: Final = 6.0
"""Beyond the time that replicas have to end: then we go, and leave the rest to their guardians."""


class Allocation(NamedTuple):
    """What there is to run engines on.

    Attributes:
        templates: That may be asked for, by name.
        walltime: Its end as it is planned for.
        can_end_move: Whether somebody may change that end.
    """

    devices: Devices
    templates: Mapping[str, TemplateConfig]
    walltime: Walltime | None
    can_end_move: bool = False


class AgentMachine:
    """The decisions of an agent.

    Attributes:
        fleet: Its replicas.
        allotment: Until when it may stay.
        term: The latest that it heard.
        leaving: Why it goes; empty while it stays.
        story: What happened, latest last: seconds and words.
    """

    def __init__(
        self,
        config: AgentConfig,
        *,
        place: Place,
        key: str,
        allocation: Allocation,
        rng: Rng,
        now: float,
    ) -> None:
        self.fleet = Fleet(config, allocation.devices.ids, rng)
        self.allotment = Allotment(
            config.supervisor.walltime,
            allocation.walltime,
            now=now,
            can_move=allocation.can_end_move,
        )
        self.term = 0
        self.leaving = ""
        self.story: deque[tuple[float, str]] = deque(maxlen=STORY_EVENTS_MAX)
        self._config = config
        self._allocation = allocation
        self._memory = Memory(config.commands_kept)
        self._presence = Presence(
            config.supervisor, place=place, key=key, offer=_offer(config, allocation), rng=rng
        )
        self._now = now
        self._wall = 0.0
        self._actions: list[AgentAction] = []
        # Instants at which something is due; infinity when it is not.
        self._exit_by = math.inf
        self._drains_for_end = False
        self._is_over = False

    @property
    def session(self) -> OwnSession | None:
        """Our own, the present or the last one."""
        return self._presence.session

    def step(self, now: float, wall: float, event: AgentEvent) -> list[AgentAction]:
        """Take in what happened at *now* (monotonic) and *wall* (Unix); return what to do."""
        assert now >= self._now, f"time went back by {self._now - now} s"
        self._now, self._wall = now, wall
        self._actions = []
        if not self._is_over:
            # What is due was due before this: a command that comes too late finds us leaving.
            self._settle()
            self._take_in(event)
            self._finish()
        return self._actions

    def next_deadline(self, now: float, wall: float) -> float:
        """Return the instant by which `Tick` must be stepped if nothing else is."""
        due = [self._presence.next_deadline(), self.fleet.next_deadline(), self._exit_by]
        if not self.leaving:
            due.append(self.allotment.next_deadline(now, wall))
        if self._drains_for_end:
            due.append(now + self.allotment.left_s(wall))
        return min(due)

    def _take_in(self, event: AgentEvent) -> None:
        match event:
            case Tick():
                pass
            case Listening(session=session):
                if self.session and self.session.claim.session == session and not self.leaving:
                    self._actions += self._presence.move(Lifecycle.SERVING, self._wall)
            case CommandArrived(command=command, reply=reply):
                self._command(command, reply)
            case ReplicaSpoke() | ReplicaEnded() | ReplicaStuck():
                self._take_in_replica(event)
            case ProbeArrived() | VerdictArrived() | MeshJoined():
                self._actions += self._presence.take_in(self._now, self._wall, event)
            case Warned() | StopAsked() | EndTold():
                self._hear_of_end(event)

    def _take_in_replica(self, event: ReplicaSpoke | ReplicaEnded | ReplicaStuck) -> None:
        match event:
            case ReplicaSpoke():
                self.fleet.hear(self._now, event)
            case ReplicaStuck():
                self.fleet.stuck(event)
            case ReplicaEnded(start=start, how=how, reason=reason):
                self._actions += self.fleet.ended(self._now, event)
                self._tell(f"replica {start} {how}: {reason}")

    def _settle(self) -> None:
        """Do whatever is due by now."""
        allotment = self.allotment
        if not self.leaving and allotment.asks(self._now):
            self._actions.append(AskEnd())
        if not self.leaving and allotment.is_used_up(self._wall):
            self._leave("the walltime ends")
            # Replicas know the end as well, and drain until we all leave.
            self._drains_for_end = True
        if self._drains_for_end and not allotment.left_s(self._wall):
            self._stop_all(term_s=max(1.0, self._ends_at() - self._wall - TERM_MARGIN_S))
        self._actions += self.fleet.settle(self._now, agent=self._named(), ends_at=self._ends_at())
        self._actions += self._presence.due(
            self._now, self._wall, running=len(self.fleet.living), is_leaving=bool(self.leaving)
        )

    def _finish(self) -> None:
        """Leave once nothing of a replica is left, or it is no use to wait."""
        if not self.leaving:
            return
        living = self.fleet.living
        if living and self._now < self._exit_by:
            return
        reason = f"{len(living)} replicas do not end" if living else ""
        self._actions += self._presence.move(Lifecycle.LEFT, self._wall, reason or self.leaving)
        self._is_over = True
        self._actions.append(Exit(reason))

    # Commands

    def _command(self, command: Command, reply: str) -> None:
        session = self.session
        assert session is not None, "it begins with the first step"
        known: Outcome | None = None
        if isinstance(command, Look):
            # Whoever leads now looks first: what an earlier one sent and comes after, is void.
            self.term = max(self.term, command.term)
            name, kind, outcome = "", "look", Outcome()
        else:
            name, kind = command.command, "start" if isinstance(command, Start) else "stop"
            known = self._memory.of(name)
            outcome = self._decide(command) if known is None else known
        holding = self._holding(name, outcome)
        self._actions.append(Answer(kind, known is not None, reply, session.path, holding))

    def _decide(self, command: Start | Stop) -> Outcome:
        if fault := self._memory.fault(command.command):
            return Outcome(accepted=False, reason=fault)
        if command.term < self.term:
            return Outcome(
                accepted=False, reason=f"term {command.term} is over: {self.term} was heard of"
            )
        self.term = command.term
        actions: list[AgentAction] = []
        try:
            actions += self._start(command) if isinstance(command, Start) else self._stop(command)
            outcome = Outcome()
        except UsageError as error:
            outcome = Outcome(accepted=False, reason=error.line())
        self._memory.keep(command.command, outcome)
        self._actions += actions
        said = "done" if outcome.accepted else f"refused: {outcome.reason}"
        self._tell(f"{type(command).__name__.lower()} {command.command}: {said}")
        return outcome

    def _start(self, start: Start) -> list[AgentAction]:
        """Run a replica.

        Raises:
            UsageError: It cannot be done; says why.
        """
        if self.leaving:
            raise UsageError(f"the agent is leaving: {self.leaving}")
        offered = self._allocation.templates
        template = offered.get(start.template)
        if template is None:
            raise UsageError(
                f"there is no template {start.template[:64]!r}",
                remedy=f"there are {', '.join(offered) or 'none'}",
            )
        templates.check_values(start)
        templates.check_allowed(start.model, self._config.models, template.models)
        argv = templates.argv(template, start)
        return [*self.fleet.start(start, argv, agent=self._named(), ends_at=self._ends_at())]

    def _stop(self, stop: Stop) -> list[AgentAction]:
        actions = self.fleet.stop(self._now, stop.start, stop.reason or "stopped by the placer")
        is_unknown = actions is None and self._memory.of(stop.start) is None
        if is_unknown and not self._memory.fault(stop.start):
            # Its start may still be on the way: it comes too late.
            early = Outcome(accepted=False, reason="it was stopped before it was started")
            self._memory.keep(stop.start, early)
        return [*(actions or ())]

    def _holding(self, command: str, outcome: Outcome) -> Holding:
        allocation = self._allocation
        return Holding(
            command=command,
            accepted=outcome.accepted,
            reason=outcome.reason,
            term=self.term,
            hardware=allocation.devices.hardware,
            gpus=self.fleet.gpus,
            walltime_ends_at=self._ends_at(),
            templates=tuple(allocation.templates),
            replicas=self.fleet.told(),
        )

    # The end

    def _hear_of_end(self, event: Warned | StopAsked | EndTold) -> None:
        match event:
            case EndTold(ends_at=ends_at):
                if self.allotment.hear(self._wall, ends_at):
                    self._actions.append(TellEnd(ends_at))
                    self._actions += self._presence.prolong(ends_at, self._wall)
            case Warned(reason=reason) if self.allotment.is_warning_foreseen(self._wall):
                self._tell(f"warned of an end that is planned for: {reason}")
            case Warned() | StopAsked():
                self._leave(event.reason)
                self._stop_all()

    def _leave(self, reason: str) -> None:
        """Take no further replica, and let those that run come to their end."""
        if self.leaving:
            return
        self.leaving = reason
        self._tell(f"leaving: {reason}")
        self._actions += self._presence.move(Lifecycle.DRAINING, self._wall, reason)
        self._actions += self.fleet.close(self._now, reason)

    def _stop_all(self, *, term_s: float = math.inf) -> None:
        self._drains_for_end = False
        self._actions += self.fleet.stop_all(self._now, self.leaving, term_s=term_s)
        self._exit_by = min(self._exit_by, self._now + min(term_s, self.fleet.term_s) + STUCK_S)

    def _named(self) -> str:
        return self.session.claim.session if self.session else ""

    def _ends_at(self) -> float:
        return self.allotment.walltime.ends_at if self.allotment.walltime else 0.0

    def _tell(self, words: str) -> None:
        self.story.append((self._wall, words))


def _offer(config: AgentConfig, allocation: Allocation) -> Offer:
    walltime = allocation.walltime
    return Offer(
        engine=ENGINE,
        hardware=allocation.devices.hardware,
        gpus=allocation.devices.gpus,
        walltime_ends_at=walltime.ends_at if walltime else 0.0,
        labels={**config.supervisor.labels, TEMPLATES: ",".join(allocation.templates)},
    )
