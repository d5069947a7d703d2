"""A supervisor at work: feeds its machine, does what it says, and leaves nothing behind."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

from opentela.core.clock import Clock
from opentela.core.errors import EngineError
from opentela.supervisor import status
from opentela.supervisor.actions import (
    Action,
    Announce,
    AnswerProbe,
    AskEnd,
    CloseGateway,
    DrainGateway,
    Exit,
    LaunchEngine,
    MakeSession,
    OpenGateway,
    ProbeEngine,
    ReadLoad,
    ReadOffer,
    RetireGateway,
    SendBeat,
    StopEngine,
    TellEnd,
    TellLeftOut,
    TellUnread,
)
from opentela.supervisor.engine_runner import EngineRunner
from opentela.supervisor.events import (
    EndTold,
    Event,
    MeshJoined,
    ProbeArrived,
    SessionMade,
    StopAsked,
    Tick,
    VerdictArrived,
    Warned,
)
from opentela.supervisor.gateways import Gateways
from opentela.supervisor.inbox import Inbox
from opentela.supervisor.machine import Machine
from opentela.supervisor.process import ENDED_WELL
from opentela.supervisor.voice import Voice
from opentela.tasks import Tasks
from opentela.telemetry import log as logs
from opentela.wire.subjects import SessionPath

log: Final = logs.get_logger()

_LAST_LINE_CHARACTERS_MAX: Final = 400
END_WITHIN_S: Final = 2.0
"""When we are told to go at once; what is left then is the guardian's."""

_LEAVE_SIGNALS: Final = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)
"""Slurm's `--signal=B:USR1@120` and its kin: whoever sends one wants us to leave in order.

All but SIGUSR2 are warnings: a single one of an end that we are prepared for changes nothing."""

OnReady = Callable[[bool, str], None]
FindEnd = Callable[[], Awaitable[float | None]]


class SupervisorShell:
    """Runs one machine until it exits.

    Attributes:
        machine: For the status page.
    """

    def __init__(
        self, machine: Machine, *, clock: Clock, on_ready: OnReady, shows_output: bool
    ) -> None:
        self.machine = machine
        self._shows_output = shows_output
        self._clock = clock
        self._on_ready = on_ready
        self._inbox: Inbox[Event] = Inbox(clock, (ProbeArrived, VerdictArrived))
        self._tasks = Tasks()
        self._is_connected = False
        self._failure: str | None = None
        self._runner: EngineRunner | None = None
        self._gateways: Gateways | None = None
        self._voice: Voice | None = None
        self._find_end: FindEnd | None = None

    def tell(self, event: Event) -> None:
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
        runner: EngineRunner,
        gateways: Gateways,
        voice: Voice,
        stopping: asyncio.Event,
        beside: Iterable[Coroutine[Any, Any, None]] = (),
        find_end: FindEnd | None = None,
    ) -> None:
        """Work until the machine exits, and do what is given *beside*.

        Args:
            runner: The engine.
            gateways: Take the requests.
            voice: Speaks to the mesh.
            stopping: Set when we are asked to stop.
            beside: Done meanwhile.
            find_end: Says when our time ends, if anybody knows.

        Raises:
            EngineError: The engine failed for good.
            CredentialError: The mesh does not let us in.
        """
        self._runner, self._gateways, self._voice = runner, gateways, voice
        self._find_end = find_end
        async with leave_signals(self.tell), self._ending(runner, gateways), self._tasks:
            for work in (self._await_stop(stopping), *beside):
                self.spawn(work)
            await self._drive()
        if self._failure:
            said = runner.last_line[:_LAST_LINE_CHARACTERS_MAX]
            raise EngineError(
                f"{self._failure}: {said}" if said else self._failure,
                remedy=_remedy(self._failure, has_output=bool(said)),
            )

    def status(self) -> dict[str, Any]:
        """Return what `/status` tells."""
        runner, gateways = self._runner, self._gateways
        if runner is None or gateways is None:
            return {}
        return status.document(
            self.machine,
            pid=runner.pid,
            address=runner.http.address.shown,
            running=gateways.carried().running,
            # What an engine prints may be a prompt: only whoever has the token may read it.
            tail=runner.tail if self._shows_output else [],
        )

    async def _drive(self) -> None:
        assert self._runner is not None
        assert self._gateways is not None
        event: Event = Tick()
        while True:
            self._gateways.curfew.leave_at = self.machine.allotment.leave_at
            carried = self._gateways.carried()
            for one in (self._runner.take_output(), carried, event):
                if one is not None:
                    await self._step(one)
            status.measure(self.machine, carried.running, self._runner.dropped_bytes)
            self._on_ready(*status.readiness(self.machine, is_connected=self._is_connected))
            if self._failure is not None:
                return
            due = self.machine.next_deadline(self._clock.now(), self._clock.wall())
            event = await self._inbox.next(due)

    async def _step(self, event: Event) -> None:
        for action in self.machine.step(self._clock.now(), self._clock.wall(), event):
            await self._perform(action)

    async def _perform(self, action: Action) -> None:
        runner, gateways, voice = self._runner, self._gateways, self._voice
        assert runner is not None
        assert gateways is not None
        assert voice is not None
        match action:
            case MakeSession():
                self.tell(SessionMade(voice.key))
            case Announce(claim=claim):
                await voice.announce(claim)
                if claim.incarnation == 1:
                    self.spawn(voice.listen(SessionPath(claim.provider, claim.site, claim.session)))
            case SendBeat(path=path, beat=beat):
                await voice.beat(path, beat)
            case AnswerProbe(path=path, sequence=sequence, reply=reply):
                await voice.answer(path, sequence, reply)
            case OpenGateway() | DrainGateway() | CloseGateway() | RetireGateway():
                await _tell_gateways(gateways, action, runner)
            case Exit(reason=reason):
                self._failure = reason
            case AskEnd():
                self.spawn(self._ask_end())
            case TellUnread() | TellLeftOut() | TellEnd():
                _tell_operator(action)
            case _:
                _ask_engine(runner, action)

    async def _ask_end(self) -> None:
        ends_at = await self._find_end() if self._find_end else None
        if ends_at is not None:
            self.tell(EndTold(ends_at))

    async def _await_stop(self, stopping: asyncio.Event) -> None:
        await stopping.wait()
        self.tell(StopAsked("asked to stop"))

    @asynccontextmanager
    async def _ending(self, runner: EngineRunner, gateways: Gateways) -> AsyncIterator[None]:
        """Leave neither requests nor processes behind, whatever ended the block."""
        try:
            yield
        finally:
            try:
                async with asyncio.timeout(END_WITHIN_S):
                    gateways.close_all()
                    await runner.end_at_once()
            except TimeoutError:
                log.warning("engine_left_to_guardian", pid=runner.pid)


