"""One request while it is read: its parts, and the limits it may run into."""

from typing import Final

import httptools

from opentela.core.pieces import Text
from opentela.router import headers
from opentela.router.config import ListenConfig
from opentela.router.fault import Fault, FaultKind
from opentela.router.headers import Heading
from opentela.router.large_body import LARGE_FROM, LargeBody
from opentela.router.paths import EnginePath, Paths

PAGE_BODY_BYTES_MAX: Final = 64 * 1024
"""Nothing but engine paths takes bodies worth mentioning."""

HEAD_TOO_LARGE: Final = Fault(
    kind=FaultKind.HEAD_TOO_LARGE, message="The request line and headers are too large."
)
NOT_HTTP: Final = Fault(kind=FaultKind.BAD_REQUEST, message="The request is not HTTP/1.1.")
NO_HOST: Final = Fault(
    kind=FaultKind.BAD_REQUEST, message="The request must have one header Host, and only one."
)
CODED: Final = Fault(
    kind=FaultKind.BAD_REQUEST,
    status=501,
    message="The only Transfer-Encoding is chunked, and in HTTP/1.1 alone.",
)
TOO_SLOW: Final = Fault(
    kind=FaultKind.REQUEST_TIMEOUT, message="The request did not arrive in time."
)
NO_ROOM: Final = Fault(
    kind=FaultKind.BUSY, message="The router holds too many request bodies; try again shortly."
)
_NO_PATH: Final = Fault(kind=FaultKind.UNKNOWN_URL, message="The request names no path.")
_NO_TUNNEL: Final = Fault(kind=FaultKind.METHOD_NOT_ALLOWED, message="This is no proxy.")
_OF_UPGRADE: Final = frozenset({b"upgrade", b"http2-settings"})
_VERSIONS: Final = frozenset({"1.0", "1.1"})
"""The parser reads others, too, and takes a request without any for HTTP/0.9."""


class Alike:
    """What is worked out once for all requests of one head.

    Attributes:
        heading: What its headers say.
    """

    __slots__ = ("heading",)

    def __init__(self) -> None:
        self.heading: Heading | None = None


