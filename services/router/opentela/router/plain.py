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

from opentela.router.paths import Paths
from opentela.router.reading import Reading

_HEAD: Final = re.compile(
    rb"POST (/[!-~]*) HTTP/1\.1\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*\r\n)+)\r\n"
)
_LENGTH_DIGITS_MAX: Final = 15
_LENGTH: Final = re.compile(rb"[0-9]{1,%d}" % _LENGTH_DIGITS_MAX)
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
    """A head that was read, cut around the length of its body.

    Attributes:
        length_at: Its place among the headers.
    """

    before: bytes
    after: bytes
    reading: Reading
    length_at: int


class Heads:
    """The plain heads of one connection."""

    __slots__ = ("_body_bytes_max", "_head_bytes_max", "_known", "_paths")

    def __init__(self, paths: Paths, *, head_bytes_max: int, body_bytes_max: int) -> None:
        self._paths = paths
        self._head_bytes_max = head_bytes_max
        self._body_bytes_max = body_bytes_max
        self._known: _Known | None = None

    def read(self, data: bytes) -> Found | None:
        """Return what `read_head` would."""
        known = self._known
        if known is not None and data.startswith(known.before):
            found = self._read_again(data, known)
            if found is not None:
                return found
        found = read_head(
            data,
            self._paths,
            head_bytes_max=self._head_bytes_max,
            body_bytes_max=self._body_bytes_max,
        )
        if found is not None:
            self._known = _known(data, found)
        return found

    def _read_again(self, data: bytes, known: _Known) -> Found | None:
        start = len(known.before)
        end = data.find(b"\r", start, start + _LENGTH_DIGITS_MAX + 1)
        digits = data[start:end]
        if end < 0 or not digits.isdigit() or not data.startswith(known.after, end):
            return None
        body_at, length = end + len(known.after), int(digits)
        if body_at > self._head_bytes_max or length > self._body_bytes_max:
            return None
        reading = known.reading.again(length)
        reading.headers[known.length_at] = (b"content-length", digits)
        return Found(reading, body_at)


def _known(data: bytes, found: Found) -> _Known | None:
    """Return how a head like this one is known again."""
    reading, body_at = found
    names = [name for name, _ in reading.headers]
    length_at = names.index(b"content-length")
    value = reading.headers[length_at][1]
    # The line of the length is the only one of this name.
    line_at = data[:body_at].lower().find(b"\r\ncontent-length:")
    value_at = data.find(value, line_at + len(b"\r\ncontent-length:"), body_at)
    return _Known(
        data[:value_at], data[value_at + len(value) : body_at], reading.again(0), length_at
    )


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
        elif name == b"host":
            hosts += 1
        elif name in _OF_CONNECTION or (name == b"connection" and value.lower() != b"keep-alive"):
            return None
        headers.append((name, value))
    headers.pop()  # what follows the last line end
    if not length or hosts != 1 or int(length) > body_bytes_max:
        return None
    reading = Reading()
    reading.method, reading.target, reading.path = b"POST", target, path
    reading.kind, reading.body_bytes_max = kind, body_bytes_max
    reading.headers, reading.has_head = headers, True
    reading.length = reading.missing = int(length)
    return Found(reading, found.end())
