"""A request reaches one session as it came, and its answer comes back as it was."""

import asyncio
import gc

import pytest
from tests.integration.router.conftest import Bench, MakeBench
from tests.integration.router.raw import get, post
from tests.unit.router.parts import record, session_of

from opentela.core.record import ModelOffer
from opentela.router.attempt import Attempts
from opentela.router.config import AttemptConfig, ListenConfig
from opentela.router.exchange import Exchange
from opentela.router.leg import Leg
from opentela.testing.fake_link import EVENTS, JSON, FakeStream

ANSWER = b'{"id":"1", "choices":[ ] }'
DELTA = (
    'data: {"choices":[{"index":0,"delta":{"content":"ä€🎉"},"finish_reason":null}]}\n\n'.encode()
)
STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"


def whole(stream: FakeStream) -> None:
    """Answer at once."""
    stream.answer(ANSWER)


def streamed(stream: FakeStream) -> None:
    """Answer with a short stream."""
    stream.head(200, EVENTS).data(DELTA).data(STOP).data(DONE).end()


async def test_a_body_passes_byte_for_byte(bench: Bench) -> None:
    """Whatever is in it that the router has no business with."""
    bench.link.script = whole
    body = '{ "n":4, "logprobs" : true,\n"stream_options":{"x":[1e400]},"ü":"\\u00e4", "model":"m"}'
    client = await bench.client()
    answer = await client.ask(
        post(body.encode(), "/v1/chat/completions?a=%20b", "X-Thing: 1", "Authorization: Bearer s")
    )
    stream = bench.link.streams[0]
    assert stream.body == body.encode()
    assert (stream.method, stream.path_and_query) == ("POST", "/v1/chat/completions?a=%20b")
    assert dict(stream.headers).keys() == {"x-thing", "x-request-id"}
    assert answer.body == ANSWER


async def test_a_whole_url_is_a_path(bench: Bench) -> None:
    """Clients of proxies send one, and the engine is not asked to be one."""
    bench.link.script = whole
    client = await bench.client()
    answer = await client.ask(post(b'{"model":"m"}', "http://router:8080/v1/completions?a=1"))
    assert answer.status == 200
    assert bench.link.streams[0].path_and_query == "/v1/completions?a=1"
    assert (await client.ask(post(b"{}", "*"))).error["code"] == "unknown_url"
    server = await (await bench.client()).ask(get("*", method="OPTIONS"))
    assert server.status < 500


async def test_an_answer_says_who_gave_it(bench: Bench) -> None:
    """Session, site, attempts, and the id under which it is logged."""
    bench.link.script = whole
    client = await bench.client()
    answer = await client.ask(post(b'{"model":"m"}', "/v1/completions", "X-Request-Id: mine-1"))
    assert answer.status == 200
    assert answer.headers["x-request-id"] == "mine-1"
    assert answer.headers["x-otela-session"] == session_of(0)
    assert answer.headers["x-otela-site"] == "alps"
    assert answer.headers["x-otela-attempts"] == "1"
    assert dict(bench.link.streams[0].headers)["x-request-id"] == "mine-1"
    other = await client.ask(post(b'{"model":"m"}', "/v1/completions", "X-Request-Id: a b"))
    assert other.headers["x-request-id"] not in {"", "a b", "mine-1"}


@pytest.mark.parametrize("cut", range(1, len(post(b'{"model":"m","x":"\xc3\xa4"}')), 3))
async def test_a_request_may_come_in_any_pieces(bench: Bench, cut: int) -> None:
    """TCP cuts where it likes."""
    bench.link.script = whole
    client = await bench.client()
    request = post(b'{"model":"m","x":"\xc3\xa4"}')
    client.send(request[:cut])
    await client.writer.drain()
    await asyncio.sleep(0)
    assert (await client.ask(request[cut:])).body == ANSWER


