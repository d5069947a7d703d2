"""Server-sent events, observed while they pass: no byte is changed, added or lost here.

`SseReader` finds the events in bytes cut anywhere. `StreamWatch` reads from them what a completion
stream says of itself, and holds back an event that is not whole yet: a stream that breaks can then
end with an error event of ours instead of half an event of the engine's.
Line and event syntax: https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from enum import Enum
from typing import Final, NamedTuple

import msgspec

EVENT_BYTES_MAX: Final = 1024 * 1024
"""A larger event passes unread, and from its limit on without being held back."""
CHOICES_MAX: Final = 1024
"""Choices of one stream that are followed; engines allow 128."""

TOKENS_MAX: Final = 1_000_000_000
"""An engine that counts more in one answer, or less than none, is not believed: its numbers go into
counters and usage records, which do not take any."""

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


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens as the engine counted them; 0 where it did not say."""

    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0


_NO_USAGE: Final = Usage()


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    """Chat and completions count prompt and completion, responses count input and output."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None

    def counted(self) -> Usage:
        details = self.prompt_tokens_details or self.input_tokens_details or _Details()
        return Usage(
            tokens_in=_believed(self.prompt_tokens or self.input_tokens),
            tokens_cached=_believed(details.cached_tokens),
            tokens_out=_believed(self.completion_tokens or self.output_tokens),
        )


def _believed(tokens: int | None) -> int:
    return tokens if tokens and 0 < tokens <= TOKENS_MAX else 0


_NOTHING: Final = msgspec.Raw(b"")
_EMPTY: Final = frozenset({b"", b"null", b'""', b"[]"})


class _Delta(msgspec.Struct):
    content: msgspec.Raw = _NOTHING
    reasoning: msgspec.Raw = _NOTHING
    reasoning_content: msgspec.Raw = _NOTHING
    tool_calls: msgspec.Raw = _NOTHING


_NO_DELTA: Final = _Delta()


class _Choice(msgspec.Struct):
    index: int = 0
    finish_reason: str | None = None
    text: msgspec.Raw = _NOTHING
    delta: _Delta | None = None

    @property
    def says(self) -> bool:
        """Whether it brings a part of the answer."""
        if bytes(self.text) not in _EMPTY:
            return True
        delta = self.delta or _NO_DELTA
        return (
            bytes(delta.content) not in _EMPTY
            or bytes(delta.reasoning_content) not in _EMPTY
            or bytes(delta.reasoning) not in _EMPTY
            or bytes(delta.tool_calls) not in _EMPTY
        )


class _Response(msgspec.Struct):
    usage: _Usage | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    type: str = ""
    response: _Response | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")


class _Answer(msgspec.Struct):
    usage: _Usage | None = None


_PART_TYPES: Final = (".delta", "_delta")
_decode_chunk: Final = msgspec.json.Decoder(_Chunk).decode
_decode_answer: Final = msgspec.json.Decoder(_Answer).decode
_LAST_TYPES: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "message_stop"}
)


def usage_of(answer: bytes) -> Usage | None:
    """Return the tokens that a whole JSON answer tells of."""
    if b'"usage"' not in answer:
        return None
    try:
        usage = _decode_answer(answer).usage
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return usage.counted() if usage else None


class StreamWatch:
    """Follows one completion stream while its bytes pass."""

    def __init__(self, *, ends_with_done: bool) -> None:
        self._counted: Usage | None = None
        self._parts = 0
        self._reader = SseReader()
        self._ends_with_done = ends_with_done
        self._is_done = False
        self._has_error = False
        self._finished: dict[int, bool] = {}

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
        passed, events = self._reader.feed(data)
        for event in events:
            self._observe(event.data)
        return passed

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
        try:
            chunk = _decode_chunk(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return  # not ours to judge: it passes
        if chunk.type.endswith(_PART_TYPES):
            self._parts += 1
        for choice in chunk.choices or ():
            self._parts += choice.says
            # Some engines write an empty one where others write null.
            if choice.finish_reason:
                self._finished[choice.index] = True
            elif len(self._finished) < CHOICES_MAX:
                self._finished.setdefault(choice.index, False)
        usage = chunk.usage or (chunk.response and chunk.response.usage)
        if usage:
            self._counted = usage.counted()
        if chunk.type in _LAST_TYPES:
            self._is_done = True
        if bytes(chunk.error) != b"null":
            self._has_error = True
