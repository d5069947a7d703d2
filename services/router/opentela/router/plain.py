"""Requests as nearly all clients send them, read without a parser.

A head that came in one read, for an engine's path, whose body has a stated length and which asks
for nothing of the connection but to stay, is matched by one strict pattern: RFC 9112 sections 3
and 5 without what they let a recipient tolerate. Every other head is left to the parser, also one
that is to be refused, so that there is one place that says why. What reads less code is faster
when requests are seldom and the processor has forgotten it in between. A client mostly sends the
head of its last request again, but for the length of the body: then nothing is read but that.
"""

import re
from typing import Final, NamedTuple

from opentela.core.familiar import LENGTH_DIGITS_MAX, Familiar
from opentela.router.large_body import LARGE_FROM
from opentela.router.paths import Paths
from opentela.router.reading import Head, Reading

_HEAD: Final = re.compile(
    rb"POST (/[!-~]*) HTTP/1\.1\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*\r\n)+)\r\n"
)
_LENGTH: Final = re.compile(rb"[0-9]{1,%d}" % LENGTH_DIGITS_MAX)
_OF_CONNECTION: Final = frozenset(
    {b"expect", b"http2-settings", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)
"""Headers that want more of the connection than one answer."""
_BLANK: Final = b" \t"


class Found(NamedTuple):
    """A plain head.

    Attributes:
        body_at: Where the body begins.
    """

    reading: Reading
    body_at: int


class _Known(NamedTuple):
    """A head that was read, and how it is known again."""

    head: Head
    familiar: Familiar


class Heads:
    """The plain heads of one connection."""

    __slots__ = ("_body_bytes_max", "_head_bytes_max", "_known", "_paths", "_whole_bytes_max")

    def __init__(self, paths: Paths, *, head_bytes_max: int, body_bytes_max: int) -> None:
        self._paths = paths
        self._head_bytes_max = head_bytes_max
        self._body_bytes_max = body_bytes_max
        self._whole_bytes_max = min(LARGE_FROM, body_bytes_max)
        self._known: _Known | None = None

    def read(self, data: bytes) -> Found | None:
        """Return what `read_head` would."""
        known, digits = self._known, self._length_again(data)
        if known is not None and digits:
            body_at = known.familiar.bytes_but_length + len(digits)
            return Found(Reading(known.head, int(digits)), body_at)
        found = read_head(
            data,
            self._paths,
            head_bytes_max=self._head_bytes_max,
            body_bytes_max=self._body_bytes_max,
        )
        if found is not None:
            familiar = Familiar.of(data[: found.body_at])
            self._known = _Known(found.reading.head, familiar) if familiar else None
        return found

    def whole(self, data: bytes) -> Reading | None:
        """Return the request that *data* is, if its head is the last one again, and no more.

        A large body is for who reads it piece by piece.
        """
        known = self._known
        digits = known.familiar.length_in(data) if known is not None else b""
        if not digits or known is None:
            return None
        body_at, length = known.familiar.bytes_but_length + len(digits), int(digits)
        if len(data) - body_at != length or length > self._whole_bytes_max:
            return None
        if body_at > self._head_bytes_max:
            return None
        return Reading(known.head, length, data[body_at:])

    def _length_again(self, data: bytes) -> bytes:
        """Return the length of the body behind the last head again; nothing behind another one."""
        known = self._known
        digits = known.familiar.length_in(data) if known is not None else b""
        if not digits or known is None:
            return b""
        head_bytes = known.familiar.bytes_but_length + len(digits)
        if head_bytes > self._head_bytes_max or int(digits) > self._body_bytes_max:
            return b""
        return digits


def read_head(
    data: bytes, paths: Paths, *, head_bytes_max: int, body_bytes_max: int
) -> Found | None:
    """Return the request that *data* begins with and where its body begins, if it is plain."""
    found = _HEAD.match(data)
    if found is None or found.end() > head_bytes_max:
        return None
    target = found[1]
    path = target.partition(b"?")[0]
    kind = paths.get(path)
    if kind is None:
        return None
    headers: list[tuple[bytes, bytes]] = []
    length, hosts = b"", 0
    for line in found[2].split(b"\r\n"):
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip(_BLANK)
        if name == b"content-length":
            if length or not _LENGTH.fullmatch(value):
                return None
            length = value
            continue  # it is the request's and not the head's, which others may share
        if name == b"host":
            hosts += 1
        elif name in _OF_CONNECTION or (name == b"connection" and value.lower() != b"keep-alive"):
            return None
        headers.append((name, value))
    headers.pop()  # what follows the last line end
    if not length or hosts != 1 or int(length) > body_bytes_max:
        return None
    head = Head()
    head.method, head.target, head.path = b"POST", target, path
    head.kind, head.body_bytes_max, head.headers = kind, body_bytes_max, headers
    return Found(Reading(head, int(length)), found.end())
