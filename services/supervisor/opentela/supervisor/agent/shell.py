"""An agent at work: feeds its machine, does what it says, and leaves nothing behind."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

from opentela.core.clock import Clock
from opentela.core.errors import EngineError, MeshUnavailableError, WireError
from opentela.mesh.bus import Bus, Message, Subscription
from opentela.mesh.seldom import Seldom
from opentela.supervisor.actions import Announce, AnswerProbe, AskEnd, Exit, SendBeat, TellEnd
from opentela.supervisor.agent import status
from opentela.supervisor.agent.actions import (
    AgentAction,
    Answer,
    LaunchReplica,
    StopReplica,
    TellEnded,
    TellRelaunch,
)
from opentela.supervisor.agent.events import AgentEvent, CommandArrived, Listening
from opentela.supervisor.agent.machine import AgentMachine
from opentela.supervisor.agent.replica import ReplicaProcess
from opentela.supervisor.events import (
    EndTold,
    MeshJoined,
    ProbeArrived,
    StopAsked,
    Tick,
    VerdictArrived,
)
from opentela.supervisor.inbox import Inbox
from opentela.supervisor.shell import leave_signals
from opentela.supervisor.status import moment
from opentela.supervisor.voice import Voice
from opentela.tasks import Tasks
from opentela.telemetry import log as logs
from opentela.telemetry import metrics
from opentela.wire import command, subjects
from opentela.wire.command import Holding
from opentela.wire.subjects import SessionPath

log: Final = logs.get_logger()

END_WITHIN_S: Final = 2.0
"""When we are told to go at once; what is left then is the guardians'."""
_DROPPABLE: Final = (ProbeArrived, VerdictArrived, CommandArrived)
"""Whoever sent one says it again."""

_rejected: Final = metrics.counter(
    "otela_agent_commands_rejected_total", "Messages to an agent that were not commands."
)
_REASON_CHARACTERS_MAX: Final = 256
_COMMAND_CHARACTERS_MAX: Final = 32

OnReady = Callable[[bool, str], None]
FindEnd = Callable[[], Awaitable[float | None]]


class Launcher(Protocol):
    """Makes replicas of this host."""

    def launch(
        self, action: LaunchReplica, tell: Callable[[AgentEvent], None]
    ) -> tuple[ReplicaProcess, Coroutine[Any, Any, None]]:
        """Return a replica, and the work that runs it to its end."""


