"""Requests as nearly all clients send them, read without a parser.

A head that came in one read, for an engine's path, whose body has a stated length and which asks
for nothing of the connection but to stay, is matched by one strict pattern: RFC 9112 sections 3
and 5 without what they let a recipient tolerate. Every other head is left to the parser, also one
that is to be refused, so that there is one place that says why. What reads less code is faster
when requests are seldom and the processor has forgotten it in between.
"""

import re
from typing import Final

from opentela.router.paths import Paths
from opentela.router.reading import Reading

_HEAD: Final = re.compile(
    rb"POST (/[!-~]*) HTTP/1\.1\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*\r\n)+)\r\n"
)
_LENGTH: Final = re.compile(rb"[0-9]{1,15}")
_OF_CONNECTION: Final = frozenset(
    {b"expect", b"http2-settings", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)
"""Headers that want more of the connection than one answer."""
_BLANK: Final = b" \t"


def read_head(
    data: bytes, paths: Paths, *, head_bytes_max: int, body_bytes_max: int
) -> tuple[Reading, int] | None:
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
    length = b""
    for line in found[2].split(b"\r\n"):
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip(_BLANK)
        if name == b"content-length":
            if length or not _LENGTH.fullmatch(value):
                return None
            length = value
        elif name in _OF_CONNECTION or (name == b"connection" and value.lower() != b"keep-alive"):
            return None
        headers.append((name, value))
    headers.pop()  # what follows the last line end
    if not length or int(length) > body_bytes_max:
        return None
    reading = Reading()
    reading.method, reading.target, reading.path = b"POST", target, path
    reading.kind, reading.body_bytes_max = kind, body_bytes_max
    reading.headers, reading.has_head = headers, True
    reading.length = reading.missing = int(length)
    return reading, found.end()
