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
_MESSAGE_STARTS: Final = (b"M", b"H")
_MESSAGE_FIELDS: Final = {b"MSG": 1, b"HMSG": 2}


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


class Refusal(msgspec.Struct, frozen=True):
    """The server reports an error; after most of them it closes the connection."""

    text: str


Event: TypeAlias = Message | Info | Ping | Pong | Refusal

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
            line = data[at:line_end]
            at_payload = line_end + 2
            if line[:1] in _MESSAGE_STARTS:
                end = self._message(line, data, at_payload, events)
                if end > size:
                    self._keep(data[at:], end - at)
                    break
                at = end
            else:
                self._other(line, events)
                at = at_payload
        return events

    def _keep(self, rest: bytes, need: int) -> None:
        self._chunks.append(rest)
        self._have = len(rest)
        self._need = need

    def _message(self, line: bytes, data: bytes, start: int, events: list[Event]) -> int:
        """Take one message, if it is whole; return where it ends."""
        fields = line.split()
        sizes = _MESSAGE_FIELDS.get(fields[0], 0)
        # Subject and subscription, perhaps a reply subject, then one or two sizes.
        if not sizes or not 3 <= len(fields) - sizes <= 4:  # noqa: PLR2004
            raise WireError(f"not a line of a NATS server: {line[:80]!r}")
        try:
            subject, sid, total = str(fields[1], "utf-8"), int(fields[2]), int(fields[-1])
            reply = str(fields[3], "utf-8") if len(fields) - sizes == 4 else ""  # noqa: PLR2004
            headers = int(fields[-2]) if sizes == 2 else 0  # noqa: PLR2004
        except ValueError as error:
            raise WireError(f"not a line of a NATS server: {line[:80]!r}") from error
        if not 0 <= headers <= total <= PAYLOAD_BYTES_MAX:
            raise WireError(f"a message of {total} bytes exceeds {PAYLOAD_BYTES_MAX}")
        end = start + total
        if end + 2 <= len(data):
            if data[end : end + 2] != _CRLF:
                raise WireError("a message is longer than announced")
            status = _status(data[start : start + headers]) if headers else 0
            events.append(Message(subject, sid, reply, data[start + headers : end], status))
        return end + 2

    def _other(self, line: bytes, events: list[Event]) -> None:
        word, _, rest = line.partition(b" ")
        if word == b"PING":
            events.append(Ping())
        elif word == b"PONG":
            events.append(Pong())
        elif word == b"INFO":
            try:
                events.append(_info(rest))
            except msgspec.DecodeError as error:
                raise WireError(f"the server's INFO cannot be read: {error}") from error
        elif word == b"-ERR":
            events.append(Refusal(rest.decode(errors="replace").strip("' ")))
        elif word != b"+OK":
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