class AgentShell:
    """Runs one machine until it exits.

    Attributes:
        machine: For the status page.
    """

    def __init__(self, machine: AgentMachine, *, clock: Clock, on_ready: OnReady) -> None:
        self.machine = machine
        self._clock = clock
        self._on_ready = on_ready
        self._inbox: Inbox[AgentEvent] = Inbox(clock, _DROPPABLE)
        self._tasks = Tasks()
        self._replicas: dict[str, ReplicaProcess] = {}
        self._heard: Subscription | None = None
        self._is_connected = False
        self._failure: str | None = None
        self._bus: Bus | None = None
        self._voice: Voice | None = None
        self._launcher: Launcher | None = None
        self._find_end: FindEnd | None = None
        self._logs_rejection = Seldom()

    def tell(self, event: AgentEvent) -> None:
        """Let the machine know of *event* soon."""
        self._inbox.put(event)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do *work* beside everything else; its failure ends us."""
        self._tasks.spawn(work)

    def mesh_changed(self, *, connected: bool) -> None:
        """Take note that the mesh is reached, or lost."""
        self._is_connected = connected
        self.tell(MeshJoined() if connected else Tick())

    async def run(
        self,
        *,
        bus: Bus,
        voice: Voice,
        launcher: Launcher,
        stopping: asyncio.Event,
        find_end: FindEnd,
        beside: Iterable[Coroutine[Any, Any, None]] = (),
    ) -> None:
        """Work until the machine exits, and do what is given *beside*.

        Raises:
            EngineError: Replicas did not end.
            CredentialError: The mesh does not let us in.
        """
        self._bus, self._voice, self._launcher = bus, voice, launcher
        self._find_end = find_end
        async with leave_signals(self.tell), self._ending(), self._tasks:
            for work in (self._await_stop(stopping), *beside):
                self.spawn(work)
            await self._drive()
        if self._failure:
            raise EngineError(
                self._failure, remedy="look for processes that hang, such as in a GPU's driver"
            )

    def status(self) -> dict[str, Any]:
        """Return what `/status` tells."""
        pids = {start: replica.pid for start, replica in self._replicas.items()}
        return status.document(self.machine, pids)

    async def _drive(self) -> None:
        event: AgentEvent = Tick()
        while True:
            for action in self.machine.step(self._clock.now(), self._clock.wall(), event):
                await self._perform(action)
            status.measure(self.machine)
            self._on_ready(*status.readiness(self.machine, is_connected=self._is_connected))
            if self._failure is not None:
                return
            due = self.machine.next_deadline(self._clock.now(), self._clock.wall())
            event = await self._inbox.next(due)

    async def _perform(self, action: AgentAction) -> None:
        match action:
            case Announce() | SendBeat() | AnswerProbe():
                await self._speak(action)
            case Answer():
                await self._answer(action)
            case LaunchReplica():
                self._launch(action)
            case StopReplica(start=start, term_s=term_s):
                self._replicas[start].stop(term_s)
            case Exit(reason=reason):
                self._failure = reason
            case AskEnd():
                self.spawn(self._ask_end())
            case TellEnded() | TellRelaunch() | TellEnd():
                self._tell_operator(action)

    def _launch(self, action: LaunchReplica) -> None:
        assert self._launcher is not None
        self._replicas[action.start], work = self._launcher.launch(action, self.tell)
        self.spawn(work)

    def _tell_operator(self, action: TellEnded | TellRelaunch | TellEnd) -> None:
        match action:
            case TellEnd(ends_at=ends_at):
                log.info("walltime_moved", ends_at=moment(ends_at))
            case TellEnded(start=start, model=model, state=state, reason=reason):
                self._replicas.pop(start, None)
                log.info("replica_ended", start=start, model=model, state=state, reason=reason)
            case TellRelaunch(start=start, model=model, reason=reason, delay_s=delay_s):
                log.warning(
                    "replica_relaunched", start=start, model=model, reason=reason, delay_s=delay_s
                )

    # The mesh

    async def _speak(self, action: Announce | SendBeat | AnswerProbe) -> None:
        voice = self._voice
        assert voice is not None
        match action:
            case Announce(claim=claim):
                await voice.announce(claim)
                if claim.incarnation == 1:
                    path = SessionPath(claim.provider, claim.site, claim.session)
                    self.spawn(self._listen(voice, path))
            case SendBeat(path=path, beat=beat):
                await voice.beat(path, beat)
            case AnswerProbe(path=path, sequence=sequence, reply=reply):
                await voice.answer(path, sequence, reply)

    async def _listen(self, voice: Voice, path: SessionPath) -> None:
        """Hear what concerns our session, and what placers tell it.

        Raises:
            CredentialError: The access does not allow sessions of this provider or site.
        """
        assert self._bus is not None
        await voice.listen(path)
        if self._heard is not None:
            await self._heard.unsubscribe()
        self._heard = await self._bus.subscribe(subjects.command(path), self._on_command)
        self.tell(Listening(path.session))

    def _on_command(self, message: Message) -> None:
        try:
            said = command.read_command(message.payload)
        except WireError as error:
            self._reject(error)
        else:
            self.tell(CommandArrived(said, message.reply))

    async def _answer(self, answer: Answer) -> None:
        assert self._bus is not None
        holding = answer.holding
        status.count(answer)
        if answer.kind != "look" and not answer.is_repeated:
            _log_command(answer.kind, holding)
        if not answer.reply:
            return
        try:
            subject = subjects.answer(answer.reply, answer.path)
            await self._bus.publish(subject, command.encode(holding))
        except WireError as error:
            self._reject(error)
        except MeshUnavailableError:
            # Closed: we are on our way out.
            log.debug("message_unsent", subject=answer.reply)

    def _reject(self, error: WireError) -> None:
        _rejected.inc()
        if self._logs_rejection.now():
            log.warning("command_rejected", reason=str(error)[:_REASON_CHARACTERS_MAX])

    # The end

    async def _ask_end(self) -> None:
        ends_at = await self._find_end() if self._find_end else None
        if ends_at is not None:
            self.tell(EndTold(ends_at))

    async def _await_stop(self, stopping: asyncio.Event) -> None:
        await stopping.wait()
        self.tell(StopAsked("asked to stop"))

    @asynccontextmanager
    async def _ending(self) -> AsyncIterator[None]:
        """Leave no process behind, whatever ended the block."""
        try:
            yield
        finally:
            left = list(self._replicas.values())
            try:
                async with asyncio.timeout(END_WITHIN_S), asyncio.TaskGroup() as group:
                    for replica in left:
                        group.create_task(replica.end_at_once())
            except TimeoutError:
                log.warning("replicas_left_to_guardians", pids=[one.pid for one in left])


def _log_command(kind: str, holding: Holding) -> None:
    # What is no ULID, and refused for that, may be as long as a message.
    told = log.bind(kind=kind, command=holding.command[:_COMMAND_CHARACTERS_MAX])
    if holding.accepted:
        told.info("command_taken")
    else:
        told.warning("command_refused", reason=holding.reason[:_REASON_CHARACTERS_MAX])
