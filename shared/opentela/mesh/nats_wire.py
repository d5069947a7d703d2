"""NATS's client protocol as bytes: what servers send, read from any split; what clients say.

Only what the data plane needs: no acknowledgements, no headers but the status of "no responders".
Reference: https://docs.nats.io/reference/reference-protocols/nats-protocol
"""

from typing import Any, Final, TypeAlias

import msgspec

from opentela.core.errors import WireError

LINE_BYTES_MAX: Final = 64 * 1024
"""Of a control line; the longest, INFO, lists every server of a cluster."""
PAYLOAD_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of one message; servers of the mesh allow an eighth of it."""
NO_RESPONDERS: Final = 503

_CRLF: Final = b"\r\n"
_STATUS_LINE: Final = b"NATS/1.0"
_STATUS_AT: Final = len(_STATUS_LINE) + 1
_MESSAGE_SIZES: Final = {b"MSG": (4, 5), b"HMSG": (5, 6)}
"""Fields of the line before a message, without and with a reply subject."""


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


class Parser:
    """Reads what one server sends; bytes may be cut anywhere."""

    __slots__ = ("_chunks", "_have", "_need")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._have = 0
        self._need = 0

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
            fields = data[at:line_end].split(b" ")
            if fields[0] not in _MESSAGE_SIZES:
                events.append(_word(data[at:line_end]))
                at = line_end + 2
                continue
            message, end = _message(fields, data, line_end + 2)
            if message is None:
                self._keep(data[at:], end - at)
                break
            events.append(message)
            at = end
        return events

    def _keep(self, rest: bytes, need: int) -> None:
        self._chunks.append(rest)
        self._have = len(rest)
        self._need = need


def _message(fields: list[bytes], data: bytes, start: int) -> tuple[Message | None, int]:
    """Return the message whose line had *fields*, unless it is cut, and where it ends."""
    short, long = _MESSAGE_SIZES[fields[0]]
    if not short <= len(fields) <= long:
        raise WireError(f"not a line of a NATS server: {b' '.join(fields)[:80]!r}")
    try:
        # Subject and subscription, perhaps a reply subject, then one or two sizes.
        subject, sid, total = str(fields[1], "utf-8"), int(fields[2]), int(fields[-1])
        reply = str(fields[3], "utf-8") if len(fields) == long else ""
        headers = int(fields[-2]) if fields[0] == b"HMSG" else 0
    except ValueError as error:
        raise WireError(f"not a line of a NATS server: {b' '.join(fields)[:80]!r}") from error
    if not 0 <= headers <= total <= PAYLOAD_BYTES_MAX:
        raise WireError(f"a message of {total} bytes, more than {PAYLOAD_BYTES_MAX} or none")
    end = start + total
    if end + 2 > len(data):
        return None, end + 2
    if data[end : end + 2] != _CRLF:
        raise WireError("a message is longer than announced")
    status = _status(data[start : start + headers]) if headers else 0
    return Message(subject, sid, reply, data[start + headers : end], status), end + 2


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


def publish_line(subject: str, reply: str, size: int) -> bytes:
    """Return the line before a payload of *size* bytes; CRLF follows the payload."""
    return f"PUB {subject} {reply} {size}\r\n".encode()


def _status(headers: bytes) -> int:
    if not headers.startswith(_STATUS_LINE):
        raise WireError(f"not headers of NATS: {headers[:40]!r}")
    digits = headers[_STATUS_AT : _STATUS_AT + 3]
    return int(digits) if digits.isdigit() else 0
