"""One request under way to an engine that a session lends: both halves here, and no wire between.

The halves are those of every other carrier, so that whatever holds of a stream holds of this one:
what may have begun, what credit allows, when it is over. What one says is the other's event, in
the order in which it was said.
"""

import asyncio
import math
import time
from collections import deque
from typing import Any, Final, Protocol

import msgspec

from opentela.engine import serving
from opentela.engine.serving import Served
from opentela.router.link_stream import TELL
from opentela.router.ports import StreamSink
from opentela.stream.callee import Callee, CalleeSettings
from opentela.stream.caller import Caller, CallerSettings, Request
from opentela.stream.events import (
    TICK,
    BreakOff,
    CalleeEvent,
    CallerAction,
    CallerEvent,
    Consumed,
    Withdraw,
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


class Host(serving.Host, Protocol):
    """The loan, as its streams see it."""

    @property
    def book(self) -> serving.Progress:
        """Return who counts what comes."""

    def finish(self, number: int, outcome: str) -> None:
        """Forget a stream that has ended."""


class LoanedStream(Served):
    """One request at a lent engine, from its beginning to its end.

    Attributes:
        host: The loan that it runs on.
        caller: The router's half.
    """

    __slots__ = ("_events", "_is_busy", "_is_opening", "_is_withdrawn", "_sink", "caller", "host")

    def __init__(
        self, host: Host, number: int, request: Request, sink: StreamSink, settings: CalleeSettings
    ) -> None:
        super().__init__(host, host.book, Callee(number, settings))
        self.caller = Caller(number, request, CALLER)
        self.host = host
        self._sink = sink
        self._events: deque[tuple[str, Any]] | None = None
        self._is_busy = False
        self._is_opening = False
        self._is_withdrawn = False

    def begin(self) -> None:
        """Send the request; nothing is told before this returns."""
        self._is_opening = True
        now = time.monotonic()
        frame = self.caller.begin(now)
        if self.callee.starts(now, frame):
            self.ask(frame)
        else:
            self.step(frame)
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
        self.step(BreakOff(FailKind.ENGINE_LOST, reason))

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
        self.step(TICK)

    # What the session's half brings.

    def step(self, event: CalleeEvent) -> None:
        """Let the session's half take an event, and each half what follows from it."""
        self._take(_CALLEE, event)

    def take_whole(self, answer: Head) -> None:
        """Tell of an answer that came whole."""
        if not self.caller.answers(answer):
            self._at_caller(answer)
            return
        self._tell(answer)
        self._finish()

    def take_part(self, seq: int, data: bytes) -> None:
        """Tell of a part of an answer that goes on."""
        frame = Data(self.callee.stream, seq, data)
        if not self.caller.passes(time.monotonic(), frame):
            self._at_caller(frame)
            return
        try:
            self._sink.on_data(data)
        except Exception as error:  # noqa: BLE001 - it is logged there
            self._sink_failed(error)

    # The rest.

    def _at_caller(self, event: CallerEvent) -> None:
        self._take(_CALLER, event)

    def _take(self, half: str, event: CalleeEvent | CallerEvent) -> None:
        """Let each half take its events, and what follows from them, until nothing does."""
        if self._events is None:
            self._events = deque()
        events = self._events
        events.append((half, event))
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while events:
                half, event = events.popleft()
                if half is _CALLER:
                    self._step_caller(event, events)
                else:
                    self._step_callee(event, events)
        finally:
            self._is_busy = False
        if self.caller.ended:
            self._finish()

    def _step_caller(self, event: Any, events: deque[tuple[str, Any]]) -> None:
        for action in self.caller.step(time.monotonic(), event):
            if type(action) in TELL:
                self._tell(action)
            else:
                events.append((_CALLEE, action))

    def _step_callee(self, event: Any, events: deque[tuple[str, Any]]) -> None:
        for action in self.callee.step(time.monotonic(), event):
            act = self.ACTS.get(type(action))
            if act is not None:
                act(self, action)
                continue
            if isinstance(action, Fail):
                self.outcome = action.kind
            elif isinstance(action, End) or (isinstance(action, Head) and action.end):
                self.outcome = ENDED
            events.append((_CALLER, action))

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
        except Exception as error:  # noqa: BLE001 - it is logged there
            self._sink_failed(error)

    def _sink_failed(self, error: Exception) -> None:
        # A bug above; the engine need not work for it, nor others suffer.
        log.error("stream_sink_failed", error=repr(error), exc_info=error)
        self.cancel("the router failed")

    def _finish(self) -> None:
        self.let_go()
        self.host.finish(self.caller.stream, self.outcome)
