"""Frames of the data plane: one HTTP exchange between a router and a session.

A frame is a 9-byte prefix (kind, stream) and its own part; what is bytes in HTTP stays bytes, and
what is structured is a msgpack array that newer peers may lengthen::

    kind u8 | stream u64 big-endian | part

    Open    u32 length of meta | meta | body    Head   u16 status | u32 length of [headers, timings]
                                                       | [headers, timings or nil] | bytes
    Body    u32 seq | more u8 | body            Data   u32 seq | bytes (empty: still alive)
    Credit  u64 total                           End    u32 seq | [timings]
    Cancel  reason                              Fail   [kind, definite, retryable, message]
    Invite  [addresses, key, certificate]; of no stream
    Loan    a word about an engine that is lent, as `loans` reads it; of no stream

    meta    [method, path, headers, more, credit, deadline_s, trace, length]

Router to session: Open, Body, Credit, Cancel, Invite.
Session to router: Head, Data, End, Fail, Credit. Either way: Loan.
The first frame of any kind from the session acknowledges the Open; `Credit` is sent for that
when nothing else is ready. Credit counts from the start of the stream, so that one that is lost,
repeated or late does no harm. Both ends speak when they have been silent: an empty `Data`, a
repeated `Credit`. A small prefix instead of NATS headers keeps a frame at one read of the
server's fast path.
"""

import struct
from collections.abc import Callable
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from opentela.core.errors import WireError

Headers: TypeAlias = tuple[tuple[str, str], ...]

HEAD_BYTES_MAX: Final = 64 * 1024
"""Headers of an answer; engines send one or two KiB, and clients take little more."""
PART_BYTES: Final = 64 * 1024
"""Largest body or data part of one frame: a small frame never waits behind more than this."""
WINDOW_BYTES: Final = 256 * 1024
"""Bytes that may be under way unacknowledged, each direction: larger windows delayed small
messages in proportion and carried hardly more."""


class FailKind(StrEnum):
    """Why a stream failed; decides what the client is told and what the router does next."""

    REFUSED = "refused"  # the session takes no new work (draining, not serving, full)
    ENGINE_UNREACHABLE = "engine_unreachable"  # no connection to the engine was made
    ENGINE_LOST = "engine_lost"  # the engine's connection broke in mid-answer
    ENGINE_PROTOCOL = "engine_protocol"  # the engine's answer is no HTTP
    TOO_LARGE = "too_large"  # the body exceeds the session's limit
    DEADLINE = "deadline"  # the deadline of the Open passed
    CANCELLED = "cancelled"  # the router asked for it
    PROTOCOL = "protocol"  # a frame that does not fit the stream's state, or a gap
    NO_RESPONDERS = "no_responders"  # the mesh knows no such session
    UNACKNOWLEDGED = "unacknowledged"  # the session did not answer the Open in time
    SILENT = "silent"  # the other end of the stream went silent
    CHANNEL_LOST = "channel_lost"  # the connection that carried the stream; the mesh may stand
    MESH_LOST = "mesh_lost"  # this process lost its connection to the mesh
    UNKNOWN = "unknown"  # a kind of a newer peer

    @classmethod
    def _missing_(cls, _value: object) -> "FailKind":
        return cls.UNKNOWN


class Open(msgspec.Struct, frozen=True):
    """Starts a stream.

    Attributes:
        body: The first part of the request's body.
        more: `Body` frames follow.
        credit: Bytes of data that may come before a `Credit` is sent.
        deadline_s: From the arrival of this frame to the end of the answer; 0 for none.
        length: Bytes of the whole body when *more*; 0 when unknown.
    """

    stream: int
    method: str
    path: str
    headers: Headers
    body: bytes = b""
    more: bool = False
    credit: int = WINDOW_BYTES
    deadline_s: float = 0.0
    trace: str = ""
    length: int = 0


class Body(msgspec.Struct, frozen=True):
    """A further part of the request's body; *seq* counts from 0, and a gap fails the stream."""

    stream: int
    seq: int
    body: bytes
    more: bool


class Credit(msgspec.Struct, frozen=True):
    """The other end may send *total* bytes, counted from the start; 0 only acknowledges."""

    stream: int
    total: int


class Cancel(msgspec.Struct, frozen=True):
    """The router no longer wants the answer."""

    stream: int
    reason: str


class Invite(msgspec.Struct, frozen=True):
    """The router can be dialled: its frames may come, and be answered, over a channel.

    Attributes:
        stream: 0, which no stream has.
        addresses: `host:port`, to be tried in order.
        key: The router's public NKey.
        certificate: SHA-256 of the certificate that it shows, in hex; empty where it uses no TLS.
    """

    stream: int
    addresses: tuple[str, ...]
    key: str
    certificate: str = ""


