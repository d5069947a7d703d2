"""One request under way to an engine that a session lends: both halves here, and no wire between.

The halves are those of every other carrier, so that whatever holds of a stream holds of this one:
what may have begun, what credit allows, when it is over. What one says is the other's event, in
the order in which it was said.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar, Final, Protocol

import msgspec

from opentela.core.errors import WireError
from opentela.core.forecast import tokens_asked
from opentela.engine.connection import AnswerHead
from opentela.engine.curfew import AnswerLength, Curfew
from opentela.engine.pool import EngineHttp, Exchange
from opentela.router.link_stream import TELL
from opentela.router.ports import StreamSink
from opentela.stream.callee import Callee, CalleeSettings
from opentela.stream.caller import Caller, CallerSettings, Request
from opentela.stream.events import (
    ENGINE_END,
    TICK,
    AbortEngine,
    Begin,
    BreakOff,
    CalleeEvent,
    CallerAction,
    CallerEvent,
    Consumed,
    EngineConnected,
    EngineData,
    EngineFailed,
    EngineHead,
    EngineTook,
    PauseEngine,
    ResumeEngine,
    StartEngine,
    Withdraw,
    WriteBody,
)
from opentela.stream.failures import failure
from opentela.stream.loan import ENDED
from opentela.telemetry import log as logs
from opentela.wire.frames import Data, End, Fail, FailKind, Head

log: Final = logs.get_logger()

CALLER: Final = CallerSettings(
    ack_timeout_s=math.inf, idle_timeout_s=math.inf, keepalive_s=math.inf
)
"""Neither half can be silent without the other."""
_BEGIN: Final = Begin()
_OK: Final = 200
_CALLER: Final = "caller"
_CALLEE: Final = "callee"


def callee_settings(body_bytes_max: int) -> CalleeSettings:
    """Return those of the session's half when it stands beside the router's."""
    return CalleeSettings(
        keepalive_s=math.inf,
        router_timeout_s=math.inf,
        body_timeout_s=math.inf,
        body_bytes_max=body_bytes_max,
    )


class Host(Protocol):
    """The loan, as its streams see it."""

    @property
    def engine(self) -> EngineHttp:
        """Return the way to the engine."""

    @property
    def curfew(self) -> Curfew:
        """Return until when requests may run."""

    def received(self, size: int) -> None:
        """Count bytes that came from the engine."""

    def finish(self, number: int, outcome: str) -> None:
        """Forget a stream that has ended."""


class LoanedStream:
    """One request at a lent engine, from its beginning to its end."""

    __slots__ = (
        "_began_at",
        "_events",
        "_exchange",
        "_is_busy",
        "_is_opening",
        "_is_withdrawn",
        "_length",
        "_outcome",
        "_sink",
        "_tokens_max",
        "callee",
        "caller",
        "host",
    )

    def __init__(
        self, host: Host, number: int, request: Request, sink: StreamSink, settings: CalleeSettings
    ) -> None:
        self.caller = Caller(number, request, CALLER)
        self.callee = Callee(number, settings)
        self.host = host
        self._sink = sink
        self._exchange: Exchange | None = None
        self._events: deque[tuple[str, Any]] = deque()
        self._is_busy = False
        self._is_opening = False
        self._is_withdrawn = False
        self._outcome: str = FailKind.CANCELLED
        # Read only while an end is known, to learn how long requests take.
        self._length: AnswerLength | None = None
        self._tokens_max = 0
        self._began_at = 0.0

    def begin(self) -> None:
        """Send the request; nothing is told before this returns."""
        self._is_opening = True
        self._at_caller(_BEGIN)
        self._is_opening = False

    def cancel(self, reason: str) -> None:
        """Stop the engine; the sink hears nothing more. Does nothing when the stream has ended."""
        self._is_withdrawn = True
        self._at_caller(Withdraw(reason))

    def consumed(self, size: int) -> None:
        """Let *size* bytes more come."""
        self._at_caller(Consumed(size))

    def break_off(self, reason: str) -> None:
        """Fail, because the session ends."""
        self._at_callee(BreakOff(FailKind.ENGINE_LOST, reason))

    def refuse(self, message: str) -> None:
        """Fail before anything is begun, in a turn of its own."""
        self.caller.ended = self.callee.ended = self._is_opening = True
        self._tell(failure(self.caller.stream, FailKind.REFUSED, message, may_have_begun=False))
        self._is_opening = False

    def next_deadline(self) -> float | None:
        """Return when a tick is due next; None when none is."""
        at = self.callee.next_deadline()
        return None if at is None or math.isinf(at) else at

    def tick(self) -> None:
        """Act on the time that has passed."""
        self._at_callee(TICK)

    # What the exchange with the engine calls.

    def on_connected(self) -> None:
        """The request's head is on its way."""
        self._at_callee(EngineConnected())

    def on_took(self, size: int) -> None:
        """The engine's socket took a part of the body."""
        self._at_callee(EngineTook(size))

    def on_read(self, head: AnswerHead | None, data: bytes, *, ended: bool) -> None:
        """One read of the answer."""
        self.host.received(len(data))
        if head is not None and self._began_at and head.status == _OK:
            self._length = AnswerLength()
        if self._length is not None:
            self._length.read(data)
        if head is not None:
            self._at_callee(EngineHead(head.status, head.headers, data, ended))
        elif not data:
            self._at_callee(ENGINE_END)
        elif ended or self._is_busy or (seq := self._passes(data)) < 0:
            self._at_callee(EngineData(data, ended))
        else:
            frame = Data(self.callee.stream, seq, data)
            if self.caller.passes(time.monotonic(), frame):
                self._tell(frame)
            else:
                self._at_caller(frame)

    def on_failed(self, kind: FailKind, message: str) -> None:
        """The answer will not come, or not wholly."""
        self._at_callee(EngineFailed(kind, message))

    # The rest.

    def _passes(self, data: bytes) -> int:
        return self.callee.passes(time.monotonic(), len(data))

    def _at_caller(self, event: CallerEvent) -> None:
        self._events.append((_CALLER, event))
        if not self._is_busy:
            self._drain()

    def _at_callee(self, event: CalleeEvent) -> None:
        self._events.append((_CALLEE, event))
        if not self._is_busy:
            self._drain()

    def _drain(self) -> None:
        """Let each half take its events, and what follows from them, until nothing does."""
        events = self._events
        self._is_busy = True
        try:
            while events:
                half, event = events.popleft()
                if half is _CALLER:
                    self._step_caller(event)
                else:
                    self._step_callee(event)
        finally:
            self._is_busy = False
        if self.caller.ended:
            self._finish()

    def _step_caller(self, event: CallerEvent) -> None:
        for action in self.caller.step(time.monotonic(), event):
            if type(action) in TELL:
                self._tell(action)
            else:
                self._events.append((_CALLEE, action))

    def _step_callee(self, event: CalleeEvent) -> None:
        for action in self.callee.step(time.monotonic(), event):
            act = self._ACTS.get(type(action))
            if act is not None:
                act(self, action)
                continue
            if isinstance(action, Fail):
                self._outcome = action.kind
            elif isinstance(action, End) or (isinstance(action, Head) and action.end):
                self._outcome = ENDED
            self._events.append((_CALLER, action))

    def _tell(self, action: CallerAction) -> None:
        if self._is_opening:
            # In a turn of its own: whoever opens a stream does not hear of it before it has it.
            asyncio.get_running_loop().call_soon(self._tell, action)
            return
        if self._is_withdrawn:
            return
        if isinstance(action, Fail) and action.kind is FailKind.ENGINE_UNREACHABLE:
            # The session may reach it, or knows better: the same one may be tried over the channel.
            action = msgspec.structs.replace(action, kind=FailKind.CHANNEL_LOST)
        try:
            TELL[type(action)](self._sink, action)
        except Exception as error:
            # A bug above; the engine need not work for it, nor others suffer.
            log.exception("stream_sink_failed", error=repr(error))
            self.cancel("the router failed")

    def _finish(self) -> None:
        if self._length is not None and self._outcome == ENDED:
            duration_s = time.monotonic() - self._began_at
            self.host.curfew.learn(duration_s, self._length, self._tokens_max)
            self._length = None
        self.host.finish(self.caller.stream, self._outcome)

    def _start(self, action: StartEngine) -> None:
        if self.host.curfew.leave_at:
            self._began_at = time.monotonic()
            self._tokens_max = tokens_asked(action.request.body)
        try:
            self._exchange = self.host.engine.ask(action.request, self)
        except WireError as error:
            self._events.append((_CALLEE, EngineFailed(FailKind.REFUSED, str(error))))

    def _write(self, action: WriteBody) -> None:
        assert self._exchange is not None
        self._exchange.write(action.data, more=action.more)

    def _abort(self, _: AbortEngine) -> None:
        if self._exchange is not None:
            self._exchange.abort()

    def _pause(self, _: PauseEngine) -> None:
        assert self._exchange is not None
        self._exchange.pause()

    def _resume(self, _: ResumeEngine) -> None:
        assert self._exchange is not None
        self._exchange.resume()

    _ACTS: ClassVar[dict[type, Callable[..., None]]] = {
        StartEngine: _start,
        WriteBody: _write,
        AbortEngine: _abort,
        PauseEngine: _pause,
        ResumeEngine: _resume,
    }
    """What is done to the engine; every other action is a frame for the router's half."""