class Reading:
    """A request of which not every byte need be there yet.

    Attributes:
        missing: Bytes of the body that did not come yet; None when only the parser knows.
        read_at: When the last bytes came.
        began_at: When the first ones were read on; 0 while all came at once.
        large: The body, when it is large; what is read of it is read while it comes.
        alike: What the requests of one head have in common; None when nothing is known of it.
    """

    __slots__ = (
        "_body",
        "_parts",
        "alike",
        "began_at",
        "body_bytes_max",
        "expects",
        "has_head",
        "head_bytes",
        "headers",
        "is_http10",
        "keep_alive",
        "kind",
        "large",
        "length",
        "method",
        "missing",
        "path",
        "read_at",
        "size",
        "target",
    )

    def __init__(self) -> None:
        self.method = b""
        self.target = b""
        self.path = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.head_bytes = 0
        self.length = 0
        self.missing: int | None = None
        self.has_head = False
        self.expects = False
        self.is_http10 = False
        self.keep_alive = True
        self.kind: EnginePath | None = None
        self.body_bytes_max = PAGE_BODY_BYTES_MAX
        self._parts: list[bytes] = []
        self._body: Text | None = None
        self.size = 0
        self.read_at = 0.0
        self.began_at = 0.0
        self.large: LargeBody | None = None
        self.alike: Alike | None = None

    @property
    def body(self) -> Text:
        """The body, once it is whole; put together once."""
        if self._body is None:
            parts, self._parts = self._parts, []
            if self.large is not None:
                self._body = self.large.end()
            else:
                self._body = parts[0] if len(parts) == 1 else b"".join(parts)
        return self._body

    @body.setter
    def body(self, body: Text) -> None:
        self._body = body

    def add(self, part: bytes) -> None:
        """Keep a part of the body, which is counted in `size`."""
        if self.large is not None:
            self.large.feed(part)
            return
        self._parts.append(part)
        if self.size > LARGE_FROM:
            self.large = LargeBody(self.value_of(b"content-type"))
            self.large.feed(b"".join(self._parts))
            self._parts.clear()

    def again(self, length: int) -> "Reading":
        """Return a request with the same head, but for a body of *length* bytes."""
        made = Reading()
        made.method, made.target, made.path = self.method, self.target, self.path
        made.kind, made.body_bytes_max = self.kind, self.body_bytes_max
        made.headers, made.has_head = self.headers.copy(), True
        made.length = made.missing = length
        made.alike = self.alike = self.alike or Alike()
        return made

    @property
    def heading(self) -> Heading:
        """What the headers say: read once for all requests of one head."""
        alike = self.alike
        if alike is None:
            return headers.read(self.headers)
        if alike.heading is None:
            alike.heading = headers.read(self.headers)
        return alike.heading

    def add_header(self, name: bytes, value: bytes) -> None:
        """Take a header in, its name in lower case."""
        name = name.lower()
        self.headers.append((name, value))
        self.head_bytes += len(name) + len(value)
        if name == b"content-length":
            # The parser refuses what is no number.
            self.length = int(value)
        elif name == b"expect":
            self.expects = value.strip().lower() == b"100-continue"

    def end_head(
        self,
        parser: httptools.HttpRequestParser,
        config: ListenConfig,
        paths: Paths,
    ) -> Fault | None:
        """Read what the whole head says; return why the request must be refused, if it must."""
        self.has_head = True
        self.method = parser.get_method()
        version = parser.get_http_version()
        self.is_http10 = version == "1.0"
        self.keep_alive = parser.should_keep_alive() and not parser.should_upgrade()
        if version not in _VERSIONS:
            return NOT_HTTP
        if self.method == b"CONNECT":
            return _NO_TUNNEL
        if not self.target.startswith(b"/"):
            self.target = _origin_form(self.target)
            if not self.target.startswith(b"/") and self.method != b"OPTIONS":
                return _NO_PATH
        self.path = self.target.partition(b"?")[0]
        self.kind = paths.find(self.method, self.path)
        if self.kind is not None:
            self.body_bytes_max = config.body_bytes_max
        if self.head_bytes + len(self.target) > config.head_bytes_max:
            return HEAD_TOO_LARGE
        self.expects = self.expects and not self.is_http10
        if self.length > self.body_bytes_max:
            return self.too_large()
        return self._ill_framed()

    def _ill_framed(self) -> Fault | None:
        """Return why other readers could take this head for another: RFC 9112, 3.2 and 6.1."""
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or not (hosts or self.is_http10):
            return NO_HOST
        codings = [value for name, value in self.headers if name == b"transfer-encoding"]
        if not codings:
            return None
        return CODED if self.is_http10 or [one.lower() for one in codings] != [b"chunked"] else None

    def value_of(self, name: bytes) -> bytes:
        """Return the value of the first header *name* (lower case), or nothing."""
        for key, value in self.headers:
            if key == name:
                return value
        return b""

    def head_without_upgrade(self) -> bytes:
        """Return the head as it would be from a client that offers no other protocol."""
        version = b"1.0" if self.is_http10 else b"1.1"
        lines = [b"%b %b HTTP/%b" % (self.method, self.target, version)]
        for name, value in self.headers:
            if name == b"connection":
                kept = [one for one in value.split(b",") if one.strip().lower() not in _OF_UPGRADE]
                lines.append(b"connection: %b" % b",".join(kept))
            elif name not in _OF_UPGRADE:
                lines.append(b"%b: %b" % (name, value))
        return b"\r\n".join((*lines, b"", b""))

    def too_large(self) -> Fault:
        """Return the fault of a body beyond the limit."""
        return Fault(
            kind=FaultKind.BODY_TOO_LARGE,
            message=f"The body exceeds the limit of {self.body_bytes_max} bytes.",
        )


def _origin_form(target: bytes) -> bytes:
    """Return what clients of proxies send as a whole URL; what is none is no path of ours."""
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError:
        return target
    return (url.path or b"/") + (b"?" + url.query if url.query else b"")