class Loan(msgspec.Struct, frozen=True):
    """A word about an engine that a session lends, or a router borrows; *stream* is 0."""

    stream: int
    word: bytes


class Timings(msgspec.Struct, frozen=True, array_like=True):
    """Seconds since the Open arrived, measured at the session."""

    engine_connected_s: float = 0.0
    head_s: float = 0.0
    end_s: float = 0.0


class Head(msgspec.Struct, frozen=True):
    """The engine's status and headers, hop-by-hop headers removed.

    What one read of the engine held goes together: a short answer is one frame.

    Attributes:
        data: The first part of the answer, number 0, unless empty.
        end: That was all of it.
    """

    stream: int
    status: int
    headers: Headers
    data: bytes = b""
    end: Timings | None = None


class Data(msgspec.Struct, frozen=True):
    """A part of the answer; *seq* counts from 0, and a gap fails the stream.

    Empty data means that the session is alive; it bears the number of the part that comes next.
    """

    stream: int
    seq: int
    data: bytes


class End(msgspec.Struct, frozen=True):
    """The answer is complete."""

    stream: int
    seq: int
    timings: Timings = Timings()


class Fail(msgspec.Struct, frozen=True):
    """The answer will not come, or not wholly.

    Attributes:
        definite: The engine surely did not begin, so that trying elsewhere repeats nothing.
        retryable: Another session may do better.
    """

    stream: int
    kind: FailKind
    definite: bool
    retryable: bool
    message: str = ""


Frame: TypeAlias = Open | Body | Credit | Cancel | Invite | Head | Data | End | Fail | Loan

_PREFIX: Final = struct.Struct("!BQ")
_OPEN: Final = struct.Struct("!BQI")
_BODY: Final = struct.Struct("!BQI?")
_U64: Final = struct.Struct("!BQQ")
_U32: Final = struct.Struct("!BQI")
_HEAD: Final = struct.Struct("!BQHI")


class _Kind:
    OPEN, BODY, CREDIT, CANCEL, HEAD, DATA, END, FAIL, INVITE, LOAN = range(1, 11)


class _OpenMeta(msgspec.Struct, frozen=True, array_like=True):
    method: str
    path: str
    headers: Headers
    more: bool = False
    credit: int = WINDOW_BYTES
    deadline_s: float = 0.0
    trace: str = ""
    length: int = 0


class _HeadMeta(msgspec.Struct, frozen=True, array_like=True):
    headers: Headers
    end: Timings | None = None


class _EndPart(msgspec.Struct, frozen=True, array_like=True):
    timings: Timings = Timings()


class _InvitePart(msgspec.Struct, frozen=True, array_like=True):
    addresses: tuple[str, ...]
    key: str
    certificate: str = ""


class _FailPart(msgspec.Struct, frozen=True, array_like=True):
    kind: str
    definite: bool
    retryable: bool
    message: str = ""


_encode: Final = msgspec.msgpack.Encoder().encode
_open_meta: Final = msgspec.msgpack.Decoder(_OpenMeta).decode
_head_meta: Final = msgspec.msgpack.Decoder(_HeadMeta).decode
_end_part: Final = msgspec.msgpack.Decoder(_EndPart).decode
_invite_part: Final = msgspec.msgpack.Decoder(_InvitePart).decode
_fail_part: Final = msgspec.msgpack.Decoder(_FailPart).decode


def encode(frame: Frame) -> bytes:
    """Return the bytes of *frame*."""
    return _ENCODERS[type(frame)](frame)


def data(stream: int, seq: int, part: bytes) -> bytes:
    """Return the bytes of a `Data`, which need not be made for it."""
    return _U32.pack(_Kind.DATA, stream, seq) + part


def decode(payload: bytes) -> Frame:
    """Return the frame in *payload*.

    Raises:
        WireError: Shorter than its parts, an unknown kind, or structure that is not ours.
    """
    try:
        if payload[0] == _Kind.DATA:  # as nearly every frame
            _, stream, seq = _U32.unpack_from(payload)
            return Data(stream, seq, payload[_U32.size :])
        kind, stream = _PREFIX.unpack_from(payload)
        return _DECODERS[kind](stream, payload)
    except KeyError as error:
        raise WireError(f"unknown kind of frame {error}") from error
    except (struct.error, IndexError, msgspec.DecodeError, ValueError, RecursionError) as error:
        raise WireError(f"not a frame: {error}") from error


