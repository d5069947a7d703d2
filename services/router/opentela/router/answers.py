"""What a client gets for what an engine answered: JSON passes, everything else is explained.

An engine, or a proxy before it, may answer an error as HTML, plain text or nothing. OpenAI clients
read JSON: such an answer becomes an error object with its own status. JSON passes byte for byte.
"""

from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from opentela.router.fault import Fault, FaultKind, envelope
from opentela.wire.frames import Headers

STATUS_MIN: Final = 200
STATUS_MAX: Final = 599
BODILESS: Final = frozenset({204, 304})
"""Answers that end with their head. RFC 9112 section 6.3."""
_ERROR: Final = 400
_ENGINE_ERROR: Final = 500
_UNAVAILABLE: Final = 503
_TOO_MANY: Final = 429
_DETAIL_CHARS_MAX: Final = 300
_JSON: Final = ("content-type", "application/json")
# A body that is replaced takes the headers that described it along.
_OF_BODY: Final = frozenset({"content-type", "content-encoding", "content-language", "etag"})

UNAUTHENTICATED: Final = 401
"""The engine does not take its supervisor's key."""
TRY_ELSEWHERE: Final = frozenset({502, 503, 504, UNAUTHENTICATED})
"""Answers of an engine's surroundings rather than of the engine: another session may do better."""
SURELY_NOT_BEGUN: Final = frozenset({503, UNAUTHENTICATED})
"""Refusals; 502 and 504 may come after the engine began."""
_NOT_THE_CLIENTS: Final = frozenset({UNAUTHENTICATED, 403, 407})
"""Between the engine and its provider: the client has no key there, and would doubt its own."""
_BAD_GATEWAY: Final = 502
_HEADS_MAX: Final = 64
"""Sets of headers of which it is remembered: engines send the same ones again and again."""


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    headers: Headers
    body: bytes


class _Object(msgspec.Struct):
    error: msgspec.Raw = msgspec.Raw(b"null")
    object: str = ""
    detail: str | msgspec.UnsetType = msgspec.UNSET


_decode_object: Final = msgspec.json.Decoder(_Object).decode
_decode_raw: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def value_of(headers: Headers, name: str) -> str:
    """Return the value of the first header *name* (lower case), or nothing."""
    for key, value in headers:
        if key.lower() == name:
            return value
    return ""


def is_status(status: int) -> bool:
    """Return whether an answer can have *status*; the interim ones are none."""
    return STATUS_MIN <= status <= STATUS_MAX


def is_event_stream(status: int, headers: Headers) -> bool:
    """Return whether the answer is a stream of events, and not an error."""
    return status < _ERROR and status not in BODILESS and _tells_events(headers)


def is_plain(status: int, headers: Headers) -> bool:
    """Return whether a whole answer is the client's as it is, as nearly every one."""
    return STATUS_MIN <= status < _ERROR and status not in BODILESS and not _tells_events(headers)


@lru_cache(_HEADS_MAX)
def _tells_events(headers: Headers) -> bool:
    return value_of(headers, "content-type").lower().startswith("text/event-stream")


def shown_status(status: int) -> int:
    """Return the status that the client gets for an engine's."""
    return _BAD_GATEWAY if status in _NOT_THE_CLIENTS else status


def presented(answer: Answer) -> Answer:
    """Return *answer* as an OpenAI client can read it."""
    if answer.status in _NOT_THE_CLIENTS:
        message = f"The engine answered {answer.status}: it rejects its provider's key."
        return _explained(answer, Fault(kind=FaultKind.ENGINE_ERROR, message=message))
    if answer.status < _ERROR or _reads_as_error(answer):
        return answer
    fault = Fault(kind=_kind(answer.status), status=answer.status, message=_message(answer))
    return _explained(answer, fault)


def _explained(answer: Answer, fault: Fault) -> Answer:
    headers = tuple(pair for pair in answer.headers if pair[0].lower() not in _OF_BODY)
    return Answer(fault.http_status, (*headers, _JSON), envelope(fault))


def _reads_as_error(answer: Answer) -> bool:
    if value_of(answer.headers, "content-encoding").lower() not in {"", "identity"}:
        # Passed raw; whoever compressed it described it.
        return "json" in value_of(answer.headers, "content-type").lower()
    try:
        if answer.status < _ENGINE_ERROR:
            _decode_raw(answer.body)
            return True
        read = _decode_object(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return bytes(read.error) != b"null" or read.object == "error"


def _kind(status: int) -> FaultKind:
    if status == _TOO_MANY:
        return FaultKind.BUSY
    return FaultKind.ENGINE_FAILED if status >= _ENGINE_ERROR else FaultKind.BAD_REQUEST


def _message(answer: Answer) -> str:
    said = _detail(answer)
    return f"The engine answered {answer.status}" + (f": {said}" if said else ".")


def _detail(answer: Answer) -> str:
    """Return the one line that some servers send instead of an error object."""
    try:
        detail = _decode_object(answer.body).detail
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    return "" if detail is msgspec.UNSET else detail[:_DETAIL_CHARS_MAX]
