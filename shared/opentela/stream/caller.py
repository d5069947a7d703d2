"""The router's half of a stream: sends a request, and vouches for what comes back.

::

    NEW ──Begin──▶ OPENING ──first frame──▶ ACKNOWLEDGED ──End, Fail, Withdraw, any fault──▶ ended

An answer is complete only when its head, every part and its `End` came in order. Whatever is
missing ends the stream with exactly one `Fail`, and the session is told to stop. What comes late,
twice or after the end changes nothing.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar, Final

import msgspec

from opentela.core.pieces import Text
from opentela.stream.events import (
    ACKNOWLEDGED,
    Begin,
    BreakOff,
    CallerAction,
    CallerEvent,
    CarrierLost,
    Consumed,
    Heard,
    NoResponders,
    Tick,
    Withdraw,
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
    Fail,
    FailKind,
    Head,
    Headers,
    Open,
)

EMPTY_MAX: Final = 64
EMPTY_A_SECOND_MAX: Final = 8
"""Frames of a session that tell nothing new: so many, and so many more in each second of a stream.
One a second is meant; who sends far more floods us."""


class CallerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Time-outs of the router's half.

    Attributes:
        ack_timeout_s: Without any frame for so long after the Open the session is taken as gone;
            two round trips of a slow site and a busy loop fit. More delays the retry. While
            other streams of the session bring frames, the acknowledgement is behind them on the
            way, and counts as late after `idle_timeout_s` only.
        idle_timeout_s: Without any frame for so long the stream has failed; sessions that live
            speak every second. Less fails streams of starved nodes.
        keepalive_s: The session hears from the router at least this often, and stops the engine
            when it does not.
        window_bytes: Bytes of an answer under way that the client has not taken.
    """

    ack_timeout_s: float = 0.5
    idle_timeout_s: float = 5.0
    keepalive_s: float = 5.0
    window_bytes: int = WINDOW_BYTES


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine is to be asked; *deadline_s* counts from `Begin`, 0 for none."""

    method: str
    path: str
    headers: Headers
    body: Text = b""
    deadline_s: float = 0.0
    trace: str = ""


class _State(IntEnum):
    NEW = 0
    OPENING = 1
    ACKNOWLEDGED = 2


class Caller:
    """One stream as the router sees it.

    Attributes:
        ended: The stream is over; nothing more will be asked for it.
    """

    __slots__ = (
        "_body_seq",
        "_data_seq",
        "_deadline_at",
        "_empties",
        "_has_head",
        "_heard_at",
        "_opened_at",
        "_request",
        "_send",
        "_settings",
        "_spoke_at",
        "_state",
        "_window",
        "ended",
        "stream",
    )

    def __init__(self, stream: int, request: Request, settings: CallerSettings) -> None:
        self.stream = stream
        self.ended = False
        self._request = request
        self._settings = settings
        self._state = _State.NEW
        self._deadline_at = 0.0
        self._heard_at = 0.0
        self._spoke_at = 0.0
        self._opened_at = 0.0
        self._empties = 0
        self._has_head = False
        self._body_seq = 0
        self._data_seq = 0
        self._send: SendWindow | None = None  # of the body, while parts of it are unsent
        self._window: ReceiveWindow | None = None  # of the answer, once a part of it came

    def next_deadline(self) -> float | None:
        """Return when a `Tick` is due next; None when none is."""
        if self.ended or self._state is _State.NEW:
            return None
        if self._state is _State.OPENING:
            due = self._heard_at + self._settings.ack_timeout_s
        else:
            due = min(
                self._heard_at + self._settings.idle_timeout_s,
                self._spoke_at + self._settings.keepalive_s,
            )
        return min(due, self._deadline_at) if self._deadline_at else due

    def step(self, now: float, event: CallerEvent) -> list[CallerAction]:
        """Take one event; return what to send and what to tell, in order."""
        if self.ended:
            return []
        handle = self._HANDLERS.get(type(event))
        return handle(self, now, event) if handle else []

    def begin(self, now: float) -> Open:
        """Start the stream; return what is sent for that, and nothing else is to be done."""
        assert self._state is _State.NEW
        request = self._request
        self._state = _State.OPENING
        self._heard_at = self._spoke_at = self._opened_at = now
        if request.deadline_s:
            self._deadline_at = now + request.deadline_s
        body, size = request.body[:PART_BYTES], len(request.body)
        more = size > PART_BYTES
        if more:
            # The first part goes without being asked for; credit counts it all the same.
            self._send = SendWindow(PART_BYTES)
            self._send.send(PART_BYTES)
        return Open(
            self.stream,
            request.method,
            request.path,
            request.headers,
            body,
            more,
            self._settings.window_bytes,
            request.deadline_s,
            request.trace,
            size if more else 0,
        )

    def _begin(self, now: float, _: Begin) -> list[CallerAction]:
        return [self.begin(now)]

    def _hear(self, now: float) -> list[CallerAction]:
        self._heard_at = now
        if self._state is _State.OPENING:
            self._state = _State.ACKNOWLEDGED
            return [ACKNOWLEDGED]
        return []

    def _credit(self, now: float, frame: Credit) -> list[CallerAction]:
        actions = self._hear(now)
        send = self._send
        if send is None:
            return actions + self._count_empty(now)
        send.grant(frame.total)
        body, size = self._request.body, len(self._request.body)
        while send.sent < size and send.room > 0:
            part = body[send.sent : send.sent + min(PART_BYTES, send.room)]
            send.send(len(part))
            actions.append(Body(self.stream, self._body_seq, part, send.sent < size))
            self._body_seq += 1
            self._spoke_at = now
        if send.sent == size:
            self._send = None
        return actions

    def answers(self, frame: Head) -> bool:
        """Take a Head that is the whole answer: all that follows is that it is told.

        Nearly every short answer is one. False changes nothing: the frame is for `step`.
        """
        if frame.end is None or self._has_head or self.ended:
            return False
        if len(frame.data) > self._settings.window_bytes:
            return False
        self._has_head = self.ended = True
        return True

    def _head(self, now: float, frame: Head) -> list[CallerAction]:
        if self.answers(frame):
            return [frame]
        actions = self._hear(now)
        if self._has_head:
            return actions + self._count_empty(now)
        self._has_head = True
        if frame.end is not None:
            return actions + self._break_off("the session sent more than its credit")
        actions.append(frame)
        if not frame.data:
            return actions
        return actions + self._data(now, Data(self.stream, 0, frame.data))

    def passes(self, now: float, frame: Data) -> bool:
        """Take the next part of an answer that runs: all that follows is that it is told.

        Nearly every frame is one. False changes nothing: the frame is for `step`.
        """
        window, size = self._window, len(frame.data)
        if window is None or not size or frame.seq != self._data_seq or self.ended:
            return False
        received = window.received + size
        if received > window.granted:
            return False
        window.received = received
        self._heard_at = now
        self._data_seq += 1
        return True

    def _data(self, now: float, frame: Data) -> list[CallerAction]:
        if self.passes(now, frame):
            return [frame]
        size = len(frame.data)
        actions = self._hear(now)
        if frame.seq < self._data_seq or (frame.seq == self._data_seq and not size):
            return actions + self._count_empty(now)
        if frame.seq > self._data_seq or not self._has_head:
            lacking = f"part {self._data_seq}" if self._has_head else "the head"
            return actions + self._break_off(f"{lacking} of the answer is missing")
        window = self._window = self._window or ReceiveWindow(self._settings.window_bytes)
        if not window.receive(size):
            return actions + self._break_off("the session sent more than its credit")
        self._data_seq += 1
        return [*actions, frame]

    def _end(self, now: float, frame: End) -> list[CallerAction]:
        actions = self._hear(now)
        if not self._has_head or frame.seq != self._data_seq:
            return actions + self._break_off("the answer ended with parts missing")
        self.ended = True
        actions.append(frame)
        return actions

    def _failed(self, now: float, frame: Fail) -> list[CallerAction]:
        actions = self._hear(now)
        self.ended = True
        actions.append(frame)
        return actions

    def _consumed(self, now: float, event: Consumed) -> list[CallerAction]:
        assert self._window is not None, "nothing came that could be consumed"
        if not self._window.consume(event.size):
            return []
        self._spoke_at = now
        return [Credit(self.stream, self._window.granted)]

    def _heard(self, _: float, event: Heard) -> list[CallerAction]:
        if self._state is _State.OPENING:
            settings = self._settings
            at_most = self._opened_at + settings.idle_timeout_s - settings.ack_timeout_s
            self._heard_at = max(self._heard_at, min(event.at, at_most))
        return []

    def _withdraw(self, _: float, event: Withdraw) -> list[CallerAction]:
        told = self._state is not _State.NEW
        self.ended = True
        return [Cancel(self.stream, event.reason)] if told else []

    def _no_responders(self, _: float, __: NoResponders) -> list[CallerAction]:
        # Until something comes back only the Open is out: it was the one that found nobody.
        begun = self._state is _State.ACKNOWLEDGED and self._is_sent
        self.ended = True
        return [self._failure(FailKind.NO_RESPONDERS, "the session is gone", begun=begun)]

    def _carrier_lost(self, _: float, event: CarrierLost) -> list[CallerAction]:
        begun = self._is_sent and not event.unsent
        self.ended = True
        lost = "lost the mesh" if event.kind is FailKind.MESH_LOST else "lost the channel"
        return [self._failure(event.kind, lost, begun=begun)]

    def _tick(self, now: float, _: Tick) -> list[CallerAction]:
        settings = self._settings
        if self._deadline_at and now >= self._deadline_at:
            return self._give_up(FailKind.DEADLINE, "the deadline passed")
        if self._state is _State.OPENING:
            if now >= self._heard_at + settings.ack_timeout_s:
                return self._give_up(FailKind.UNACKNOWLEDGED, "the session did not answer")
        elif now >= self._heard_at + settings.idle_timeout_s:
            return self._give_up(FailKind.SILENT, "the session went silent")
        elif now >= self._spoke_at + settings.keepalive_s:
            self._spoke_at = now
            granted = self._window.granted if self._window else self._settings.window_bytes
            return [Credit(self.stream, granted)]
        return []

    def _count_empty(self, now: float) -> list[CallerAction]:
        self._empties += 1
        if self._empties <= EMPTY_MAX + EMPTY_A_SECOND_MAX * (now - self._opened_at):
            return []
        return self._break_off("the session floods the stream with empty frames")

    def _broken_off(self, _: float, event: BreakOff) -> list[CallerAction]:
        return self._give_up(event.kind, event.message)

    def _break_off(self, message: str) -> list[CallerAction]:
        return self._give_up(FailKind.PROTOCOL, message)

    def _give_up(self, kind: FailKind, message: str) -> list[CallerAction]:
        fail = self._failure(kind, message, begun=self._is_sent)
        self.ended = True
        return [Cancel(self.stream, message), fail]

    @property
    def _is_sent(self) -> bool:
        return self._send is None

    def _failure(self, kind: FailKind, message: str, *, begun: bool) -> Fail:
        return failure(self.stream, kind, message, may_have_begun=begun)

    _HANDLERS: ClassVar[dict[type, Callable[..., list[CallerAction]]]] = {
        Begin: _begin,
        Head: _head,
        Data: _data,
        End: _end,
        Fail: _failed,
        Credit: _credit,
        Consumed: _consumed,
        Heard: _heard,
        Withdraw: _withdraw,
        NoResponders: _no_responders,
        CarrierLost: _carrier_lost,
        BreakOff: _broken_off,
        Tick: _tick,
    }
