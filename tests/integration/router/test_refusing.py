"""What cannot be taken is refused in words, early, and without harm to anybody else."""

import asyncio
import json

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.integration.router.conftest import Bench, MakeBench
from tests.integration.router.raw import Response, get, post
from tests.integration.router.test_forwarding import ANSWER

from opentela.router.config import AttemptConfig, ListenConfig
from opentela.telemetry import metrics

LOOPBACK = "127.0.0.1:0"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"messages":[]}', "model"),
        (b'{"model":7}', "model"),
        (b'{"model":"a","model":"b"}', "model"),
        (b'{"model":"m","x":' + b"[" * 200 + b"]" * 200 + b"}", None),
        (b'{"model":"m","x":' + b"[" * 200_000, None),
        (b'{"model":"m","x":NaN}', None),
        (b'\xef\xbb\xbf{"model":"m"}', None),
        (b"", None),
        (b"hello", None),
        (b"\x00\xff", None),
    ],
)
async def test_a_bad_body_is_a_400_that_names_the_field(
    bench: Bench, body: bytes, param: str | None
) -> None:
    """And the connection goes on."""
    bench.link.script = lambda stream: stream.answer(ANSWER)
    client = await bench.client()
    answer = await client.ask(post(body))
    assert answer.status == 400
    assert answer.error["param"] == param
    assert (await client.ask(post())).status == 200


async def test_a_body_above_the_limit_is_413_before_it_is_sent(make_bench: MakeBench) -> None:
    """Its length says enough; a client that asks first need not send it."""
    bench = await make_bench(listen=ListenConfig(address=LOOPBACK, body_bytes_max=1000))
    client = await bench.client()
    head = "POST /v1/completions HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n"
    answer = await client.ask(head.encode())
    assert answer.status == 413
    assert answer.error["code"] == "request_too_large"
    assert answer.headers["connection"] == "close"


async def test_a_client_that_sends_all_the_same_sees_the_413(make_bench: MakeBench) -> None:
    """What follows is read and dropped, so that no reset takes the answer away."""
    bench = await make_bench(listen=ListenConfig(address=LOOPBACK, body_bytes_max=1000))
    client = await bench.client()
    body = b'{"model":"' + b"m" * (8 * 1024 * 1024) + b'"}'
    client.send(post(body))
    answer = await client.answer()
    assert answer.status == 413
    await client.writer.drain()
    assert await client.ended() == b""


async def test_a_body_without_a_length_is_measured_as_it_comes(make_bench: MakeBench) -> None:
    """Chunks above the limit are 413 too, and none of them stays in memory."""
    bench = await make_bench(listen=ListenConfig(address=LOOPBACK, body_bytes_max=1000))
    client = await bench.client()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    client.send(head + b"1f4\r\n" + b"x" * 500 + b"\r\n" + b"1f5\r\n" + b"x" * 501 + b"\r\n")
    assert (await client.answer()).status == 413
    assert bench.front.gate.held_bytes == 0


async def test_a_body_at_the_limit_is_taken(make_bench: MakeBench) -> None:
    """The limit is a size that works."""
    body = b'{"model":"m"}'
    bench = await make_bench(listen=ListenConfig(address=LOOPBACK, body_bytes_max=len(body)))
    bench.link.script = lambda stream: stream.answer(ANSWER)
    assert (await (await bench.client()).ask(post(body))).status == 200


async def test_all_bodies_together_are_bounded(make_bench: MakeBench) -> None:
    """The one that does not fit any more is told to come again."""
    bench = await make_bench(listen=ListenConfig(address=LOOPBACK, bodies_bytes_max=30))
    first, second = await bench.client(), await bench.client()
    first.send(post(b'{"model":"m","x":1}'))
    await bench.until(lambda: len(bench.link.streams) == 1)
    answer = await second.ask(post(b'{"model":"m","x":2}'))
    assert answer.status == 429
    assert "retry-after" in answer.headers
    bench.link.streams[0].answer(ANSWER)
    assert (await first.answer()).status == 200
    bench.link.script = lambda stream: stream.answer(ANSWER)
    assert (await first.ask(post(b'{"model":"m","x":3}'))).status == 200


