"""Channels: frames between one router and one session over a TCP connection of their own.

A router that can be dialled says so in an `Invite`, which only routers can publish to a session.
The session dials, both prove with their NKeys who they are, and from then on frames pass as
they do on the mesh::

    u32 big-endian length | frame         a length of 0 only shows that the sender lives

    Hello    who dials: which router process, which session, a nonce
    Welcome  who was dialled: a nonce, its signature
    Proof    who dials: its signature
    Accepted session to router, only where the router dials: frames may come

A session whose offer names a door is dialled instead. The router tells it so first, by an `Invite`
without addresses: its word over the mesh is what makes its key a router's.

Either side signs the whole greeting, with the certificate of who was dialled in it, and which of
the two that was: who relays a greeting to another peer, or sits between the two, has nothing that
either of them would take.
"""

import struct
from typing import Final, TypeVar

import msgspec

from opentela.core.errors import WireError

VERSION: Final = 1
NONCE_BYTES: Final = 16
PAYLOAD_BYTES_MAX: Final = 1024 * 1024
"""Of one frame; as much as the servers of the mesh take."""
GREETING_BYTES_MAX: Final = 1024
"""Of one part of the greeting: nobody has proved anything yet."""
ALIVE: Final = b"\0\0\0\0"
"""What is sent when nothing else was."""
ACCEPTED: Final = b"\x90"
"""The last part of the greeting where a router dials: an array without elements."""

_Part = TypeVar("_Part")
_LENGTH: Final = struct.Struct("!I")


class Hello(msgspec.Struct, frozen=True, array_like=True):
    """Who dials introduces itself, and says whom it wants.

    Attributes:
        instance: The router process: who dials, or whom the session was invited by.
        session: Who dials, or is asked for.
    """

    version: int
    instance: str
    session: str
    nonce: bytes


class Welcome(msgspec.Struct, frozen=True, array_like=True):
    """Who was dialled proves that it is who is wanted."""

    nonce: bytes
    signature: bytes


class Proof(msgspec.Struct, frozen=True, array_like=True):
    """Who dials proves that it is who it says."""

    signature: bytes


_encode: Final = msgspec.msgpack.Encoder().encode
_HELLO: Final = msgspec.msgpack.Decoder(Hello)
_WELCOME: Final = msgspec.msgpack.Decoder(Welcome)
_PROOF: Final = msgspec.msgpack.Decoder(Proof)


def encode(part: Hello | Welcome | Proof) -> bytes:
    """Return the bytes of a part of the greeting."""
    return _encode(part)


def read_hello(payload: bytes) -> Hello:
    """Return the session's introduction.

    Raises:
        WireError: It is none, or of a version that is not spoken here.
    """
    hello = _read(_HELLO, payload)
    if hello.version != VERSION:
        raise WireError(f"a channel of version {hello.version}; this is version {VERSION}")
    _check_nonce(hello.nonce)
    return hello


def read_welcome(payload: bytes) -> Welcome:
    """Return the router's proof.

    Raises:
        WireError: It is none.
    """
    welcome = _read(_WELCOME, payload)
    _check_nonce(welcome.nonce)
    return welcome


def read_proof(payload: bytes) -> Proof:
    """Return the session's proof.

    Raises:
        WireError: It is none.
    """
    return _read(_PROOF, payload)


def words_of_router(
    hello: Hello, nonce: bytes, certificate: str, *, is_dialled: bool = False
) -> bytes:
    """Return what a router signs; *is_dialled* where the session was dialled."""
    return _words("router", hello, nonce, certificate, is_dialled=is_dialled)


def words_of_session(
    hello: Hello, nonce: bytes, certificate: str, *, is_dialled: bool = False
) -> bytes:
    """Return what a session signs; *is_dialled* where it was dialled."""
    return _words("session", hello, nonce, certificate, is_dialled=is_dialled)


def _words(role: str, hello: Hello, nonce: bytes, certificate: str, *, is_dialled: bool) -> bytes:
    what = "opentela channel to a session" if is_dialled else "opentela channel"
    return _encode((what, role, hello, nonce, certificate))


def _check_nonce(nonce: bytes) -> None:
    if len(nonce) != NONCE_BYTES:
        raise WireError("a greeting without a nonce")


def _read(decoder: msgspec.msgpack.Decoder[_Part], payload: bytes) -> _Part:
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise WireError(f"not a greeting: {error}") from error


def length_of(payload: bytes) -> bytes:
    """Return what goes before *payload*."""
    return _LENGTH.pack(len(payload))


class Parser:
    """Cuts what comes on a channel into payloads, wherever the bytes were cut.

    Attributes:
        bytes_max: Of one payload.
    """

    def __init__(self) -> None:
        self.bytes_max = GREETING_BYTES_MAX
        self._chunks: list[bytes] = []
        self._have = 0
        self._need = _LENGTH.size

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads that are whole now; empty ones only show life.

        Raises:
            WireError: One is longer than allowed; the connection is of no more use.
        """
        if self._chunks:
            self._chunks.append(data)
            self._have += len(data)
            if self._have < self._need:
                return []
            data = b"".join(self._chunks)
            self._chunks.clear()
        at, size = 0, len(data)
        length = size - _LENGTH.size
        if 0 < length <= self.bytes_max and _LENGTH.unpack_from(data)[0] == length:
            return [data[_LENGTH.size :]]  # one frame, as nearly every read
        payloads: list[bytes] = []
        while at < size:
            if size - at < _LENGTH.size:
                self._keep(data[at:], _LENGTH.size)
                break
            length = _LENGTH.unpack_from(data, at)[0]
            if length > self.bytes_max:
                raise WireError(f"a frame of {length} bytes, more than {self.bytes_max}")
            end = at + _LENGTH.size + length
            if end > size:
                self._keep(data[at:], end - at)
                break
            payloads.append(data[at + _LENGTH.size : end])
            at = end
        return payloads

    def _keep(self, rest: bytes, need: int) -> None:
        self._chunks.append(rest)
        self._have = len(rest)
        self._need = need
