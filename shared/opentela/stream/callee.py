"""The session's half of a stream: has the engine asked, and sends its answer within credit.

::

    NEW ──Open──▶ RUNNING ──engine ended and all sent──▶ ended
                     └──────Cancel, any fault────────────▶ ended, and the engine's request aborted

The stream ends with exactly one `End` or `Fail`, or in silence when the router asked for the end.
What the engine sent before it failed still goes first. What comes late or twice changes nothing.
"""

from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar

import msgspec

from opentela.stream.events import (
    ABORT_ENGINE,
    ENGINE_END,
    PAUSE_ENGINE,
    RESUME_ENGINE,
    BreakOff,
    CalleeAction,
    CalleeEvent,
    CarrierLost,
    EngineConnected,
    EngineData,
    EngineEnd,
    EngineFailed,
    EngineHead,
    EngineTook,
    StartEngine,
    Tick,
    WriteBody,
)
from opentela.stream.failures import failure
from opentela.stream.window import ReceiveWindow, SendWindow
from opentela.wire.frames import (
    PART_BYTES,
    WINDOW_BYTES,
    Body,
    Cancel,
    Credit,
    Data,
    End,
    FailKind,
    Head,
    Open,
    Timings,
)


class CalleeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Time-outs and limits of the session's half.

    Attributes:
        ack_delay_s: A fast engine's head acknowledges the Open by itself within this; later an
            empty `Credit` does. Must be well below the router's acknowledgement time-out.
        keepalive_s: The router hears from the session at least this often.
        router_timeout_s: A router that is silent for so long is gone, and nobody reads the answer;
            four of its keep-alives.
        body_timeout_s: The next part of the body must come within this of the last.
        body_bytes_max: A larger body is refused.
        window_bytes: Bytes of a body under way that the engine has not taken.
    """

    ack_delay_s: float = 0.1
    keepalive_s: float = 1.0
    router_timeout_s: float = 20.0
    body_timeout_s: float = 10.0
    body_bytes_max: int = 64 * 1024 * 1024
    window_bytes: int = WINDOW_BYTES


class _State(IntEnum):
    NEW = 0
    RUNNING = 1


class Callee:
    """One stream as the session sees it.

    Attributes:
        ended: The stream is over; nothing more will be asked for it.
    """

    __slots__ = (
        "_acked",
        "_body_at",
        "_body_seq",
        "_connected_s",
        "_data_seq",
        "_deadline_at",
        "_head_s",
        "_heard_at",
        "_last",
        "_length",
        "_more",
        "_opened_at",
        "_paused",
        "_queue",
        "_send",
        "_settings",
        "_spoke_at",
        "_state",
        "_window",
        "ended",
        "stream",
    )

    def __init__(self, stream: int, settings: CalleeSettings) -> None:
        self.stream = stream
        self.ended = False
        self._settings = settings
        self._state = _State.NEW
        self._opened_at = self._heard_at = self._spoke_at = self._body_at = 0.0
        self._deadline_at = 0.0
        self._connected_s = self._head_s = 0.0
        self._acked = False
        self._more = False
        self._length = 0
        self._body_seq = 0
        self._window: ReceiveWindow | None = None  # of the body, when it comes in parts
        self._data_seq = 0
        self._send = SendWindow()
        self._queue: deque[memoryview] | None = None  # what credit did not yet allow
        self._paused = False
        self._last: EngineEnd | EngineFailed | None = None

    def next_deadline(self) -> float | None:
        """Return when a `Tick` is due next; None when none is."""
        if self.ended or self._state is _State.NEW:
            return None
        settings = self._settings
        pause_s = settings.keepalive_s if self._acked else settings.ack_delay_s
        due = min(self._spoke_at + pause_s, self._heard_at + settings.router_timeout_s)
        if self._awaits_body:
            due = min(due, self._body_at + settings.body_timeout_s)
        return min(due, self._deadline_at) if self._deadline_at else due

    def step(self, now: float, event: CalleeEvent) -> list[CalleeAction]:
        """Take one event; return what to send and what to do to the engine, in order."""
        form = type(event)
        if self.ended or (self._state is _State.NEW and form is not Open):
            return []
        handle = self._HANDLERS.get(form)
        return handle(self, now, event) if handle else []

    def starts(self, now: float, frame: Open) -> bool:
        """Take an Open with the whole request: all that follows is that the engine is asked.

        Nearly every one is. False changes nothing: the frame is for `step`.
        """
        if frame.more or self._state is not _State.NEW:
            return False
        if len(frame.body) > self._settings.body_bytes_max:
            return False
        self._begin(now, frame)
        return True

    def _begin(self, now: float, frame: Open) -> None:
        self._state = _State.RUNNING
        self._heard_at = now
        self._opened_at = self._spoke_at = self._body_at = now
        self._deadline_at = now + frame.deadline_s if frame.deadline_s else 0.0
        self._send.granted = frame.credit
        self._more, self._length = frame.more, frame.length

    def _open(self, now: float, frame: Open) -> list[CalleeAction]:
        if self.starts(now, frame):
            return [StartEngine(frame)]
        self._heard_at = now
        if self._state is not _State.NEW:
            return []
        self._begin(now, frame)
        size = len(frame.body)
        if max(size, frame.length) > self._settings.body_bytes_max:
            return self._fail(FailKind.TOO_LARGE, self._too_large(), abort=False)
        self._window = ReceiveWindow(self._settings.window_bytes, received=size)
        self._acked = True
        return [StartEngine(frame), Credit(self.stream, self._window.granted)]

    def _body(self, now: float, frame: Body) -> list[CalleeAction]:
        self._heard_at = now
        window = self._window
        if window is None or frame.seq < self._body_seq or not self._more:
            return []
        if frame.seq > self._body_seq:
            return self._fail(FailKind.PROTOCOL, f"part {self._body_seq} of the body is missing")
        if not window.receive(len(frame.body)):
            return self._fail(FailKind.PROTOCOL, "the router sent more than its credit")
        if window.received > self._settings.body_bytes_max:
            return self._fail(FailKind.TOO_LARGE, self._too_large())
        if not frame.more and self._length and window.received != self._length:
            return self._fail(FailKind.PROTOCOL, "the body is not as long as announced")
        self._body_seq += 1
        self._body_at = now
        self._more = frame.more
        return [WriteBody(frame.body, frame.more)]

    def _credit(self, now: float, frame: Credit) -> list[CalleeAction]:
        self._heard_at = now
        self._send.grant(frame.total)
        return self._drain(now) if self._queue else []

    def _cancel(self, _: float, __: Cancel) -> list[CalleeAction]:
        return self._finish([ABORT_ENGINE])

    def _engine_connected(self, now: float, _: EngineConnected) -> list[CalleeAction]:
        self._connected_s = now - self._opened_at
        return []

    def _engine_took(self, now: float, event: EngineTook) -> list[CalleeAction]:
        window = self._window
        if window is None or not window.consume(event.size) or not self._more:
            return []
        self._spoke_at = self._body_at = now
        return [Credit(self.stream, window.granted)]

    def answers(self, now: float, size: int) -> Timings | None:
        """Take a whole answer of *size* bytes, with nothing before it: it leaves as one frame.

        Nearly every short answer is one. Returns what its head tells of times, and the stream has
        ended; None changes nothing, and the answer is for `step`.
        """
        send = self._send
        if self.ended or size > PART_BYTES or size > send.granted - send.sent:
            return None
        self.ended = True
        head_s = now - self._opened_at
        return Timings(self._connected_s, head_s, head_s)

    def _engine_head(self, now: float, event: EngineHead) -> list[CalleeAction]:
        if event.ended and (timings := self.answers(now, len(event.data))) is not None:
            return [Head(self.stream, event.status, event.headers, event.data, timings)]
        self._head_s = now - self._opened_at
        self._spoke_at = now
        self._acked = True
        data, size, send = event.data, len(event.data), self._send
        if size > PART_BYTES or size > send.granted - send.sent:
            return [
                Head(self.stream, event.status, event.headers),
                *self._engine_data(now, EngineData(data, event.ended)),
            ]
        if data:
            send.sent += size
            self._data_seq = 1
        return [Head(self.stream, event.status, event.headers, data)]

    def passes(self, now: float, size: int) -> int:
        """Take a read of *size* bytes of an answer that goes on: it leaves as one frame.

        Nearly every read is one. Returns the number of the `Data` to send, and nothing else is to
        be done; -1 changes nothing, and the read is for `step`.
        """
        send = self._send
        sent = send.sent + size
        if self._queue is not None or sent > send.granted or size > PART_BYTES or self.ended:
            return -1
        self._spoke_at = now
        self._acked = True
        send.sent = sent
        seq = self._data_seq
        self._data_seq = seq + 1
        return seq

    def _engine_data(self, now: float, event: EngineData) -> list[CalleeAction]:
        data = event.data
        if event.ended:
            self._last = ENGINE_END
        elif (seq := self.passes(now, len(data))) >= 0:
            return [Data(self.stream, seq, data)]
        if self._queue is None:
            self._queue = deque()
        # Views: cutting a large read into parts copies each byte once.
        self._queue.append(memoryview(data))
        return self._drain(now)

    def _engine_end(self, now: float, event: EngineEnd) -> list[CalleeAction]:
        self._last = event
        return [] if self._queue else self._conclude(now)

    def _engine_failed(self, now: float, event: EngineFailed) -> list[CalleeAction]:
        self._last = event
        return [] if self._queue else self._conclude(now)

    def _drain(self, now: float) -> list[CalleeAction]:
        """Send what credit allows; then let the engine go on, or hold it."""
        actions: list[CalleeAction] = []
        queue, send = self._queue, self._send
        assert queue is not None
        while queue and send.room > 0:
            part, most = queue[0], min(send.room, PART_BYTES)
            if len(part) > most:
                part, queue[0] = part[:most], part[most:]
            else:
                queue.popleft()
            send.send(len(part))
            actions.append(Data(self.stream, self._data_seq, bytes(part)))
            self._data_seq += 1
        if actions:
            self._spoke_at = now
            self._acked = True
        if queue:
            if not self._paused:
                self._paused = True
                actions.append(PAUSE_ENGINE)
            return actions
        self._queue = None
        if self._last is not None:
            return actions + self._conclude(now)
        if self._paused:
            self._paused = False
            actions.append(RESUME_ENGINE)
        return actions

    def _conclude(self, now: float) -> list[CalleeAction]:
        last = self._last
        if isinstance(last, EngineFailed):
            return self._fail(last.kind, last.message, abort=False)
        return self._finish([End(self.stream, self._data_seq, self._timings(now))])

    def _timings(self, now: float) -> Timings:
        return Timings(self._connected_s, self._head_s, now - self._opened_at)

    def _carrier_lost(self, _: float, event: CarrierLost) -> list[CalleeAction]:
        lost = "mesh" if event.kind is FailKind.MESH_LOST else "channel"
        return self._fail(event.kind, f"the session lost the {lost}")

    def _break_off(self, _: float, event: BreakOff) -> list[CalleeAction]:
        return self._fail(event.kind, event.message)

    def _tick(self, now: float, _: Tick) -> list[CalleeAction]:
        settings = self._settings
        if self._deadline_at and now >= self._deadline_at:
            return self._fail(FailKind.DEADLINE, "the deadline passed")
        if now >= self._heard_at + settings.router_timeout_s:
            return self._fail(FailKind.SILENT, "the router went silent")
        if self._awaits_body and now >= self._body_at + settings.body_timeout_s:
            return self._fail(FailKind.PROTOCOL, "the rest of the body did not come")
        pause_s = settings.keepalive_s if self._acked else settings.ack_delay_s
        if now < self._spoke_at + pause_s:
            return []
        acked, self._acked = self._acked, True
        self._spoke_at = now
        if self._more and self._window is not None:
            return [Credit(self.stream, self._window.granted)]
        return [Data(self.stream, self._data_seq, b"") if acked else Credit(self.stream, 0)]

    @property
    def _awaits_body(self) -> bool:
        # Only a router that has credit can be late.
        window = self._window
        return self._more and window is not None and window.received < window.granted

    def _too_large(self) -> str:
        return f"the body exceeds the session's limit of {self._settings.body_bytes_max} bytes"

    def _fail(self, kind: FailKind, message: str, *, abort: bool = True) -> list[CalleeAction]:
        # An engine that lacks a byte of the request cannot have begun to answer it.
        fail = failure(self.stream, kind, message, may_have_begun=not self._more)
        return self._finish([ABORT_ENGINE, fail] if abort else [fail])

    def _finish(self, actions: list[CalleeAction]) -> list[CalleeAction]:
        self.ended = True
        self._queue = None
        return actions

    _HANDLERS: ClassVar[dict[type, Callable[..., list[CalleeAction]]]] = {
        Open: _open,
        Body: _body,
        Credit: _credit,
        Cancel: _cancel,
        EngineConnected: _engine_connected,
        EngineTook: _engine_took,
        EngineHead: _engine_head,
        EngineData: _engine_data,
        EngineEnd: _engine_end,
        EngineFailed: _engine_failed,
        BreakOff: _break_off,
        CarrierLost: _carrier_lost,
        Tick: _tick,
    }
