"""Answers as HTTP/1.1 bytes: one head, and one of three ways to say where the body ends."""

from collections.abc import Sequence
from enum import Enum
from http import HTTPStatus
from typing import Final

from opentela.router.answers import BODILESS

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"

_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_CLOSE: Final = b"connection: close\r\n"
_KEEP: Final = b"connection: keep-alive\r\n"


class Framing(Enum):
    """How the client knows where a body ends that is sent while it grows."""

    CHUNKED = "chunked"
    CLOSED = "closed"  # HTTP/1.0: by the end of the connection
    ABSENT = "absent"  # only the head was asked for


def whole(
    status: int,
    fields: bytes,
    body: bytes,
    *,
    keep_alive: bool,
    is_http10: bool,
    is_head: bool = False,
) -> bytes:
    """Return a whole answer, or with *is_head* as much as HEAD wants of it.

    How long an engine's body would be is not known then, and may be left out: RFC 9110 section 8.6.
    """
    if status in BODILESS or (is_head and not body):
        return b"".join((_start(status), fields, _connection(keep_alive, is_http10), b"\r\n"))
    return b"%b%b%bcontent-length: %d\r\n\r\n%b" % (
        _start(status),
        fields,
        _connection(keep_alive, is_http10),
        len(body),
        b"" if is_head else body,
    )


def head(status: int, fields: bytes, framing: Framing, *, keep_alive: bool) -> bytes:
    """Return the head of an answer whose body follows in parts."""
    if framing is Framing.CHUNKED:
        return b"%b%b%btransfer-encoding: chunked\r\n\r\n" % (
            _start(status),
            fields,
            b"" if keep_alive else _CLOSE,
        )
    if framing is Framing.ABSENT:
        return b"%b%b%b\r\n" % (_start(status), fields, b"" if keep_alive else _CLOSE)
    return b"%b%b%b\r\n" % (_start(status), fields, _CLOSE)


def part(data: Sequence[bytes], framing: Framing) -> bytes:
    """Return *data* as the next part of the body; nothing is not sent, for it would end it."""
    if framing is Framing.ABSENT:
        return b""
    joined = data[0] if len(data) == 1 else b"".join(data)
    if framing is Framing.CLOSED or not joined:
        return joined
    return b"%x\r\n%b\r\n" % (len(joined), joined)


def _start(status: int) -> bytes:
    return _LINES.get(status) or b"HTTP/1.1 %d Unknown\r\n" % status


def _connection(keep_alive: bool, is_http10: bool) -> bytes:  # noqa: FBT001 - two facts, private
    if not keep_alive:
        return _CLOSE
    return _KEEP if is_http10 else b""