async def test_a_request_may_come_byte_by_byte_and_in_chunks(bench: Bench) -> None:
    """A body without a length has an end all the same."""
    bench.link.script = whole
    client = await bench.client()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b'6;ext=1\r\n{"mode\r\n7\r\nl":"m"}\r\n0\r\nX-Trailer: 1\r\n\r\n'
    for byte in head + body:
        client.send(bytes((byte,)))
        await client.writer.drain()
    assert (await client.answer()).body == ANSWER
    assert bench.link.streams[0].body == b'{"model":"m"}'


async def test_requests_of_one_connection_are_answered_in_order(bench: Bench) -> None:
    """Also when they come at once and the first takes longest."""
    client = await bench.client()
    client.send(post(b'{"model":"m","n":1}') + post(b'{"model":"m","n":2}') + post(b"{}"))
    (await bench.opened()).answer(b"one")
    (await bench.opened(2)).answer(b"two")
    assert (await client.answer()).body == b"one"
    assert (await client.answer()).body == b"two"
    assert (await client.answer()).error["param"] == "model"


async def test_many_requests_at_once_are_all_answered(bench: Bench) -> None:
    """More than are read ahead."""
    bench.link.script = whole
    client = await bench.client()
    client.send(post() * 100)
    for _ in range(100):
        assert (await client.answer()).status == 200


async def test_a_page_comes_between_answers(bench: Bench) -> None:
    """In its turn, and the connection stays."""
    bench.link.script = streamed
    client = await bench.client()
    client.send(post() + get("/v1/models") + post())
    assert (await client.answer()).body.endswith(DONE)
    listed = await client.answer()
    assert [one["id"] for one in listed.json["data"]] == ["m"]
    assert (await client.answer()).body.endswith(DONE)


async def test_a_stream_passes_byte_for_byte(bench: Bench) -> None:
    """From the first delta to `[DONE]`."""
    bench.link.script = streamed
    client = await bench.client()
    answer = await client.ask(post(b'{"model":"m","stream":true}'))
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.body == DELTA + STOP + DONE
    assert (await client.ask(post())).status == 200


@pytest.mark.parametrize("cut", range(1, len(DELTA)))
async def test_a_stream_may_be_cut_anywhere(bench: Bench, cut: int) -> None:
    """Within characters of two, three and four bytes too."""
    client = await bench.client()
    client.send(post(b'{"model":"m","stream":true}'))
    stream = (await bench.opened()).head(200, EVENTS).data(DELTA + DELTA[:cut])
    await client.head()
    assert await client.chunk() == DELTA
    stream.data(DELTA[cut:] + STOP + DONE).end()
    assert await client.chunk() == DELTA + STOP + DONE
    assert await client.chunk() == b""


async def test_deltas_go_out_as_they_come(bench: Bench) -> None:
    """Nothing waits for more; what comes in one turn leaves as one chunk."""
    client = await bench.client()
    client.send(post(b'{"model":"m","stream":true}'))
    stream = (await bench.opened()).head(200, EVENTS).data(DELTA)
    await client.head()
    assert await client.chunk() == DELTA
    stream.data(DELTA).data(STOP)
    assert await client.chunk() == DELTA + STOP
    stream.data(DONE).end()
    assert await client.chunk() == DONE
    assert await client.chunk() == b""


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (200, (("Content-Encoding", "gzip"),), b"\x1f\x8b\x08raw"),
        (400, (("Content-Type", "application/json"), ("Content-Encoding", "gzip")), b"\x1f\x8b"),
        (429, (*JSON, ("Retry-After", "7")), b'{"error":{"message":"slow"}}'),
        (200, (("Content-Type", "audio/mpeg"),), bytes(range(256)) * 1000),
        (404, JSON, b'{"detail":"Not Found"}'),
    ],
)
async def test_an_answer_keeps_its_status_headers_and_bytes(
    bench: Bench, status: int, headers: tuple[tuple[str, str], ...], body: bytes
) -> None:
    """Compressed ones with the header that says so."""
    bench.link.script = lambda stream: stream.answer(body, status=status, headers=headers)
    answer = await (await bench.client()).ask(post())
    assert (answer.status, answer.body) == (status, body)
    for name, value in headers:
        assert answer.headers[name.lower()] == value