async def test_requests_under_way_are_bounded(make_bench: MakeBench) -> None:
    """One too many is a 429."""
    bench = await make_bench(listen=ListenConfig(address=LOOPBACK, requests_max=1))
    first, second = await bench.client(), await bench.client()
    first.send(post())
    await bench.until(lambda: len(bench.link.streams) == 1)
    assert (await second.ask(post())).error["code"] == "router_busy"
    bench.link.streams[0].answer(ANSWER)
    assert (await first.answer()).status == 200


async def test_connections_are_bounded(make_bench: MakeBench) -> None:
    """One too many is closed, and does not count."""
    bench = await make_bench(listen=ListenConfig(address=LOOPBACK, connections_max=1))
    first = await bench.client()
    await bench.until(lambda: len(bench.front.gate) == 1)
    second = await bench.client()
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await second.ask(post())
    first.abort()
    await bench.until(lambda: len(bench.front.gate) == 0)


@pytest.mark.parametrize(
    "head",
    [
        b"POST /" + b"x" * 70_000,
        b"POST / HTTP/1.1\r\nX: " + b"x" * 70_000,
        b"POST / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000,
        b"POST / HTTP/1.1\r\n" + b"X-Header-Number-12345: y\r\n" * 4000 + b"\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: "
        + b"x" * 600_000,
    ],
)
async def test_heads_and_trailers_are_bounded(bench: Bench, head: bytes) -> None:
    """Whichever part of them does not end."""
    client = await bench.client()
    client.send(head)
    answer = await client.answer()
    assert answer.status == 431
    assert answer.error["code"] == "headers_too_large"


@pytest.mark.parametrize(
    "raw",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /v1/completions HTTP/9.9\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /v1/completions HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nX\x00: 1\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_a_400_and_the_end(bench: Bench, raw: bytes) -> None:
    """Framing that two readers could understand differently is not HTTP either."""
    client = await bench.client()
    answer = await client.ask(raw)
    assert answer.status == 400
    assert answer.error["type"] == "invalid_request_error"
    assert await client.ended() == b""
    assert bench.link.streams == []


async def test_a_bad_request_after_a_good_one_waits_for_its_turn(bench: Bench) -> None:
    """The good one is answered first."""
    client = await bench.client()
    client.send(post() + b"nonsense\r\n\r\n")
    (await bench.opened()).answer(ANSWER)
    assert (await client.answer()).body == ANSWER
    assert (await client.answer()).status == 400
    assert await client.ended() == b""


@pytest.mark.parametrize("cut", [30, 150, 190])
async def test_an_offer_to_upgrade_is_ignored(bench: Bench, cut: int) -> None:
    """Java's client offers HTTP/2 with each first request; its body must not be lost."""
    bench.link.script = lambda stream: stream.answer(ANSWER)
    client = await bench.client()
    offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAA")
    request = post(b'{"model":"m"}', "/v1/completions", *offer)
    assert 150 < len(request) < 190
    client.send((request * 2)[:cut])
    await asyncio.sleep(0)
    client.send((request * 2)[cut:])
    for _ in range(2):
        assert (await client.answer()).body == ANSWER
    assert bench.link.streams[1].body == b'{"model":"m"}'
    assert {name for name, _ in bench.link.streams[0].headers} == {"x-request-id"}


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (b"POST /v1/completions HTTP/1.1\r\n", "Host"),
        (b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nHost: a\r\n", "Host"),
        (b"POST /v1/completions HTTP/1.0\r\nHost: a\r\nHost: b\r\n", "Host"),
        (b"POST /v1/completions HTTP/2.0\r\nHost: a\r\n", "HTTP/1.1"),
        (b"POST /v1/completions HTTP/0.9\r\nHost: a\r\n", "HTTP/1.1"),
        (b"POST /v1/completions\r\nHost: a\r\n", "HTTP/1.1"),
    ],
)
async def test_a_request_names_its_host_and_version(bench: Bench, head: bytes, what: str) -> None:
    """Once each, as proxies before us go by them."""
    client = await bench.client()
    answer = await client.ask(head + b'Content-Length: 13\r\n\r\n{"model":"m"}')
    assert answer.status == 400
    assert what in answer.error["message"]
    assert await client.ended() == b""
    assert not bench.link.streams


