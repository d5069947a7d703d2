"""Plain requests are read as the parser would read them; all others are left to it."""

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentela.router.config import ListenConfig
from opentela.router.paths import KNOWN, Paths
from opentela.router.plain import Heads, read_head
from opentela.router.reading import Head, Reading

PATHS = Paths((), ())
BODY = b'{"model":"m"}'
HEAD = b"POST /v1/chat/completions?a=b HTTP/1.1\r\nHost: here\r\n"
LENGTH = b"Content-Length: 13\r\n"


def read(data: bytes) -> tuple[Reading, int] | None:
    """Return what is read of *data*, with small limits."""
    return read_head(data, PATHS, head_bytes_max=500, body_bytes_max=1000)


class Parsed:
    """What the parser makes of the same bytes."""

    def __init__(self, data: bytes) -> None:
        self.reading = Reading()
        self.body = b""
        self.is_whole = False
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self.reading.head.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self.reading.add_header(name, value)

    def on_headers_complete(self) -> None:
        """Take the head."""
        assert self.reading.end_head(self._parser, ListenConfig(), PATHS) is None

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self.body += body

    def on_message_complete(self) -> None:
        """Note the end."""
        self.is_whole = True


def test_a_plain_head_is_read() -> None:
    """Names in lower case, values without the blanks around them."""
    found = read(
        HEAD + b"X-A: \t one two \t\r\nX-B:\r\nConnection: Keep-Alive\r\n" + LENGTH + b"\r\n{"
    )
    assert found is not None
    reading, body_at = found
    head = reading.head
    assert (head.method, head.target) == (b"POST", b"/v1/chat/completions?a=b")
    assert (head.path, head.kind) == (b"/v1/chat/completions", KNOWN[b"/v1/chat/completions"])
    assert head.headers == [
        (b"host", b"here"),
        (b"x-a", b"one two"),
        (b"x-b", b""),
        (b"connection", b"Keep-Alive"),
    ]
    assert (reading.length, reading.missing, head.body_bytes_max) == (13, 13, 1000)
    assert reading.has_head
    assert head.keep_alive
    assert HEAD.startswith(b"POST")
    assert (
        body_at == len(HEAD) + len(b"X-A: \t one two \t\r\nX-B:\r\nConnection: Keep-Alive\r\n") + 22
    )


@pytest.mark.parametrize(
    "data",
    [
        HEAD,  # cut
        HEAD + LENGTH,
        HEAD + b"\r\n",  # no length
        HEAD + LENGTH + LENGTH + b"\r\n",
        HEAD + b"Content-Length: +13\r\n\r\n",
        HEAD + b"Content-Length: 13, 13\r\n\r\n",
        HEAD + b"Content-Length: \xb2\r\n\r\n",
        HEAD + b"Content-Length: 1001\r\n\r\n",
        HEAD + LENGTH + b"Host: there\r\n\r\n",
        (HEAD + LENGTH + b"\r\n").replace(b"Host: here\r\n", b""),
        HEAD + LENGTH + b"Transfer-Encoding: chunked\r\n\r\n",
        HEAD + LENGTH + b"Expect: 100-continue\r\n\r\n",
        HEAD + LENGTH + b"Connection: close\r\n\r\n",
        HEAD + LENGTH + b"Connection: keep-alive, x-a\r\n\r\n",
        HEAD + LENGTH + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        HEAD + LENGTH + b"X-A: " + b"a" * 500 + b"\r\n\r\n",
        HEAD + LENGTH + b"X-A : 1\r\n\r\n",
        HEAD + LENGTH + b"X-A: 1\r\n 2\r\n\r\n",  # a folded line
        HEAD + LENGTH + b": 1\r\n\r\n",
        HEAD + LENGTH + b"X-A: \x00\r\n\r\n",
        HEAD + LENGTH + b"X-A: \x7f\r\n\r\n",
        (HEAD + LENGTH + b"\r\n").replace(b"\r\n", b"\n"),
        (HEAD + LENGTH + b"\r\n").replace(b"1.1", b"1.0"),
        (HEAD + LENGTH + b"\r\n").replace(b"POST", b"PUT"),
        (HEAD + LENGTH + b"\r\n").replace(b"/v1/", b"http://x/v1/"),
        (HEAD + LENGTH + b"\r\n").replace(b"/v1/", b"/v1/%63"),
        (HEAD + LENGTH + b"\r\n").replace(b"?a=b", b"?\xc3\xa9"),
        b"\r\n" + HEAD + LENGTH + b"\r\n",
    ],
)
def test_whatever_is_not_plain_is_left_to_the_parser(data: bytes) -> None:
    """Also what it will refuse, so that one place says why."""
    assert read(data) is None


