"""Heads of HTTP messages between a gateway and its engine: what passes, and how bodies are framed.

Framing belongs to one connection and is made anew on each; so do the hop-by-hop fields and what
`Connection` names (RFC 9110, section 7.6.1). An engine may say both `Content-Length` and
`Transfer-Encoding`, or a wrong length beside chunks: neither leaves this file.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from opentela.core.errors import WireError
from opentela.wire.frames import Headers, Open

HOP_BY_HOP: Final = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authentication-info",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
FRAMING: Final = frozenset(("content-length", "transfer-encoding"))

_DROPPED_FROM_REQUESTS: Final = HOP_BY_HOP | FRAMING | {"host", "expect", "traceparent"}
_DROPPED_FROM_ANSWERS: Final = HOP_BY_HOP | FRAMING
FIELDS_CACHED_MAX: Final = 256
"""Sets of fields whose bytes are remembered: clients send the same ones with every request."""
PATH_CACHED_MAX: Final = 256
"""Characters of a path above which its line is not remembered: queries may be long."""
NAMES_CACHED_MAX: Final = 1024
"""Names of fields that are remembered; engines use the same few dozen."""
_BODILESS: Final = frozenset(("GET", "HEAD", "OPTIONS", "DELETE"))
_REQUEST_ID: Final = "x-request-id"
"""Another one with every request; routers put it last."""
_TOKEN_BREAKERS: Final = frozenset("\r\n\0 ")


def request_head(request: Open, *, host: str, api_key: str = "") -> bytes:
    """Return the head of *request* for the engine that listens as *host*.

    A whole body, and one of known length, is framed by its length, another one in chunks. Encoded
    answers are not asked for unless the client does. *api_key* replaces the client's own.

    Raises:
        WireError: It holds what HTTP cannot carry, such as a line end in a field.
    """
    if is_chunked(request):
        framing = b"transfer-encoding: chunked\r\n"
    else:
        length = request.length if request.more else len(request.body)
        needed = length or request.method not in _BODILESS
        framing = b"content-length: %d\r\n" % length if needed else b""
    trace = _encoded([f"traceparent: {request.trace}"]) if request.trace else b""
    headers, last = request.headers, b""
    if headers and headers[-1][0] == _REQUEST_ID:
        fields, named = _request_fields(headers[:-1], host, api_key)
        if _REQUEST_ID not in named:
            last = _id_field(headers[-1][1])
    else:
        fields, _ = _request_fields(headers, host, api_key)
    make_line = _request_line if len(request.path) <= PATH_CACHED_MAX else _request_line.__wrapped__
    line = make_line(request.method, request.path)
    return b"%b%b%b%b%b\r\n" % (line, framing, trace, fields, last)


def is_chunked(request: Open) -> bool:
    """Return whether the body of *request* is sent in chunks, for want of its length."""
    return request.more and not request.length


def chunk(data: bytes, *, more: bool) -> bytes:
    """Return *data* as a chunk, with the end of the body if nothing follows."""
    end = b"" if more else b"0\r\n\r\n"
    return b"%x\r\n%b\r\n%b" % (len(data), data, end) if data else end


class AnswerFields(NamedTuple):
    """The fields of an answer that pass on, names in lower case, and what they said of framing."""

    headers: Headers
    coding: str | None
    has_length: bool


def answer_headers(fields: Iterable[tuple[bytes, bytes]]) -> AnswerFields:
    """Return what passes on of an engine's fields, order kept, and how its body is framed."""
    headers: list[tuple[str, str]] = []
    coding, connection, has_length = None, "", False
    for name, value in fields:
        lowered, passes = _answer_name(name)
        text = str(value, "latin-1").strip()
        if passes:
            headers.append((lowered, text))
        elif lowered == "content-length":
            has_length = True
        elif lowered == "transfer-encoding":
            coding = f"{coding}, {text.lower()}" if coding else text.lower()
        elif lowered == "connection":
            connection += f",{text}"
    if connection:
        named = {option.strip().lower() for option in connection.split(",")}
        headers = [header for header in headers if header[0] not in named]
    return AnswerFields(tuple(headers), coding, has_length)


@lru_cache(maxsize=NAMES_CACHED_MAX)
def _answer_name(name: bytes) -> tuple[str, bool]:
    """Return a field's name in lower case, and whether it passes on."""
    lowered = str(name, "latin-1").lower()
    return lowered, lowered not in _DROPPED_FROM_ANSWERS


@lru_cache(maxsize=FIELDS_CACHED_MAX)
def _request_line(method: str, path: str) -> bytes:
    if not method or not path.startswith("/") or not _TOKEN_BREAKERS.isdisjoint(method + path):
        raise WireError("a method or path that HTTP cannot carry")
    return _encoded([f"{method} {path} HTTP/1.1"])


def _id_field(value: str) -> bytes:
    if value.isascii() and value.isprintable():  # as nearly every one
        return b"x-request-id: %b\r\n" % value.encode()
    return _encoded([f"{_REQUEST_ID}: {value}"])


def _named(headers: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Return which fields `Connection` keeps to one connection."""
    values = [value for name, value in headers if name.lower() == "connection"]
    return frozenset(option.strip().lower() for value in values for option in value.split(","))


@lru_cache(maxsize=FIELDS_CACHED_MAX)
def _request_fields(headers: Headers, host: str, api_key: str) -> tuple[bytes, frozenset[str]]:
    """Return the bytes of *headers*, and the names of those that do not pass for `Connection`."""
    named = _named(headers)
    lines = [f"host: {host}"]
    asks_encoding = False
    for name, value in headers:
        lowered = name.lower()
        if lowered in _DROPPED_FROM_REQUESTS or lowered in named:
            continue
        if api_key and lowered == "authorization":
            continue
        asks_encoding = asks_encoding or lowered == "accept-encoding"
        lines.append(f"{lowered}: {value}")
    if not asks_encoding:
        lines.append("accept-encoding: identity")
    if api_key:
        lines.append(f"authorization: Bearer {api_key}")
    return _encoded(lines), named


def _encoded(lines: list[str]) -> bytes:
    try:
        head = "\r\n".join(lines).encode("latin-1")
    except UnicodeEncodeError as error:
        raise WireError("a field that HTTP cannot carry") from error
    ends = len(lines) - 1
    if head.count(b"\n") != ends or head.count(b"\r") != ends or b"\0" in head:
        raise WireError("a field that HTTP cannot carry")
    return head + b"\r\n"
