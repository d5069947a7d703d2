"""What completion streams and whole answers say of themselves, as far as a router reads it."""

from typing import Final

import msgspec

TOKENS_MAX: Final = 1_000_000_000
"""An engine that counts more in one answer, or less than none, is not believed: its numbers go into
counters and usage records, which do not take any."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens as the engine counted them; 0 where it did not say."""

    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0


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
        """Return what is believed of it."""
        details = self.prompt_tokens_details or self.input_tokens_details or _Details()
        return Usage(
            tokens_in=_believed(self.prompt_tokens or self.input_tokens),
            tokens_cached=_believed(details.cached_tokens),
            tokens_out=_believed(self.completion_tokens or self.output_tokens),
        )


def _believed(tokens: int | None) -> int:
    return tokens if tokens and 0 < tokens <= TOKENS_MAX else 0


_NOTHING: Final = msgspec.Raw(b"")
_NULL: Final = msgspec.Raw(b"null")
_EMPTY: Final = frozenset({b"", b"null", b'""', b"[]"})


class _Delta(msgspec.Struct):
    content: msgspec.Raw = _NOTHING
    reasoning: msgspec.Raw = _NOTHING
    reasoning_content: msgspec.Raw = _NOTHING
    tool_calls: msgspec.Raw = _NOTHING

    @property
    def parts(self) -> tuple[bytes, ...]:
        return (
            bytes(self.content),
            bytes(self.reasoning_content),
            bytes(self.reasoning),
            bytes(self.tool_calls),
        )


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
        return any(part not in _EMPTY for part in delta.parts)


class _Response(msgspec.Struct):
    usage: _Usage | None = None


_PART_TYPES: Final = (".delta", "_delta")
_LAST_TYPES: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "message_stop"}
)


class Chunk(msgspec.Struct):
    """One event of a completion stream."""

    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    type: str = ""
    response: _Response | None = None
    error: msgspec.Raw = _NULL

    @property
    def is_part(self) -> bool:
        """Whether its type says that it brings a part of the answer."""
        return self.type.endswith(_PART_TYPES)

    @property
    def is_last(self) -> bool:
        """Whether its type says that it is the last one."""
        return self.type in _LAST_TYPES

    @property
    def has_error(self) -> bool:
        """Whether it tells of an error."""
        return bytes(self.error) != b"null"

    @property
    def counted(self) -> Usage | None:
        """Return what the engine counted so far, if it says so."""
        usage = self.usage or (self.response and self.response.usage)
        return usage.counted() if usage else None

    @property
    def words(self) -> bytes:
        """Return the one JSON string, not empty, that it brings; nothing when it says more."""
        if self.type or self.usage or self.response or self.has_error:
            return b""
        choices = self.choices or ()
        if len(choices) != 1 or choices[0].finish_reason:
            return b""
        choice = choices[0]
        parts = (bytes(choice.text), *(choice.delta or _NO_DELTA).parts)
        said = [part for part in parts if part not in _EMPTY]
        return said[0] if len(said) == 1 and said[0].startswith(b'"') else b""


class _Answer(msgspec.Struct):
    usage: _Usage | None = None


_decode_chunk: Final = msgspec.json.Decoder(Chunk).decode
_decode_answer: Final = msgspec.json.Decoder(_Answer).decode


def read_chunk(data: bytes) -> Chunk | None:
    """Return what an event says; None when that is not ours to judge."""
    try:
        return _decode_chunk(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def usage_of(answer: bytes) -> Usage | None:
    """Return the tokens that a whole JSON answer tells of."""
    if b'"usage"' not in answer:
        return None
    try:
        usage = _decode_answer(answer).usage
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return usage.counted() if usage else None
