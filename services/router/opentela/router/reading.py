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


class Head:
    """The head of a request, but for what concerns the transfer of its body.

    Requests whose heads differ in nothing but the length of the body share one, and what is worked
    out of it.

    Attributes:
        headers: Names in lower case.
        kind: What is known of the path, if it is an engine's.
        heading: What the headers say, once `read`.
        words: Method, target and path as text, once `read`.
    """

    __slots__ = (
        "body_bytes_max",
        "headers",
        "heading",
        "is_http10",
        "keep_alive",
        "kind",
        "method",
        "path",
        "target",
        "words",
    )

    def __init__(self) -> None:
        self.method = b""
        self.target = b""
        self.path = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_http10 = False
        self.keep_alive = True
        self.kind: EnginePath | None = None
        self.body_bytes_max = PAGE_BODY_BYTES_MAX
        self.heading: Heading | None = None
        self.words = ("", "", "")

    def read(self) -> Heading:
        """Return what the headers say."""
        if self.heading is None:
            self.heading = headers.read(self.headers)
            method, target, path = self.method, self.target, self.path
            self.words = (
                method.decode("latin-1"),
                target.decode("latin-1"),
                path.decode("latin-1"),
            )
        return self.heading


class Reading:
    """A request of which not every byte need be there yet.

    Attributes:
        head: What its head says, as far as it has come.
        missing: Bytes of the body that did not come yet; None when only the parser knows.
        read_at: When the last bytes came.
        began_at: When the first ones were read on; 0 while all came at once.
        large: The body, when it is large; what is read of it is read while it comes.
    """

    __slots__ = (
        "_body",
        "_parts",
        "began_at",
        "expects",
        "has_head",
        "head",
        "head_bytes",
        "large",
        "length",
        "missing",
        "read_at",
        "size",
    )

    def __init__(
        self, head: Head | None = None, length: int = 0, body: bytes | None = None
    ) -> None:
        """Begin to read a request, or the body of one whose *head* is known, or take it all."""
        self.head = head or Head()
        self.has_head = head is not None
        self.head_bytes = 0
        self.length = length
        self.missing: int | None = None if head is None else length if body is None else 0
        self.expects = False
        self._parts: list[bytes] | None = None
        self._body: Text | None = body
        self.size = 0 if body is None else length
        self.read_at = 0.0
        self.began_at = 0.0
        self.large: LargeBody | None = None

    @property
    def body(self) -> Text:
        """The body, once it is whole; put together once."""
        if self._body is None:
            parts, self._parts = self._parts or [], None
            if self.large is not None:
                self._body = self.large.end()
            else:
                self._body = parts[0] if len(parts) == 1 else b"".join(parts)
        return self._body

    def add(self, part: bytes) -> None:
        """Keep a part of the body, which is counted in `size`."""
        if self.large is not None:
            self.large.feed(part)
            return
        if self._parts is None:
            self._parts = []
        self._parts.append(part)
        if self.size > LARGE_FROM:
            self.large = LargeBody(self.value_of(b"content-type"))
            self.large.feed(b"".join(self._parts))
            self._parts = None

    def add_header(self, name: bytes, value: bytes) -> None:
        """Take a header in, its name in lower case."""
        name = name.lower()
        self.head.headers.append((name, value))
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
        head = self.head
        self.has_head = True
        head.method = parser.get_method()
        version = parser.get_http_version()
        head.is_http10 = version == "1.0"
        head.keep_alive = parser.should_keep_alive() and not parser.should_upgrade()
        if version not in _VERSIONS:
            return NOT_HTTP
        if head.method == b"CONNECT":
            return _NO_TUNNEL
        if not head.target.startswith(b"/"):
            head.target = _origin_form(head.target)
            if not head.target.startswith(b"/") and head.method != b"OPTIONS":
                return _NO_PATH
        head.path = head.target.partition(b"?")[0]
        head.kind = paths.find(head.method, head.path)
        if head.kind is not None:
            head.body_bytes_max = config.body_bytes_max
        if self.head_bytes + len(head.target) > config.head_bytes_max:
            return HEAD_TOO_LARGE
        self.expects = self.expects and not head.is_http10
        if self.length > head.body_bytes_max:
            return self.too_large()
        return _ill_framed(head)

    def value_of(self, name: bytes) -> bytes:
        """Return the value of the first header *name* (lower case), or nothing."""
        for key, value in self.head.headers:
            if key == name:
                return value
        return b""

    def head_without_upgrade(self) -> bytes:
        """Return the head as it would be from a client that offers no other protocol."""
        head = self.head
        version = b"1.0" if head.is_http10 else b"1.1"
        lines = [b"%b %b HTTP/%b" % (head.method, head.target, version)]
        for name, value in head.headers:
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
            message=f"The body exceeds the limit of {self.head.body_bytes_max} bytes.",
        )


def _ill_framed(head: Head) -> Fault | None:
    """Return why other readers could take this head for another: RFC 9112, 3.2 and 6.1."""
    hosts = sum(name == b"host" for name, _ in head.headers)
    if hosts > 1 or not (hosts or head.is_http10):
        return NO_HOST
    codings = [value for name, value in head.headers if name == b"transfer-encoding"]
    if not codings:
        return None
    return CODED if head.is_http10 or [one.lower() for one in codings] != [b"chunked"] else None


def _origin_form(target: bytes) -> bytes:
    """Return what clients of proxies send as a whole URL; what is none is no path of ours."""
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError:
        return target
    return (url.path or b"/") + (b"?" + url.query if url.query else b"")