def _remedy(failure: str, *, has_output: bool) -> str:
    """Return what to do about an engine that failed for good."""
    if failure.endswith(ENDED_WELL):
        return "an engine must stay in the foreground: no & and no option that makes it a daemon"
    return "the engine's output says more" if has_output else "it wrote nothing: run it by hand"


def _tell_operator(action: TellUnread | TellLeftOut | TellEnd) -> None:
    match action:
        case TellEnd(ends_at=ends_at):
            log.info("walltime_moved", ends_at=status.moment(ends_at))
        case TellUnread(launch=launch, reason=reason, failures=failures):
            log.warning("offer_unread", launch=launch, reason=reason, failures=failures)
        case TellLeftOut(models=models):
            log.warning("models_left_out", models=models)


async def _tell_gateways(
    gateways: Gateways,
    action: OpenGateway | DrainGateway | CloseGateway | RetireGateway,
    runner: EngineRunner,
) -> None:
    match action:
        case OpenGateway(path=path):
            await gateways.open(path, runner.http)
        case DrainGateway(path=path):
            gateways.drain(path)
        case CloseGateway(path=path):
            gateways.close(path)
        case RetireGateway(path=path, limit_s=limit_s):
            gateways.retire(path, limit_s)


def _ask_engine(
    runner: EngineRunner,
    action: LaunchEngine | StopEngine | ProbeEngine | ReadOffer | ReadLoad,
) -> None:
    match action:
        case LaunchEngine(launch=launch):
            runner.launch(launch)
        case StopEngine(term_s=term_s):
            runner.stop(term_s)
        case ProbeEngine():
            runner.probe()
        case ReadOffer():
            runner.read_offer()
        case ReadLoad():
            runner.read_load()


@asynccontextmanager
async def leave_signals(tell: Callable[[Warned | StopAsked], None]) -> AsyncIterator[None]:
    """Take every signal of a scheduler for the wish that we leave; an ignored one stays ignored.

    What comes after that is ignored: the process is about to end.
    """
    loop = asyncio.get_running_loop()
    taken = [one for one in _LEAVE_SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]
    for number in taken:
        kind = StopAsked if number is signal.SIGUSR2 else Warned
        loop.add_signal_handler(number, tell, kind(number.name))
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
            # Whoever repeats itself would end us by the default, and we would seem to have failed.
            signal.signal(number, signal.SIG_IGN)