async def test_an_engines_framing_is_not_the_clients(bench: Bench) -> None:
    """A stale length, both framings at once, hop-by-hop headers."""
    bad = (
        *JSON,
        ("Content-Length", "999"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "X-Hop, keep-alive"),
        ("X-Hop", "1"),
        ("Keep-Alive", "timeout=5"),
    )
    bench.link.script = lambda stream: stream.answer(ANSWER, headers=bad)
    client = await bench.client()
    for _ in range(2):
        answer = await client.ask(post())
        assert answer.body == ANSWER
        assert answer.headers["content-length"] == str(len(ANSWER))
        assert not answer.headers.keys() & {"x-hop", "keep-alive", "connection"}


async def test_a_large_answer_goes_through_as_it_comes(make_bench: MakeBench) -> None:
    """What is held is bounded, what passes is not."""
    bench = await make_bench(attempts=AttemptConfig(held_bytes_max=100_000))
    body = bytes(range(256)) * 4000
    bench.link.script = lambda stream: stream.answer(body)
    client = await bench.client()
    answer = await client.ask(post())
    assert answer.headers["transfer-encoding"] == "chunked"
    assert answer.body == body


async def test_an_http10_client_gets_what_it_understands(bench: Bench) -> None:
    """No chunks: the end of a stream is the end of the connection."""
    bench.link.script = streamed
    client = await bench.client()
    answer = await client.ask(post(version="1.0"))
    assert "transfer-encoding" not in answer.headers
    assert answer.headers["connection"] == "close"
    assert answer.body == DELTA + STOP + DONE


async def test_an_http10_client_may_keep_its_connection(bench: Bench) -> None:
    """When it asks for it, and the answer has a length."""
    bench.link.script = whole
    client = await bench.client()
    request = post(b'{"model":"m"}', "/v1/completions", "Connection: keep-alive", version="1.0")
    for _ in range(2):
        assert (await client.ask(request)).headers["connection"] == "keep-alive"
    assert (await client.ask(post(version="1.0"))).headers["connection"] == "close"
    assert await client.ended() == b""


async def test_a_client_that_closes_is_closed(bench: Bench) -> None:
    """After its answer."""
    bench.link.script = whole
    client = await bench.client()
    request = post(b'{"model":"m"}', "/v1/completions", "Connection: close")
    assert (await client.ask(request)).headers["connection"] == "close"
    assert await client.ended() == b""


async def test_a_client_that_waits_to_be_asked_is_asked(bench: Bench) -> None:
    """`Expect: 100-continue`, as curl sends it with large bodies."""
    bench.link.script = whole
    client = await bench.client()
    request = post(b'{"model":"m"}', "/v1/completions", "Expect: 100-continue")
    head, _, body = request.partition(b"\r\n\r\n")
    client.send(head + b"\r\n\r\n")
    assert await client.head() == (100, {})
    assert (await client.ask(body)).body == ANSWER


async def test_asking_waits_for_its_turn(bench: Bench) -> None:
    """A 100 in the middle of another answer would be part of it."""
    client = await bench.client()
    request = post(b'{"model":"m"}', "/v1/completions", "Expect: 100-continue")
    head, _, body = request.partition(b"\r\n\r\n")
    client.send(post() + head + b"\r\n\r\n")
    (await bench.opened()).answer(b"one")
    assert (await client.answer()).body == b"one"
    assert await client.head() == (100, {})
    bench.link.script = whole
    assert (await client.ask(body)).body == ANSWER