async def test_a_tunnel_is_not_built(bench: Bench) -> None:
    """This is no proxy."""
    client = await bench.client()
    answer = await client.ask(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n\x16\x03\x01")
    assert answer.error["code"] == "method_not_allowed"
    assert await client.ended() == b""


@pytest.mark.parametrize(
    ("version", "lines"),
    [
        ("1.1", ["Transfer-Encoding: gzip, chunked"]),
        ("1.1", ["Transfer-Encoding: gzip", "Transfer-Encoding: chunked"]),
        ("1.0", ["Transfer-Encoding: chunked"]),
    ],
)
async def test_a_body_is_coded_in_no_other_way_than_in_chunks(
    bench: Bench, version: str, lines: list[str]
) -> None:
    """An engine would take what is compressed on the way for what was asked."""
    client = await bench.client()
    head = "\r\n".join((f"POST /v1/completions HTTP/{version}", "Host: a", *lines, "", ""))
    answer = await client.ask(head.encode() + b'd\r\n{"model":"m"}\r\n0\r\n\r\n')
    assert (answer.status, "chunked" in answer.error["message"]) == (501, True)
    assert await client.ended() == b""
    assert not bench.link.streams


async def test_slow_and_idle_connections_are_closed(make_bench: MakeBench) -> None:
    """A head in time, a body in time, or a new request in time."""
    listen = ListenConfig(address=LOOPBACK, head_s=0.01, body_s=0.01, keep_alive_s=0.01)
    bench = await make_bench(listen=listen)
    idle, head, body = [await bench.client() for _ in range(3)]
    head.send(b"POST /v1/comp")
    body.send(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{")
    assert await idle.ended() == b""
    for client in (head, body):
        answer = await client.answer()
        assert answer.status == 408
        assert answer.error["code"] == "request_timeout"


async def test_a_request_under_way_is_not_idle(make_bench: MakeBench) -> None:
    """However long it takes."""
    bench = await make_bench(listen=ListenConfig(address=LOOPBACK, keep_alive_s=0.01))
    client, idle = await bench.client(), await bench.client()
    client.send(post())
    await bench.until(lambda: len(bench.link.streams) == 1)
    assert await idle.ended() == b""
    bench.link.streams[0].answer(ANSWER)
    assert (await client.answer()).status == 200


async def test_a_client_that_does_not_read_its_answer_is_cut(make_bench: MakeBench) -> None:
    """The engine is long done with it: nothing else ends what the answer takes of our memory."""
    part, more_than_kernels_take = 64 * 1024, 32 * 1024 * 1024
    bench = await make_bench(
        listen=ListenConfig(address=LOOPBACK, keep_alive_s=0.01),
        attempts=AttemptConfig(held_bytes_max=2 * more_than_kernels_take),
    )
    client = await bench.client()
    client.stop_reading()
    client.send(post())
    stream = (await bench.opened()).head()
    for _ in range(more_than_kernels_take // part):
        stream.data(b"x" * part)
    stream.end()
    await bench.until(lambda: len(bench.front.gate) == 0)


async def test_a_client_that_does_not_stop_sending_is_cut(make_bench: MakeBench) -> None:
    """It has been given time to read its answer."""
    listen = ListenConfig(address=LOOPBACK, body_bytes_max=10, linger_s=0.01)
    bench = await make_bench(listen=listen)
    client = await bench.client()
    client.send(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99\r\n\r\n")
    assert (await client.answer()).status == 413
    await bench.until(lambda: len(bench.front.gate) == 0)


async def test_a_refusal_can_be_read_by_a_page(make_bench: MakeBench) -> None:
    """Errors bear the cross-origin headers too."""
    bench = await make_bench(listen=ListenConfig(address=LOOPBACK, body_bytes_max=10))
    client = await bench.client()
    too_large = await client.ask(post(b"x" * 11, "/v1/completions", "Origin: https://app.example"))
    assert too_large.status == 413
    assert too_large.headers["access-control-allow-origin"] == "*"
    client = await bench.client()
    bad = await client.ask(post(b"{}", "/v1/completions", "Origin: https://app.example"))
    assert bad.status == 400
    assert bad.headers["access-control-allow-origin"] == "*"


async def test_only_configured_origins_may_read(make_bench: MakeBench) -> None:
    """Which of them was allowed varies, and caches are told."""
    listen = ListenConfig(address=LOOPBACK, cors_origins=("https://app.example",))
    bench = await make_bench(listen=listen)
    client = await bench.client()
    allowed = await client.ask(post(b"{}", "/v1/completions", "Origin: https://app.example"))
    assert allowed.headers["access-control-allow-origin"] == "https://app.example"
    assert allowed.headers["vary"] == "origin"
    other = await client.ask(post(b"{}", "/v1/completions", "Origin: https://evil.example"))
    assert "access-control-allow-origin" not in other.headers


async def test_random_model_names_leave_no_trace_in_metrics(bench: Bench) -> None:
    """Ten thousand of them are 404s and one label."""
    client = await bench.client()
    before = metrics.render().count(b"\n")
    client.send(b"".join(post(b'{"model":"random-%d"}' % number) for number in range(10_000)))
    with capture_logs():
        for _ in range(10_000):
            answer = await client.answer()
            assert (answer.status, answer.error["code"]) == (404, "model_not_found")
    after = metrics.render()
    assert b"random-" not in after
    assert after.count(b"\n") - before < 60


PIECES = st.sampled_from(
    [
        *(
            b"POST ",
            b"GET ",
            b"OPTIONS ",
            b"CONNECT ",
            b"/v1/completions",
            b"/v1/models",
            b"*",
            b" ",
        ),
        *(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", b" HTTP/2.0\r\n", b"\r\n", b"\n", b"\r", b"\r\n\r\n"),
        *(b"Content-Length: 13\r\n", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"),
        *(b"Expect: 100-continue\r\n", b"Connection: close\r\n", b"Connection: upgrade\r\n"),
        *(b"Upgrade: websocket\r\n", b"Host: a\r\n", b": b\r\n", b"X: \xff\r\n", b"\x00", b"\xff"),
        *(b'{"model":"m"}', b'{"model":', b"d\r\n", b"0\r\n\r\n", b"5;a=b\r\n", b"{}", b"[" * 300),
    ]
)
FORMS = st.lists(PIECES | st.binary(max_size=20), min_size=1, max_size=14).map(b"".join)


async def test_no_malformed_input_crashes_or_gets_a_malformed_answer(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """A thousand of them, and the router serves the next request."""
    bench.link.script = lambda stream: stream.answer(ANSWER)
    with capture_logs() as logs:
        await _run_attack(bench)
    assert not [line for line in logs if line["log_level"] in {"error", "critical"}]
    assert not caplog.records
    assert (await (await bench.client()).ask(post())).status == 200


async def _run_attack(bench: Bench) -> None:
    """Hypothesis calls synchronous functions: each example is run by a loop turn of this one."""
    examples: list[tuple[bytes, int]] = []

    @settings(max_examples=1000, deadline=None, derandomize=True, database=None)
    @given(raw=FORMS, cut=st.integers(0, 60))
    def collect(raw: bytes, cut: int) -> None:
        examples.append((raw, cut))

    collect()
    assert len(examples) >= 900
    for raw, cut in examples:
        client = await bench.client()
        client.send(raw[:cut])
        await asyncio.sleep(0)
        client.send(raw[cut:])
        client.writer.write_eof()
        try:
            for response in responses(await client.ended()):
                assert response.status < 500, raw
        except ConnectionError:
            pass  # it was the client that left
        await client.close()


def responses(data: bytes) -> list[Response]:
    """Return the answers in *data*, which must be nothing but whole answers."""
    found: list[Response] = []

    class Answer:
        def on_message_begin(self) -> None:
            self.headers: dict[str, str] = {}
            self.body = b""

        def on_header(self, name: bytes, value: bytes) -> None:
            self.headers[name.decode().lower()] = value.decode()

        def on_body(self, body: bytes) -> None:
            self.body += body

        def on_message_complete(self) -> None:
            found.append(Response(parser.get_status_code(), self.headers, self.body))

    parser = httptools.HttpResponseParser(Answer())
    parser.feed_data(data)
    for response in found:
        if response.status >= 400 and response.headers.get("content-type") == "application/json":
            assert "error" in json.loads(response.body)
    return found


async def test_what_is_no_engine_path_is_unknown(bench: Bench) -> None:
    """An engine's administration among them."""
    for path in ("/v1/load_lora_adapter", "/sleep", "/nothing", "/v1/chat/completions/"):
        answer = await (await bench.client()).ask(post(b'{"model":"m"}', path))
        assert (answer.status, answer.error["code"]) == (404, "unknown_url")
    wrong = await (await bench.client()).ask(get("/v1/models", method="DELETE"))
    assert (wrong.status, wrong.error["code"]) == (405, "method_not_allowed")
    assert bench.link.streams == []
