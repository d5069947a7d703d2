"""Headers cross the router when they concern the other side, and not otherwise."""

import pytest

from opentela.router import headers

OPENAI_SDK = [
    (b"host", b"router:8080"),
    (b"accept-encoding", b"gzip, deflate"),
    (b"connection", b"keep-alive"),
    (b"accept", b"application/json"),
    (b"content-type", b"application/json"),
    (b"user-agent", b"OpenAI/Python 3.0"),
    (b"x-stainless-lang", b"python"),
    (b"authorization", b"Bearer sk-secret"),
    (b"content-length", b"12"),
]


def test_an_engine_sees_neither_who_asks_nor_their_key() -> None:
    """Providers are not the consumer's: a key sent to an engine is a key lost."""
    outward = headers.read(OPENAI_SDK).outward
    assert outward == (("accept", "application/json"), ("content-type", "application/json"))


@pytest.mark.parametrize(
    "name",
    [
        *(b"Cookie", b"X-API-Key", b"Api-Key", b"X-Forwarded-For", b"X-Real-IP", b"Forwarded"),
        *(b"origin", b"Referer", b"Sec-Fetch-Mode", b"Proxy-Authorization", b"TE", b"Upgrade"),
        *(b"Transfer-Encoding", b"Expect", b"X-Otela-Site", b"Access-Control-Request-Method"),
    ],
)
def test_what_is_not_the_engines_stays_here(name: bytes) -> None:
    """Once and always."""
    for _ in range(2):
        assert headers.read([(name.lower(), b"x")]).outward == ()


def test_what_concerns_the_request_goes_through() -> None:
    """Also what this router has never heard of."""
    given = [(b"x-data-parallel-rank", b"3"), (b"tracestate", b"a=b"), (b"x-name", b"\xe9")]
    assert headers.read(given).outward == (
        ("x-data-parallel-rank", "3"),
        ("tracestate", "a=b"),
        ("x-name", "é"),
    )


def test_what_the_connection_header_names_stays_here() -> None:
    """It is meant for the next hop alone."""
    given = [(b"connection", b"close, X-Hop"), (b"x-hop", b"1"), (b"x-other", b"2")]
    assert headers.read(given).outward == (("x-other", "2"),)


@pytest.mark.parametrize("sane", [b"req_1", b"a" * 128, b"4bf9:/+=-."])
def test_a_sane_request_id_is_kept(sane: bytes) -> None:
    """The client finds its request in our logs."""
    assert headers.read([(b"x-request-id", sane)]).request == sane.decode()


@pytest.mark.parametrize("odd", [b"", b"a b", b"a" * 129, b"a\xff", b'"'])
def test_an_odd_request_id_is_not(odd: bytes) -> None:
    """It goes into headers and logs."""
    assert headers.read([(b"x-request-id", odd)]).request == ""


def test_trace_context_is_read_when_well_formed() -> None:
    """It travels in the frame, not among the headers."""
    trace = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    heading = headers.read([(b"traceparent", trace)])
    assert heading.trace == trace.decode()
    assert heading.outward == ()
    assert headers.read([(b"traceparent", b"00-zz")]).trace == ""


def test_what_is_for_the_router_alone_is_set_apart() -> None:
    """The engine gets none of it."""
    asked = ((b"x-otela-site", b"alps"), (b"x-otela-whatever", b"1"))
    heading = headers.read([asked[0], (b"accept", b"*/*"), asked[1]])
    assert heading.asked == asked
    assert heading.outward == (("accept", "*/*"),)
    assert headers.read([(b"accept", b"*/*")]).asked == ()


def test_the_asking_page_is_known() -> None:
    """For the cross-origin answer."""
    assert headers.read([(b"origin", b"https://app.example")]).origin == b"https://app.example"


def test_the_client_sees_what_concerns_the_answer() -> None:
    """As the engine spelled it."""
    given = (("Content-Type", "text/plain"), ("Retry-After", "7"), ("Content-Encoding", "gzip"))
    assert headers.homeward(given) == (
        b"Content-Type: text/plain\r\nRetry-After: 7\r\nContent-Encoding: gzip\r\n"
    )


@pytest.mark.parametrize(
    "name",
    [
        *("Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade", "Trailer"),
        *("Access-Control-Allow-Origin", "X-Otela-Session", "Set-Cookie", "X-Request-Id"),
    ],
)
def test_framing_and_what_is_ours_is_not_taken_from_an_engine(name: str) -> None:
    """A stale length would break the client; a forged origin would open it."""
    assert headers.homeward(((name, "5"), (name.lower(), "5"))) == b""


def test_what_an_engines_connection_header_names_is_dropped() -> None:
    """The gateway has done it already; it is not trusted with it."""
    given = (("Connection", "X-Hop, close"), ("x-hop", "1"), ("x-kept", "2"))
    assert headers.homeward(given) == b"x-kept: 2\r\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x", "a\r\nset-cookie: b"),
        ("x", "a\nb"),
        ("x", "a\x00"),
        ("x", "€"),
        ("x y", "a"),
        ("x:", "a"),
        ("x\r\n", "a"),
        ("", "a"),
        ("é", "a"),
    ],
)
def test_no_engine_can_write_lines_of_its_own(name: str, value: str) -> None:
    """A header that is not one is left out."""
    assert headers.homeward(((name, value), ("y", "1"))) == b"y: 1\r\n"


def test_latin1_is_what_http_has_beyond_ascii() -> None:
    """It goes through as it came."""
    assert headers.homeward((("x", "\té"),)) == b"x: \t\xe9\r\n"


@pytest.mark.parametrize(
    "name",
    [
        *("Alt-Svc", "Strict-Transport-Security", "Clear-Site-Data", "Report-To", "NEL"),
        *("Location", "Refresh", "WWW-Authenticate", "Service-Worker-Allowed"),
    ],
)
def test_no_engine_speaks_for_the_routers_address(name: str) -> None:
    """One provider could take every later request of a browser, or send this one elsewhere."""
    assert headers.homeward(((name, "x"), ("y", "1"))) == b"y: 1\r\n"


def test_an_answer_tells_which_session_it_is_from() -> None:
    """And of which weights, if that is known."""
    assert headers.of_session("s", "alps", "", 2) == (
        b"x-otela-session: s\r\nx-otela-site: alps\r\nx-otela-attempts: 2\r\n"
    )
    assert headers.of_session("s", "alps", "abc123", 1).endswith(b"x-otela-fingerprint: abc123\r\n")
