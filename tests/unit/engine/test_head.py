"""What passes between a gateway and its engine, and how bodies are framed."""

import pytest

from opentela.core.errors import WireError
from opentela.engine import head as engine_head
from opentela.wire.frames import Headers, Open


def head(
    headers: Headers = (),
    *,
    body: bytes = b"",
    more: bool = False,
    length: int = 0,
    method: str = "POST",
    path: str = "/v1/x?a=b",
    trace: str = "",
    api_key: str = "",
) -> list[str]:
    request = Open(1, method, path, headers, body, more=more, length=length, trace=trace)
    made = engine_head.request_head(request, host="127.0.0.1:80", api_key=api_key)
    assert made.endswith(b"\r\n\r\n")
    return made.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")


def test_a_head_is_made_for_the_engine() -> None:
    """Its own host, the fields of the client, the length of the body; names in lower case."""
    assert head((("Content-Type", "application/json"), ("X-Ä", "é")), body=b"{}") == [
        "POST /v1/x?a=b HTTP/1.1",
        "content-length: 2",
        "host: 127.0.0.1:80",
        "content-type: application/json",
        "x-ä: é",
        "accept-encoding: identity",
    ]


def test_fields_of_one_connection_do_not_pass() -> None:
    """Those of the standard, those that `Connection` names, and framing."""
    fields = head(
        (
            ("Connection", "close, X-Mine"),
            ("connection", "x-other"),
            ("x-mine", "1"),
            ("X-Other", "1"),
            ("Keep-Alive", "5"),
            ("Proxy-Authorization", "secret"),
            ("TE", "trailers"),
            ("Trailer", "x"),
            ("Transfer-Encoding", "chunked"),
            ("Upgrade", "h2c"),
            ("Content-Length", "7"),
            ("Host", "consumer"),
            ("Expect", "100-continue"),
            ("traceparent", "theirs"),
            ("x-kept", "1"),
        )
    )
    assert fields == [
        "POST /v1/x?a=b HTTP/1.1",
        "content-length: 0",
        "host: 127.0.0.1:80",
        "x-kept: 1",
        "accept-encoding: identity",
    ]


def test_an_encoding_that_the_client_asks_for_is_asked_for() -> None:
    """Only that."""
    assert head((("Accept-Encoding", "gzip"),))[-1] == "accept-encoding: gzip"


def test_a_key_replaces_the_clients_own() -> None:
    """The engine believes nobody but us."""
    fields = head((("Authorization", "Bearer client"),), api_key="engine")
    assert fields[-1] == "authorization: Bearer engine"
    assert "authorization: Bearer client" not in fields
    assert "authorization: Bearer client" in head((("Authorization", "Bearer client"),))


def test_the_trace_goes_on() -> None:
    """As the router made it."""
    assert "traceparent: 00-1-2-01" in head(trace="00-1-2-01")


@pytest.mark.parametrize(
    ("method", "more", "length", "framing"),
    [
        ("POST", False, 0, "content-length: 2"),
        ("POST", True, 70000, "content-length: 70000"),
        ("POST", True, 0, "transfer-encoding: chunked"),
        ("GET", False, 0, "content-length: 2"),
    ],
)
def test_a_body_is_framed_by_its_length_where_that_is_known(
    method: str, length: int, framing: str, *, more: bool
) -> None:
    """In chunks otherwise."""
    assert head(method=method, more=more, length=length, body=b"{}")[1] == framing


def test_a_request_without_a_body_says_nothing_of_it() -> None:
    """Where its method has none."""
    assert head(method="GET")[1] == "host: 127.0.0.1:80"
    assert head(method="POST")[1] == "content-length: 0"


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("", "/", ()),
        ("GET /x HTTP/1.1\r\nx:", "/", ()),
        ("GET", "x", ()),
        ("GET", "/a b", ()),
        ("GET", "/a\r\nx: y", ()),
        ("GET", "/€", ()),
        ("GET", "/", (("a", "b\r\nx: y"),)),
        ("GET", "/", (("a\n", "b"),)),
        ("GET", "/", (("a", "b\rc"),)),
        ("GET", "/", (("a", "b\0"),)),
        ("GET", "/", (("a", "€"),)),
    ],
)
def test_what_http_cannot_carry_is_refused(method: str, path: str, headers: Headers) -> None:
    """A field can add neither a line nor a request."""
    with pytest.raises(WireError):
        head(headers, method=method, path=path)


def test_a_requests_id_is_a_field_like_others() -> None:
    """It passes, adds no line, and goes when `Connection` names it."""
    others = (("a", "1"),)
    assert "x-request-id: r1" in head((*others, ("x-request-id", "r1")))
    assert "x-request-id: r2" in head((*others, ("x-request-id", "r2")))
    with pytest.raises(WireError):
        head((*others, ("x-request-id", "r\r\nb: 2")))
    named = (("connection", "X-Request-Id"), ("x-request-id", "r1"))
    assert "x-request-id: r1" not in head(named)


def test_a_trace_can_add_no_line() -> None:
    """Nor anything else that the router sends."""
    with pytest.raises(WireError):
        head(trace="x\r\nhost: y")


def test_chunks() -> None:
    """The last one says that it is."""
    assert engine_head.chunk(b"abc", more=True) == b"3\r\nabc\r\n"
    assert engine_head.chunk(b"abc", more=False) == b"3\r\nabc\r\n0\r\n\r\n"
    assert engine_head.chunk(b"", more=False) == b"0\r\n\r\n"
    assert engine_head.chunk(b"", more=True) == b""


def test_an_answers_fields_pass_on_without_its_framing() -> None:
    """Both framings at once, hop-by-hop fields, and what `Connection` names."""
    fields = engine_head.answer_headers(
        [
            (b"Content-Type", b" text/plain "),
            (b"Content-Length", b"5"),
            (b"Transfer-Encoding", b"Chunked"),
            (b"Connection", b"X-Mine, keep-alive"),
            (b"X-Mine", b"1"),
            (b"Keep-Alive", b"timeout=5"),
            (b"Content-Encoding", b"gzip"),
            (b"Set-Cookie", b"a"),
            (b"Set-Cookie", b"\xe9"),
        ]
    )
    assert fields.headers == (
        ("content-type", "text/plain"),
        ("content-encoding", "gzip"),
        ("set-cookie", "a"),
        ("set-cookie", "é"),
    )
    assert fields.coding == "chunked"
    assert fields.has_length


def test_codings_of_several_fields_add_up() -> None:
    """So that a coding that we cannot undo is not overlooked."""
    fields = engine_head.answer_headers(
        [(b"Transfer-Encoding", b"gzip"), (b"Transfer-Encoding", b"chunked")]
    )
    assert fields.coding == "gzip, chunked"
    assert engine_head.answer_headers([]) == ((), None, False)
