"""Server-sent events, observed while they pass: no byte is changed, added or lost here.

`SseReader` finds the events in bytes cut anywhere. `StreamWatch` reads from them what a completion
stream says of itself, and holds back an event that is not whole yet: a stream that breaks can then
end with an error event of ours instead of half an event of the engine's.
Line and event syntax: https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from enum import Enum
from typing import Final, NamedTuple

import msgspec

from opentela.router.chunks import Usage, read_chunk
from opentela.router.likeness import Likeness, likeness_of

EVENT_BYTES_MAX: Final = 1024 * 1024
"""A larger event passes unread, and from its limit on without being held back."""
CHOICES_MAX: Final = 1024
"""Choices of one stream that are followed; engines allow 128."""

LESSONS_MAX: Final = 16
"""Events of one stream that are looked at for what others may be like. Most look like the second;
where no two are alike it is not worth the time."""

_NO_USAGE: Final = Usage()
_BOM: Final = b"\xef\xbb\xbf"
_FIELD: Final = b"data:"
_ENDS: Final = b"\n\n"
"""Of an event of one line."""


class SseEvent(NamedTuple):
    """One event as a client dispatches it."""

    name: str
    data: bytes


class SseReader:
    """Cuts a byte stream into events.

    Attributes:
        oversized: Events that were larger than `EVENT_BYTES_MAX` and were not read.
    """

    __slots__ = (
        "_data", "_held", "_held_bytes", "_is_mid_line", "_is_skipping", "_is_start", "_line",
        "_name", "oversized",
    )  # fmt: skip

    def __init__(self) -> None:
        self.oversized = 0
        self._held: list[bytes] = []  # whole lines of the event in progress, as they came
        self._held_bytes = 0
        self._line = bytearray()  # the line in progress
        self._data: list[bytes] = []
        self._name = ""
        self._is_skipping = False
        self._is_mid_line = False  # while skipping: the line in progress is not kept
        self._is_start = True

    @property
    def held(self) -> bytes:
        """What came after the last place at which another event may begin."""
        return b"".join((*self._held, self._line))

    @property
    def is_between(self) -> bool:
        """Whether all that came is read, up to where another event may begin."""
        return not (self._line or self._held or self._is_skipping)

    def feed(self, data: bytes) -> tuple[bytes, list[SseEvent]]:
        """Return the bytes that end at such a place, and the events that are now whole."""
        line = self._line
        if (
            data.startswith(_FIELD)
            and data.endswith(_ENDS)
            and not (line or self._held or self._is_skipping)
            and data.count(b"\n") == len(_ENDS)
            and b"\r" not in data
        ):
            # What nearly every read of an engine brings.
            self._is_start = False
            return data, [SseEvent("", data[len(_FIELD) : -len(_ENDS)].removeprefix(b" "))]
        if line and not (line.endswith(b"\r") or b"\n" in data or b"\r" in data):
            # Not looked at again: a long line in small pieces would cost the square of its length.
            return self._lengthen(data), []
        buffer = b"".join((line, data)) if line else data
        events: list[SseEvent] = []
        safe = start = 0
        for whole in buffer.splitlines(keepends=True):
            end = start + len(whole)
            if end == len(buffer) and not whole.endswith(b"\n"):
                break  # in progress, or a CR whose LF may follow
            start = end
            if self._take_line(whole.rstrip(b"\r\n"), events):
                safe = start
        return self._settle(buffer, safe, start), events

    def end(self) -> list[SseEvent]:
        """Return the event that the end of the stream completes, if any."""
        events: list[SseEvent] = []
        if self._line.endswith(b"\r"):
            self._take_line(bytes(self._line[:-1]), events)
        return events

    def _lengthen(self, data: bytes) -> bytes:
        """Go on with a line that does not end here; return what passes all the same."""
        self._line += data
        return self._skip() if self._held_bytes + len(self._line) > EVENT_BYTES_MAX else b""

    def _settle(self, buffer: bytes, safe: int, start: int) -> bytes:
        """Keep what is behind *safe*; the line in progress begins at *start*."""
        if self._is_skipping:
            self._line = bytearray(b"\r" if buffer.endswith(b"\r") else b"")
            self._is_mid_line = self._is_mid_line or start + len(self._line) < len(buffer)
            return buffer[: len(buffer) - len(self._line)]
        if safe:
            passed = b"".join((*self._held, buffer[:safe]))
            self._held = [buffer[safe:start]] if safe < start else []
            self._held_bytes = start - safe
        else:
            passed = b""
            if start:
                self._held.append(buffer[:start])
                self._held_bytes += start
        self._line = bytearray(buffer[start:])
        if self._held_bytes + len(self._line) > EVENT_BYTES_MAX:
            passed += self._skip()
        return passed

    def _skip(self) -> bytes:
        """Give up on reading the event in progress; its bytes pass as they come."""
        self.oversized += 1
        held, self._held, self._held_bytes = self.held, [], 0
        self._is_skipping, self._is_mid_line = True, bool(self._line)
        self._data, self._name, self._line = [], "", bytearray()
        return held

    def _take_line(self, line: bytes, events: list[SseEvent]) -> bool:
        """Read a whole line; return whether another event may begin after it."""
        if self._is_skipping:
            if line or self._is_mid_line:
                self._is_mid_line = False
                return False
            self._is_skipping = False
            return True
        if self._is_start:
            self._is_start = False
            line = line.removeprefix(_BOM)
        if not line:
            if self._data:
                events.append(SseEvent(self._name, b"\n".join(self._data)))
            self._data, self._name = [], ""
            return True
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode(errors="replace")
        return not self._data and not self._name


class StreamEnd(Enum):
    """How a completion stream ended, by what it said itself."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"  # ended as the engine wanted, but a choice never finished
    FAILED = "failed"  # the engine told of an error in the stream
    CUT_OFF = "cut_off"  # the bytes ended before the stream said that it ends