def stream_broken_by(payload: bytes) -> int:
    """Return the stream of which *payload* was to be a part, though it cannot be read.

    It is 0, which no stream has, for a kind that is not known: newer peers may send more kinds.
    """
    if len(payload) < _PREFIX.size or payload[0] not in _DECODERS:
        return 0
    return int(_PREFIX.unpack_from(payload)[1])


def _encode_open(frame: Open) -> bytes:
    # A tuple reads back as `_OpenMeta`, and costs less than making one.
    meta = _encode(
        (
            frame.method,
            frame.path,
            frame.headers,
            frame.more,
            frame.credit,
            frame.deadline_s,
            frame.trace,
            frame.length,
        )
    )
    return b"".join((_OPEN.pack(_Kind.OPEN, frame.stream, len(meta)), meta, frame.body))


def _decode_open(stream: int, payload: bytes) -> Open:
    _, _, length = _OPEN.unpack_from(payload)
    body_at = _OPEN.size + length
    if body_at > len(payload):
        raise WireError("an Open is shorter than its meta")
    meta = _open_meta(payload[_OPEN.size : body_at])
    return Open(
        stream,
        meta.method,
        meta.path,
        meta.headers,
        payload[body_at:],
        meta.more,
        meta.credit,
        meta.deadline_s,
        meta.trace,
        meta.length,
    )


def _encode_head(frame: Head) -> bytes:
    meta = _encode((frame.headers, frame.end))
    prefix = _HEAD.pack(_Kind.HEAD, frame.stream, frame.status, len(meta))
    return b"".join((prefix, meta, frame.data))


def _decode_head(stream: int, payload: bytes) -> Head:
    _, _, status, length = _HEAD.unpack_from(payload)
    data_at = _HEAD.size + length
    if length > HEAD_BYTES_MAX:
        raise WireError(f"a Head with {length} bytes of headers, more than {HEAD_BYTES_MAX}")
    if data_at > len(payload):
        raise WireError("a Head is shorter than its meta")
    meta = _head_meta(payload[_HEAD.size : data_at])
    return Head(stream, status, meta.headers, payload[data_at:], meta.end)


def _decode_body(stream: int, payload: bytes) -> Body:
    _, _, seq, more = _BODY.unpack_from(payload)
    return Body(stream, seq, payload[_BODY.size :], more)


def _decode_invite(stream: int, payload: bytes) -> Invite:
    part = _invite_part(payload[_PREFIX.size :])
    return Invite(stream, part.addresses, part.key, part.certificate)


def _decode_fail(stream: int, payload: bytes) -> Fail:
    part = _fail_part(payload[_PREFIX.size :])
    return Fail(stream, FailKind(part.kind), part.definite, part.retryable, part.message)


_ENCODERS: Final[dict[type, Callable[..., bytes]]] = {
    Open: _encode_open,
    Body: lambda f: _BODY.pack(_Kind.BODY, f.stream, f.seq, f.more) + f.body,
    Credit: lambda f: _U64.pack(_Kind.CREDIT, f.stream, f.total),
    Cancel: lambda f: _PREFIX.pack(_Kind.CANCEL, f.stream) + f.reason.encode(),
    Head: _encode_head,
    Data: lambda f: data(f.stream, f.seq, f.data),
    End: lambda f: _U32.pack(_Kind.END, f.stream, f.seq) + _encode(_EndPart(f.timings)),
    Fail: lambda f: (
        _PREFIX.pack(_Kind.FAIL, f.stream)
        + _encode(_FailPart(f.kind, f.definite, f.retryable, f.message))
    ),
    Invite: lambda f: (
        _PREFIX.pack(_Kind.INVITE, f.stream)
        + _encode(_InvitePart(f.addresses, f.key, f.certificate))
    ),
    Loan: lambda f: _PREFIX.pack(_Kind.LOAN, f.stream) + f.word,
}

_DECODERS: Final[dict[int, Callable[[int, bytes], Frame]]] = {
    _Kind.OPEN: _decode_open,
    _Kind.BODY: _decode_body,
    _Kind.CREDIT: lambda s, p: Credit(s, _U64.unpack_from(p)[2]),
    _Kind.CANCEL: lambda s, p: Cancel(s, p[_PREFIX.size :].decode()),
    _Kind.HEAD: _decode_head,
    _Kind.DATA: lambda s, p: Data(s, _U32.unpack_from(p)[2], p[_U32.size :]),
    _Kind.END: lambda s, p: End(s, _U32.unpack_from(p)[2], _end_part(p[_U32.size :]).timings),
    _Kind.FAIL: _decode_fail,
    _Kind.INVITE: _decode_invite,
    _Kind.LOAN: lambda s, p: Loan(s, p[_PREFIX.size :]),
}