def heads() -> Heads:
    """Return those of a connection with small limits."""
    return Heads(PATHS, head_bytes_max=500, body_bytes_max=1000)


def same(found: tuple[Reading, int] | None) -> object:
    """Return what can be compared of what was found."""
    if found is None:
        return None
    reading, body_at = found
    told = [getattr(reading, name) for name in Reading.__slots__ if name != "head"]
    return told, [getattr(reading.head, name) for name in Head.__slots__], body_at


def test_a_head_that_comes_again_with_another_length_is_known() -> None:
    """And its requests share it, but for the length."""
    connection, after = heads(), b"\r\nX-A: 13\r\n\r\n{"
    first, second, third = (
        connection.read(HEAD + b"Content-Length: " + length + after)
        for length in (b"13", b"998", b"0")
    )
    assert first is not None
    assert second is not None
    assert third is not None
    assert first.reading.head is second.reading.head is third.reading.head
    assert [found.reading.missing for found in (first, second, third)] == [13, 998, 0]
    assert first.reading.head.headers[1:] == [(b"x-a", b"13")]
    assert second.body_at == first.body_at + 1


def test_a_request_that_came_in_one_read_is_taken_at_once() -> None:
    """Once its head is known: with all of its body, and with nothing behind it."""
    connection, data = heads(), HEAD + LENGTH + b"\r\n" + BODY
    assert connection.whole(data) is None
    found = connection.read(data)
    assert found is not None
    whole = connection.whole(data)
    assert whole is not None
    assert (whole.head, whole.body, whole.size) == (found.reading.head, BODY, len(BODY))
    assert connection.whole(data[:-1]) is None
    assert connection.whole(data + b"P") is None


_AGAIN = st.lists(
    st.tuples(
        st.sampled_from([HEAD, HEAD + b"X-A: content-length: 13\r\n", HEAD[:-2]]),
        st.sampled_from(
            [b"Content-Length: ", b"content-length:", b"Content-length:  ", b"X:", b""]
        ),
        st.sampled_from([b"13", b"7", b"013", b"1000", b"1001", b"+1", b"", b"13 ", b"1" * 20]),
        st.sampled_from([b"\r\n\r\n", b"\r\nX-B: 13\r\n\r\n", b"\n\r\n", b"\r\n", b""]),
        st.sampled_from([b"", BODY, b"\r\ncontent-length:13"]),
    ).map(b"".join),
    max_size=6,
)


@given(_AGAIN)
def test_what_came_before_changes_nothing(sent: list[bytes]) -> None:
    """A head that is known is read as if it were new."""
    connection = heads()
    for data in sent:
        whole = connection.whole(data)
        found = connection.read(data)
        assert same(found) == same(read(data))
        if whole is not None:
            assert found is not None
            assert (whole.head, whole.body) == (found.reading.head, data[found.body_at :])
            assert (whole.size, whole.missing) == (found.reading.length, 0)


_NAMES = st.text("abCD-_1!~", min_size=1, max_size=6).map(str.encode)
_VALUES = st.binary(max_size=12)
_LINES = st.one_of(
    st.tuples(_NAMES, _VALUES),
    st.tuples(
        st.sampled_from([b"Host", b"Connection", b"content-length", b"Expect", b"Content-Type"]),
        st.sampled_from([b"13", b" 13 ", b"keep-alive", b"close", b"", b"0x0d", b"013"]),
    ),
)


@given(st.lists(_LINES, max_size=4), st.sampled_from([LENGTH, b"", b"Content-Length:0\r\n"]))
def test_what_is_plain_the_parser_reads_alike(
    lines: list[tuple[bytes, bytes]], length: bytes
) -> None:
    """Every header, the length, and where the body begins."""
    data = HEAD + b"".join(b"%b:%b\r\n" % line for line in lines) + length + b"\r\n" + BODY
    found = read(data)
    if found is None:
        return
    reading, body_at = found
    parsed = Parsed(data[: body_at + reading.length])
    assert parsed.is_whole
    assert [
        (name, value.strip(b" \t"))
        for name, value in parsed.reading.head.headers
        if name != b"content-length"
    ] == reading.head.headers
    assert parsed.reading.head.keep_alive == reading.head.keep_alive
    assert parsed.body == data[body_at:][: reading.length]
