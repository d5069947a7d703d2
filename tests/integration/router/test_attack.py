"""What somebody sends who means harm costs nobody else anything, and is understood in one way."""

import asyncio
import re

import pytest
from structlog.testing import capture_logs
from tests.integration.router.conftest import Bench, MakeBench
from tests.integration.router.raw import get, post
from tests.integration.router.test_forwarding import ANSWER
from tests.property.test_ingress import Odd
from tests.unit.router.parts import record

from opentela.core.record import ModelOffer
from opentela.router.config import ListenConfig
from opentela.testing.fake_link import FakeStream

LOOPBACK = "127.0.0.1:0"
BODY = b'{"model":"m"}'
INNER = post(b'{"model":"m","smuggled":true}')


def whole(stream: FakeStream) -> None:
    """Answer at once."""
    stream.answer(ANSWER)


def framed(*lines: bytes, body: bytes = BODY, line: bytes = b"/v1/completions") -> bytes:
    """Return a request with these header lines."""
    return b"\r\n".join((b"POST %b HTTP/1.1" % line, b"Host: a", *lines, b"", body))


CHUNKED = b"Transfer-Encoding: chunked"
CHUNKS = b"d\r\n" + BODY + b"\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "raw",
    [
        framed(b"Content-Length: 13", CHUNKED, body=CHUNKS + INNER),
        framed(CHUNKED, b"Content-Length: 13", body=CHUNKS + INNER),
        framed(b"Transfer-Encoding: gzip, chunked, identity", body=CHUNKS + INNER),
        framed(b"Transfer-Encoding: chunked, gzip", body=CHUNKS + INNER),
        framed(b"Transfer-Encoding: xchunked", body=CHUNKS + INNER),
        framed(b"Transfer-Encoding : chunked", body=CHUNKS + INNER),
        framed(b"Transfer-Encoding:\x0bchunked", body=CHUNKS + INNER),
        framed(b"Content-Length: 13, 13", body=BODY + INNER),
        framed(b"Content-Length: 13", b"Content-Length: 13", body=BODY + INNER),
        framed(b"Content-Length: 13", b"Content-Length: 0", body=BODY + INNER),
        framed(b"Content-Length: +13", body=BODY + INNER),
        framed(b"Content-Length: 0x0d", body=BODY + INNER),
        framed(b"Content-Length: 1e1", body=BODY + INNER),
        framed(b"Content-Length: 13 13", body=BODY + INNER),
        framed(b"Content-Length:", body=BODY + INNER),
        framed(b"Content-Length : 13", body=BODY + INNER),
        framed(b"X: a\r\n Content-Length: 13", body=BODY + INNER),
        framed(b"X: a\nContent-Length: 13", body=BODY + INNER),
        framed(CHUNKED, body=b"d\n" + BODY + b"\r\n0\r\n\r\n" + INNER),
        framed(CHUNKED, body=b"+d\r\n" + BODY + b"\r\n0\r\n\r\n" + INNER),
        framed(CHUNKED, body=b"0xd\r\n" + BODY + b"\r\n0\r\n\r\n" + INNER),
        framed(CHUNKED, body=b"-1\r\n" + BODY + b"\r\n0\r\n\r\n" + INNER),
        framed(CHUNKED, body=b"f" * 17 + b"\r\n" + BODY + b"\r\n0\r\n\r\n" + INNER),
        framed(CHUNKED, body=b"d\r\n" + BODY + b"0\r\n\r\n" + INNER),
        framed(b"Content-Length: 13", line=b"/v1/completions\x00", body=BODY + INNER),
    ],
)
async def test_no_framing_hides_a_request_in_another(bench: Bench, raw: bytes) -> None:
    """What may end in two places is refused whole, or read as one request and nothing more."""
    bench.link.script = whole
    client = await bench.client()
    client.send(raw)
    client.writer.write_eof()
    ended = await client.ended()
    assert all(b"smuggled" not in stream.body for stream in bench.link.streams), ended
    assert b" 400 Bad Request\r\n" in ended or b" 501 Not Implemented\r\n" in ended
    assert b"connection: close" in ended


async def test_what_follows_the_last_request_is_not_executed(bench: Bench) -> None:
    """The client said that it closes."""
    bench.link.script = whole
    client = await bench.client()
    client.send(post(BODY, "/v1/completions", "Connection: close") + INNER)
    assert (await client.answer()).body == ANSWER
    assert await client.ended() == b""
    assert len(bench.link.streams) == 1


@pytest.mark.parametrize("junk", [b"junk", b"\x00", b"GET\r\n\r\n", b"}" * 100_000])
async def test_what_follows_a_body_is_not_part_of_it(bench: Bench, junk: bytes) -> None:
    """The request is answered, and then the connection ends."""
    bench.link.script = whole
    client = await bench.client()
    client.send(post() + junk)
    assert (await client.answer()).body == ANSWER
    client.writer.write_eof()
    rest = await client.ended()
    assert not rest or b" 400 " in rest or b" 431 " in rest
    assert bench.link.streams[0].body == BODY