async def test_wishes_are_kept(bench: Bench) -> None:
    """A client may insist on a site."""
    bench.link.script = whole
    bench.front.directory.apply([record(9, site="jura")])
    client = await bench.client()
    for _ in range(3):
        answer = await client.ask(post(b'{"model":"m"}', "/v1/completions", "X-Otela-Site: jura"))
        assert answer.headers["x-otela-site"] == "jura"
    refused = await client.ask(post(b'{"model":"m"}', "/v1/completions", "X-Otela-Site: etna"))
    assert refused.status == 503
    assert refused.error["code"] == "no_matching_session"
    assert refused.error["message"].endswith("there is: alps (3), jura (1).")


async def test_an_adapter_is_routed_only_to_who_holds_it(bench: Bench) -> None:
    """The base model goes anywhere."""
    bench.link.script = whole
    offers = [ModelOffer(name="m"), ModelOffer(name="lora")]
    bench.front.directory.apply([record(7, models=offers)])
    client = await bench.client()
    for _ in range(3):
        answer = await client.ask(post(b'{"model":"lora"}'))
        assert answer.headers["x-otela-session"] == session_of(7)
    listed = (await client.ask(get("/v1/models"))).json["data"]
    assert {one["id"]: one["otela"]["sessions"] for one in listed} == {"lora": 1, "m": 4}


async def test_a_large_body_reaches_the_session(make_bench: MakeBench) -> None:
    """An image of 24 MiB, in however many reads."""
    bench = await make_bench(listen=ListenConfig(address="127.0.0.1:0"))
    bench.link.script = whole
    body = b'{"model":"m","image":"' + b"A" * (24 * 1024 * 1024) + b'"}'
    answer = await (await bench.client()).ask(post(body))
    assert answer.status == 200
    assert bench.link.streams[0].body == body


async def test_where_the_time_went_is_told_when_wanted(make_bench: MakeBench) -> None:
    """For who measures; nobody else is told how the mesh is built."""
    plain, timed = await make_bench(), await make_bench(server_timing=True)
    for bench in (plain, timed):
        bench.link.script = whole
    assert "x-otela-timing" not in (await (await plain.client()).ask(post())).headers
    told = (await (await timed.client()).ask(post())).headers["x-otela-timing"]
    names = [part.partition(";dur=")[0] for part in told.split(", ")]
    assert names == ["ingress", "lookup", "mesh", "session"]
    assert all(float(part.partition("=")[2]) >= 0 for part in told.split(", "))


def of_requests() -> list[object]:
    """Return what is alive of any request."""
    return [one for one in gc.get_objects() if isinstance(one, Exchange | Leg | Attempts)]


async def test_a_finished_request_leaves_no_garbage(bench: Bench) -> None:
    """Cycles would be found only by the collector, which stops everything to look for them."""
    client = await bench.client()
    bench.link.script = streamed
    await client.ask(post())
    bench.link.script = whole
    await client.ask(post())
    bench.link.streams.clear()
    gc.collect()
    before = len(of_requests())
    gc.disable()
    try:
        for script in (whole, streamed) * 3:
            bench.link.script = script
            await client.ask(post(b'{"model":"m"}'))
            await client.ask(post(b'{"model":"none"}'))
        bench.link.streams.clear()
        after = len(of_requests())
    finally:
        gc.enable()
    assert after == before


async def test_a_client_of_http_1_0_that_offers_another_protocol_stays_one(bench: Bench) -> None:
    """Chunks would be garbage to it, and what it names as its connection's is not the engine's."""
    bench.link.script = streamed
    client = await bench.client()
    offer = ("Connection: Upgrade, X-Mine", "Upgrade: h2c", "X-Mine: 1")
    answer = await client.ask(post(b'{"model":"m"}', "/v1/completions", *offer, version="1.0"))
    assert "transfer-encoding" not in answer.headers
    assert answer.body.endswith(DONE)
    assert "x-mine" not in dict(bench.link.streams[0].headers)