class StreamWatch:
    """Follows one completion stream while its bytes pass."""

    __slots__ = (
        "_counted", "_ends_with_done", "_finished", "_has_error", "_is_done", "_lessons_left",
        "_like", "_near", "_parts", "_reader",
    )  # fmt: skip

    def __init__(self, *, ends_with_done: bool) -> None:
        self._counted: Usage | None = None
        self._parts = 0
        self._reader = SseReader()
        self._ends_with_done = ends_with_done
        self._is_done = False
        self._has_error = False
        self._finished: dict[int, bool] = {}
        self._like: Likeness | None = None
        self._near: Likeness | None = None  # the same while no event is half there
        self._lessons_left = LESSONS_MAX

    @property
    def usage(self) -> Usage | None:
        """What the engine counted; before it says so, the parts that came: a token each."""
        counted = self._counted
        if counted and (counted.tokens_out or not self._parts):
            return counted
        # An engine that has counted the prompt alone so far.
        known = counted or _NO_USAGE
        return msgspec.structs.replace(known, tokens_out=self._parts) if self._parts else None

    @property
    def has_said_last(self) -> bool:
        """Whether the stream's last event came: what breaks now takes nothing away."""
        return self._is_done

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that may go to the client now: everything up to the last whole event."""
        near = self._near
        if near is not None and near.holds(data):
            self._parts += 1
            return data
        passed, events = self._reader.feed(data)
        for event in events:
            self._observe(event.data)
        self._near = self._likeness(data, len(events)) if self._reader.is_between else None
        return passed

    def _likeness(self, data: bytes, events: int) -> Likeness | None:
        """Return what the next event is perhaps like, after *data* that brought so many."""
        like = self._like
        if events == 1 and self._lessons_left and not (like and like.frames(data)):
            self._lessons_left -= 1
            like = self._like = likeness_of(data) or like
        return like

    def end(self) -> tuple[StreamEnd, bytes]:
        """Return how the stream ended, and what was still held back."""
        for event in self._reader.end():
            self._observe(event.data)
        return self._ending(), self._reader.held

    def _ending(self) -> StreamEnd:
        if self._has_error:
            return StreamEnd.FAILED
        has_finished = all(self._finished.values())
        if self._is_done:
            return StreamEnd.COMPLETE if has_finished else StreamEnd.INCOMPLETE
        # Unread events may have said anything; other kinds of streams end in ways of their own.
        if self._reader.oversized or not (self._finished or self._ends_with_done):
            return StreamEnd.COMPLETE
        return StreamEnd.COMPLETE if self._finished and has_finished else StreamEnd.CUT_OFF

    def _observe(self, data: bytes) -> None:
        if data == b"[DONE]":
            self._is_done = True
            return
        chunk = read_chunk(data)
        if chunk is None:
            return
        self._parts += chunk.is_part
        for choice in chunk.choices or ():
            self._parts += choice.says
            # Some engines write an empty one where others write null.
            if choice.finish_reason:
                self._finished[choice.index] = True
            elif len(self._finished) < CHOICES_MAX:
                self._finished.setdefault(choice.index, False)
        self._counted = chunk.counted or self._counted
        self._is_done = self._is_done or chunk.is_last
        self._has_error = self._has_error or chunk.has_error
