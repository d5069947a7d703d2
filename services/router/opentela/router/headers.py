"""Which headers cross the router, in either direction.

To the engine goes what concerns the request, and nothing that identifies or authenticates its
sender: providers are not the consumer's. To the client comes what concerns the answer; framing,
connection and cross-origin headers are this router's own.
Hop-by-hop headers: RFC 9110 section 7.6.1.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from opentela.router.constraints import HEADER_PREFIX
from opentela.wire.frames import Headers

_HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_NOT_OUTWARD: Final = frozenset(
    name.encode()
    for name in _HOP_BY_HOP
    | {
        # Made anew for the engine.
        "content-length",
        "expect",
        "host",
        # A compressed answer could not be watched; the client may have it uncompressed.
        "accept-encoding",
        # Secrets of the client, and who and where it is.
        "api-key",
        "authorization",
        "cookie",
        "forwarded",
        "from",
        "referer",
        "user-agent",
        "via",
        "x-api-key",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-port",
        "x-forwarded-proto",
        "x-real-ip",
        # Answered here.
        "origin",
        "x-request-id",
        "traceparent",
    }
)
_NOT_OUTWARD_PREFIXES: Final = (b"x-stainless-", b"sec-", b"access-control-", b"cf-")
_NOT_HOMEWARD: Final = _HOP_BY_HOP | {
    # Made anew for the client.
    "content-length",
    "x-request-id",
    # Said for all of this address, which is not the engine's: cookies, where else it is served,
    # what browsers must do with it, and where they report.
    "alt-svc",
    "clear-site-data",
    "nel",
    "public-key-pins",
    "report-to",
    "reporting-endpoints",
    "service-worker-allowed",
    "set-cookie",
    "set-cookie2",
    "strict-transport-security",
    # Would send the client, and what it asked, elsewhere; or ask it for its secrets.
    "location",
    "refresh",
    "www-authenticate",
}
_NOT_HOMEWARD_PREFIXES: Final = ("access-control-", "x-otela-")

_REQUEST_ID: Final = re.compile(rb"[\w.:/+=-]{1,128}", re.ASCII)
_TRACE: Final = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
# Visible characters, blanks and what Latin-1 has beyond ASCII: nothing that could end the line.
_VALUE: Final = re.compile("[\t -~\x80-\xff]*")
_NAMES_MAX: Final = 1024
"""Names whose meaning is remembered, each way; clients and engines use the same few dozen."""
_HEADS_MAX: Final = 64
"""Answers' headers whose lines are remembered: engines send the same ones but for the date, and
those of a session that sends 64 KiB come to 8 MB."""
_SESSIONS_MAX: Final = 1024
"""Sessions whose lines are remembered."""


class Heading(NamedTuple):
    """What the headers of a request say.

    Attributes:
        outward: For the engine, without a request id.
        asked: What is for this router alone: `x-otela-…`.
        request: The client's own request id when it is sane, else empty.
        trace: W3C traceparent, or empty.
        origin: The page that asks, or empty.
    """

    outward: Headers
    asked: tuple[tuple[bytes, bytes], ...]
    request: str
    trace: str
    origin: bytes


def read(headers: Iterable[tuple[bytes, bytes]]) -> Heading:
    """Return what *headers* say; their names are in lower case."""
    outward: list[tuple[str, str]] = []
    asked: list[tuple[bytes, bytes]] = []
    ours: dict[bytes, bytes] = {}
    for raw_name, value in headers:
        name = _outward_name(raw_name)
        if name:
            outward.append((name, value.decode("latin-1")))
        elif name is None:
            asked.append((raw_name, value))
        else:
            ours[raw_name] = value
    if b"connection" in ours:
        named = _named_in(ours[b"connection"].decode("latin-1"))
        outward = [pair for pair in outward if pair[0] not in named]
    request = ours.get(b"x-request-id")
    trace = ours.get(b"traceparent")
    return Heading(
        tuple(outward),
        tuple(asked),
        request.decode() if request and _REQUEST_ID.fullmatch(request) else "",
        trace.decode() if trace and _TRACE.fullmatch(trace) else "",
        ours.get(b"origin", b""),
    )


@lru_cache(_HEADS_MAX)
def homeward(headers: Headers) -> bytes:
    """Return the header lines that the client gets of an engine's *headers*.

    The session has taken hop-by-hop headers away already; sessions are not trusted with it.
    """
    lines = []
    for name, value in headers:
        start = _homeward_start(name)
        if start is None:
            return homeward(_without(headers, _named_in(value)))
        if start and ((value.isascii() and value.isprintable()) or _VALUE.fullmatch(value)):
            lines.append(b"%b%b\r\n" % (start, value.encode("latin-1")))
    return b"".join(lines)


@lru_cache(_SESSIONS_MAX)
def of_session(session: str, site: str, fingerprint: str, attempts: int) -> bytes:
    """Return the header lines that tell which session answered, and after how many attempts."""
    lines = f"x-otela-session: {session}\r\nx-otela-site: {site}\r\n"
    lines += f"x-otela-attempts: {attempts}\r\n"
    return (lines + (f"x-otela-fingerprint: {fingerprint}\r\n" if fingerprint else "")).encode()


@lru_cache(_NAMES_MAX)
def _outward_name(name: bytes) -> str | None:
    """Return the header's name for the engine, nothing when it is not for it; None is asked us."""
    if name.startswith(HEADER_PREFIX):
        return None
    if name in _NOT_OUTWARD or name.startswith(_NOT_OUTWARD_PREFIXES):
        return ""
    return name.decode("latin-1")


@lru_cache(_NAMES_MAX)
def _homeward_start(name: str) -> bytes | None:
    """Return how the client's line begins, nothing when it gets none; None names others."""
    lower = name.lower()
    if lower == "connection":
        return None
    is_ours = lower in _NOT_HOMEWARD or lower.startswith(_NOT_HOMEWARD_PREFIXES)
    return b"" if is_ours or not _NAME.fullmatch(name) else f"{name}: ".encode("latin-1")


def _without(headers: Headers, named: Sequence[str]) -> Headers:
    return tuple(
        pair
        for pair in headers
        if (lower := pair[0].lower()) != "connection" and lower not in named
    )


def _named_in(connection: str) -> Sequence[str]:
    return [name.strip().lower() for name in connection.split(",")]
