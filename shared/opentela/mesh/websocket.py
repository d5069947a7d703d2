"""The client's side of a websocket as bytes: enough to carry NATS through an HTTPS port.

Frames are no messages here: what arrives in them is one stream of bytes, as NATS has it.
RFC 6455: https://www.rfc-editor.org/rfc/rfc6455
"""

import base64
import hashlib
import struct
from collections.abc import Callable
from typing import Final

from opentela.core.errors import WireError

KEY_BYTES: Final = 16
MASK_BYTES: Final = 4
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of one frame; a server sends what it has for one client at once, some messages of 1 MiB."""
HEAD_BYTES_MAX: Final = 16 * 1024
"""Of the answer to the upgrade, proxies' additions included."""

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_FIN: Final = 0x80
_CONTINUATION, _BINARY, _CLOSE, _PING, _PONG = 0, 2, 8, 9, 10
_SHORT_MAX: Final = 125
_U16, _U64 = 126, 127


class WebsocketClient:
    """One connection, from the upgrade on.

    Args:
        host: As the `Host` header names the server.
        key: `KEY_BYTES` random bytes.
        draw: Returns as many random bytes as asked for; masks must not be foreseeable, lest what
            a prompt holds looks like HTTP to a proxy (section 10.3).
    """

    def __init__(self, host: str, key: bytes, draw: Callable[[int], bytes]) -> None:
        self._host = host
        self._key = base64.b64encode(key)
        self._draw = draw
        self._rest = b""
        self.is_open = False

    def request(self) -> bytes:
        """Return the request that asks for the upgrade."""
        return (
            b"GET / HTTP/1.1\r\nHost: " + self._host.encode() + b"\r\n"
            b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: " + self._key + b"\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what arrived, and what must be sent for the connection's own sake.

        Raises:
            WireError: The server does not speak websocket, refused, or ended the connection.
        """
        self._rest += data
        if not self.is_open:
            self._upgrade()
            if not self.is_open:
                return b"", b""
        arrived: list[bytes] = []
        answers: list[bytes] = []
        talk, at = self._rest, 0
        while (frame := _frame(talk, at)) is not None:
            opcode, payload, at = frame
            if opcode in (_CONTINUATION, _BINARY):
                arrived.append(payload)
            elif opcode == _PING:
                answers.append(self._masked(_PONG, payload))
            elif opcode == _CLOSE:
                raise WireError("the server closed the websocket")
            elif opcode != _PONG:
                raise WireError(f"a websocket frame of kind {opcode}")
        self._rest = talk[at:]
        return b"".join(arrived), b"".join(answers)

    def send(self, data: bytes) -> bytes:
        """Return *data* as one frame."""
        return self._masked(_BINARY, data)

    def _upgrade(self) -> None:
        head, end, rest = self._rest.partition(b"\r\n\r\n")
        if not end:
            if len(self._rest) > HEAD_BYTES_MAX:
                raise WireError("the answer to the websocket's upgrade does not end")
            return
        lines = head.split(b"\r\n")
        if lines[0].split(b" ")[1:2] != [b"101"]:
            said = lines[0][:80].decode(errors="replace")
            raise WireError(f"no websocket here: the server answered {said!r}")
        accept = base64.b64encode(hashlib.sha1(self._key + _GUID).digest())  # noqa: S324  RFC 6455
        fields = {name.strip().lower(): value.strip() for name, _, value in map(_field, lines[1:])}
        if fields.get(b"sec-websocket-accept") != accept:
            raise WireError("the answer to the websocket's upgrade is for somebody else")
        self._rest = rest
        self.is_open = True

    def _masked(self, opcode: int, data: bytes) -> bytes:
        size, mask = len(data), self._draw(MASK_BYTES)
        if size <= _SHORT_MAX:
            head = bytes((_FIN | opcode, _FIN | size))
        elif size < 1 << 16:
            head = struct.pack("!BBH", _FIN | opcode, _FIN | _U16, size)
        else:
            head = struct.pack("!BBQ", _FIN | opcode, _FIN | _U64, size)
        return head + mask + _xor(data, mask)


def _frame(talk: bytes, at: int) -> tuple[int, bytes, int] | None:
    """Return the frame that starts *at*: its kind, what it holds, where it ends; None if cut."""
    if len(talk) < at + 2:
        return None
    if talk[at] & 0x70 or talk[at + 1] & 0x80:
        raise WireError("a websocket frame with bits that nobody agreed on")
    size, start = talk[at + 1] & 0x7F, at + 2
    if size > _SHORT_MAX:
        form = "!H" if size == _U16 else "!Q"
        if len(talk) < start + struct.calcsize(form):
            return None
        (size,) = struct.unpack_from(form, talk, start)
        start += struct.calcsize(form)
        if size > FRAME_BYTES_MAX:
            raise WireError(f"a websocket frame of {size} bytes exceeds {FRAME_BYTES_MAX}")
    end = start + size
    if len(talk) < end:
        return None
    return talk[at] & 0x0F, talk[start:end], end


def _field(line: bytes) -> tuple[bytes, bytes, bytes]:
    return line.partition(b":")


def _xor(data: bytes, mask: bytes) -> bytes:
    # As one large number: a loop over bytes costs a thousand times as much.
    size = len(data)
    key = (mask * (size // MASK_BYTES + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")
