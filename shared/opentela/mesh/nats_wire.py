"""NATS's client protocol as bytes: what servers send, read from any split; what clients say.

Only what the data plane needs: no acknowledgements, no headers but the status of "no responders".
Reference: https://docs.nats.io/reference/reference-protocols/nats-protocol
"""

from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from opentela.core.errors import WireError

LINE_BYTES_MAX: Final = 64 * 1024
"""Of a control line; the longest, INFO, lists every server of a cluster."""
PAYLOAD_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of one message; servers of the mesh allow an eighth of it."""
LINES_KNOWN_MAX: Final = 1024
"""Lines of which is remembered what they say: one for each session that answers a router."""
NO_RESPONDERS: Final = 503

_DIGITS_MAX: Final = 18
_CRLF: Final = b"\r\n"
_STATUS_LINE: Final = b"NATS/1.0"
_STATUS_AT: Final = len(_STATUS_LINE) + 1
_MESSAGE_SIZES: Final = {b"MSG": (3, 4), b"HMSG": (4, 5)}
"""Fields of the line before a message but for the last, without and with a reply subject."""


class Message(msgspec.Struct, frozen=True):
    """A message as it arrived.

    Attributes:
        sid: The subscription that it answers.
        status: `NO_RESPONDERS` or another status that the server itself sent; 0 for none.
    """

    subject: str
    sid: int
    reply: str
    payload: bytes
    status: int = 0


class Info(msgspec.Struct, frozen=True):
    """What the server says of itself, first of all and whenever it changes."""

    server_name: str = ""
    nonce: str = ""
    tls_required: bool = False
    max_payload: int = 1024 * 1024


class Ping(msgspec.Struct, frozen=True):
    """The server asks whether we live."""


class Pong(msgspec.Struct, frozen=True):
    """The server has read everything up to our oldest unanswered PING."""


class Fine(msgspec.Struct, frozen=True):
    """The server took what was said; never asked for."""


class Refusal(msgspec.Struct, frozen=True):
    """The server reports an error; after most of them it closes the connection."""

    text: str


Event: TypeAlias = Message | Info | Ping | Pong | Fine | Refusal

PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"

_info: Final = msgspec.json.Decoder(Info).decode
_encode: Final = msgspec.json.Encoder().encode


class _Line(NamedTuple):
    """What the line before a message says, but for the size of the message."""

    subject: str
    sid: int
    reply: str
    headers: int


class Parser:
    """Reads what one server sends; bytes may be cut anywhere."""

    __slots__ = ("_chunks", "_have", "_known", "_need")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._have = 0
        self._need = 0
        # Nearly all lines differ from an earlier one in nothing but the size at their end.
        self._known: dict[bytes, _Line] = {}

    def feed(self, data: bytes) -> list[Event]:
        """Return what is complete now, in order.

        Raises:
            WireError: These are not the words of a NATS server; the connection is of no more use.
        """
        if self._chunks:
            self._chunks.append(data)
            self._have += len(data)
            if self._have < self._need:
                return []
            data = b"".join(self._chunks)
            self._chunks.clear()
        events: list[Event] = []
        at, size = 0, len(data)
        while at < size:
            line_end = data.find(_CRLF, at, at + LINE_BYTES_MAX)
            if line_end < 0:
                if size - at >= LINE_BYTES_MAX:
                    raise WireError("the server's line does not end")
                self._keep(data[at:], size - at + 1)
                break
            begin, _, last = data[at:line_end].rpartition(b" ")
            line = self._known.get(begin) or self._learn(begin)
            if line is None:
                events.append(_word(data[at:line_end]))
                at = line_end + 2
                continue
            end = line_end + 2 + _total(last, line.headers)
            if end + 2 > size:
                self._keep(data[at:], end + 2 - at)
                break
            events.append(_message(line, data, line_end + 2, end))
            at = end + 2
        return events

    def _learn(self, begin: bytes) -> _Line | None:
        """Return what a line says that begins so, if it is the line before a message."""
        line = _line(begin)
        if line is not None and not line.reply and not line.headers:
            if len(self._known) >= LINES_KNOWN_MAX:
                self._known.clear()
            self._known[begin] = line
        return line

    def _keep(self, rest: bytes, need: int) -> None:
        self._chunks.append(rest)
        self._have = len(rest)
        self._need = need


def _line(begin: bytes) -> _Line | None:
    fields = begin.split(b" ")
    sizes = _MESSAGE_SIZES.get(fields[0])
    if sizes is None:
        return None
    if len(fields) not in sizes:
        raise WireError(f"not a line of a NATS server: {begin[:80]!r}")
    has_headers, has_reply = fields[0] == b"HMSG", len(fields) == sizes[1]
    try:
        # Subject and subscription, perhaps a reply subject, then with headers their size.
        return _Line(
            str(fields[1], "utf-8"),
            int(fields[2]),
            str(fields[3], "utf-8") if has_reply else "",
            int(fields[-1]) if has_headers else 0,
        )
    except ValueError as error:
        raise WireError(f"not a line of a NATS server: {begin[:80]!r}") from error


def _total(last: bytes, headers: int) -> int:
    """Return the size at the end of a line, of headers and payload together."""
    total = int(last) if last.isdigit() and len(last) <= _DIGITS_MAX else -1
    if not 0 <= headers <= total <= PAYLOAD_BYTES_MAX:
        raise WireError(f"a message of {last[:20]!r} bytes, more than {PAYLOAD_BYTES_MAX} or none")
    return total


def _message(line: _Line, data: bytes, start: int, end: int) -> Message:
    subject, sid, reply, headers = line
    if not data.startswith(_CRLF, end):
        raise WireError("a message is longer than announced")
    if not headers:
        return Message(subject, sid, reply, data[start:end])
    status = _status(data[start : start + headers])
    return Message(subject, sid, reply, data[start + headers : end], status)


def _word(line: bytes) -> Event:
    word, _, rest = line.partition(b" ")
    if word == b"PING":
        return Ping()
    if word == b"PONG":
        return Pong()
    if word == b"INFO":
        try:
            return _info(rest)
        except msgspec.DecodeError as error:
            raise WireError(f"the server's INFO cannot be read: {error}") from error
    if word == b"-ERR":
        return Refusal(rest.decode(errors="replace").strip("' "))
    if word == b"+OK":
        return Fine()
    raise WireError(f"not a line of a NATS server: {line[:80]!r}")


def connect(options: dict[str, Any]) -> bytes:
    """Return the client's introduction."""
    return b"CONNECT " + _encode(options) + _CRLF


def subscribe(subject: str, sid: int) -> bytes:
    """Return what asks for every message on *subject*."""
    return f"SUB {subject} {sid}\r\n".encode()


def unsubscribe(sid: int) -> bytes:
    """Return what withdraws a subscription."""
    return f"UNSUB {sid}\r\n".encode()


def publish(subject: str, reply: str, payload: bytes) -> bytes:
    """Return a message."""
    line = f"PUB {subject} {reply} {len(payload)}\r\n"
    return b"".join((line.encode(), payload, b"\r\n"))


def _status(headers: bytes) -> int:
    if not headers.startswith(_STATUS_LINE):
        raise WireError(f"not headers of NATS: {headers[:40]!r}")
    digits = headers[_STATUS_AT : _STATUS_AT + 3]
    return int(digits) if digits.isdigit() else 0