async def test_blank_lines_between_requests_are_nothing(bench: Bench) -> None:
    """Some clients end a body with one."""
    bench.link.script = whole
    client = await bench.client()
    for _ in range(3):
        assert (await client.ask(b"\r\n" + post() + b"\r\n")).body == ANSWER


async def test_who_asks_and_never_reads_fills_no_memory(bench: Bench) -> None:
    """Answers wait for their reader, and so do the requests behind them."""
    models = [ModelOffer(name=f"{number:0250}") for number in range(50)]
    bench.front.directory.apply([record(5, models=models)])
    client = await bench.client()
    client.stop_reading()
    request = get("/v1/models")
    sent = asyncio.get_running_loop().create_task(_flood(client.writer, request, 5_000))
    (connection,) = bench.front.gate._connections
    await bench.until(lambda: connection._is_reading_paused)
    transport = connection._transport
    assert transport is not None
    for _ in range(100):
        await asyncio.sleep(0)
    assert transport.get_write_buffer_size() < 1 << 20
    assert len(connection._intake.waiting) * len(request) < 1 << 20
    client.go_on_reading()
    for _ in range(300):
        assert (await client.answer()).status == 200
    sent.cancel()
    client.abort()
    await bench.until(lambda: len(bench.front.gate) == 0)


async def _flood(writer: asyncio.StreamWriter, request: bytes, count: int) -> None:
    for _ in range(count // 100):
        writer.write(request * 100)
        await writer.drain()


async def test_a_body_that_trickles_in_is_not_waited_for_for_ever(make_bench: MakeBench) -> None:
    """Each byte comes in time, but all of them together do not."""
    listen = ListenConfig(address=LOOPBACK, body_s=60, receive_s=0.01)
    bench = await make_bench(listen=listen)
    client = await bench.client()
    client.send(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n{")
    trickling = asyncio.create_task(_trickle(client.writer))
    answer = await client.answer()
    trickling.cancel()
    assert (answer.status, answer.error["code"]) == (408, "request_timeout")


async def _trickle(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0)


async def test_a_bug_before_the_first_attempt_is_a_500_and_no_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection goes on, and nothing stays counted."""
    bench.link.script = whole
    client = await bench.client()
    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr("opentela.router.exchange.read_wanted", None)
        answer = await client.ask(post())
    assert (answer.status, answer.error["code"]) == (500, "internal_error")
    assert next(line["event"] for line in logs) == "exchange_crashed"
    assert (await client.ask(post())).body == ANSWER
    assert bench.front.desk.in_flight == 0


@pytest.mark.parametrize(
    "path",
    [
        b"/v1/models/a/b%C3%A4%201",
        b"/v1/models/a%2Fb%C3%A4%201",
        b"/v1/models/a%2fb%c3%a4%201?x=y",
        b"/v1/models/alias%C3%A9",
    ],
)
async def test_a_models_name_may_hold_anything(bench: Bench, path: bytes) -> None:
    """Slashes, blanks and what is not ASCII, raw or encoded."""
    offer = ModelOffer(name="a/bä 1", aliases=("aliasé",))
    bench.front.directory.apply([record(5, models=[offer])])
    client = await bench.client()
    answer = await client.ask(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % path)
    assert answer.status == 200
    assert answer.json["id"] in {"a/bä 1", "aliasé"}


async def test_an_error_that_names_what_was_asked_is_well_formed(bench: Bench) -> None:
    """Whatever stands there is text, and nothing but text."""
    client = await bench.client()
    for path in ("%22%5C%3Cscript%3E", "%0D%0AX:%201"):
        for under, code in (("/v1/models", "model_not_found"), ("", "unknown_url")):
            answer = await client.ask(get(f"{under}/{path}", "Connection: keep-alive"))
            assert (answer.status, answer.error["code"]) == (404, code)
            assert "x" not in answer.headers


async def test_a_target_of_raw_bytes_is_refused(bench: Bench) -> None:
    """It is no URL: who reads it could read another one."""
    client = await bench.client()
    answer = await client.ask("GET /v1/models/ä HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert (answer.status, answer.error["type"]) == (400, "invalid_request_error")


async def test_nobody_gets_what_another_asked_for(bench: Bench) -> None:
    """Whatever rubbish a hundred clients send at once, in pieces, around their requests."""
    bench.link.script = lambda stream: stream.answer(bytes(stream.body))

    async def one(seed: int) -> None:
        odd, client = Odd(seed), await bench.client()
        data, start = odd.connection(), 0
        for cut in (*odd.cuts(len(data)), len(data)):
            client.send(data[start:cut])
            start = cut
            await asyncio.sleep(0)
        client.writer.write_eof()
        try:
            came = await client.ended()
        except ConnectionResetError:
            return
        assert {int(mark) for mark in re.findall(rb'"mark":"(\d+)-', came)} <= {seed}, data

    with capture_logs() as logs:
        async with asyncio.TaskGroup() as group:
            for seed in range(100):
                group.create_task(one(seed))
    assert not [line for line in logs if line["log_level"] in {"error", "critical"}]
    assert len(bench.link.streams) > 20
    assert (await (await bench.client()).ask(post())).body == BODY
