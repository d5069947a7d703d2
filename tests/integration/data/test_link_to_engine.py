"""From the router's link over a hub and a leaf to an engine and back."""

import asyncio
import contextlib
import hashlib

import pytest
from tests.integration.data.builder import Builder
from tests.integration.data.carriers import WAYS
from tests.integration.data.fabric import PATH, Fabric, Recorder
from tests.integration.data.raw_engine import RawEngine, RawRequest

from opentela.core.ids import SessionId
from opentela.mesh.nats_wire import Message
from opentela.stream.callee import CalleeSettings
from opentela.supervisor.gateway import GatewaySettings
from opentela.testing.mesh import TestMesh, until
from opentela.wire import frames, subjects
from opentela.wire.frames import WINDOW_BYTES, Data, FailKind, Head, Timings

pytestmark = pytest.mark.nats

MIB = 1 << 20
over_every_carrier = pytest.mark.parametrize("build", WAYS, indirect=True)
over_each_kind = pytest.mark.parametrize(
    "build", ["mesh", "home", "direct", "direct, lent"], indirect=True
)
"""Where TLS makes no difference."""
SSE = (
    'data: {"a":"é"}\r\n\r\n: comment\n\ndata: one\ndata: two € 🦊\n\nevent: x\ndata: [DONE]\n\n'
).encode()


async def echo(request: RawRequest) -> None:
    request.answer(request.body, fields=f"x-path: {request.path}\r\n")


async def digest(request: RawRequest) -> None:
    request.answer(hashlib.sha256(request.body).hexdigest().encode())


async def hang(request: RawRequest) -> None:
    await request.gone()


@over_every_carrier
async def test_a_request_is_answered(build: Builder) -> None:
    """Method, path, fields and body go in; status, fields and body come out."""
    fabric, engine = await build(echo)
    answer = await fabric.ask(b'{"a":1}', trace="00-1-2-01").wait()
    assert answer.told[-1:] == ["answer"]
    assert answer.told[:-1] in ([], ["ack"])  # the answer is one, unless it took its time
    assert (answer.status, answer.body) == (200, b'{"a":1}')
    assert ("x-path", "/v1/completions") in answer.headers
    request = engine.requests[0]
    assert request.method == "POST"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["traceparent"] == "00-1-2-01"
    assert fabric.link.in_flight == fabric.gateway.in_flight == 0


async def test_a_router_at_one_site_reaches_a_session_at_another() -> None:
    """From leaf to hub to leaf; and behind a websocket as well."""
    async with contextlib.AsyncExitStack() as stack:
        mesh = await stack.enter_async_context(TestMesh(leaves=("a", "b"), websocket=("a",)))
        engine = await stack.enter_async_context(RawEngine(echo))
        fabric = await Fabric.open(mesh, engine.address, stack, router_at="b")
        body = bytes(range(256)) * 4096
        assert (await fabric.ask(body).wait()).body == body


async def test_requests_share_a_connection_to_the_engine(build: Builder) -> None:
    """One after another over one, at once over several."""
    fabric, engine = await build(echo)
    for index in range(5):
        assert (await fabric.ask(b"%d" % index).wait()).body == b"%d" % index
    assert len(engine.connections) == 1
    asked = [fabric.ask(b"%d" % index) for index in range(20)]
    assert [(await one.wait()).body for one in asked] == [b"%d" % index for index in range(20)]
    assert len(engine.connections) <= 20


@over_every_carrier
async def test_a_stream_arrives_as_it_was_cut(build: Builder) -> None:
    """Every byte once, wherever the engine's writes are cut."""

    async def cut(request: RawRequest) -> None:
        at = int(request.body)
        request.stream()
        request.chunk(SSE[:at])
        await request.drain()
        request.chunk(SSE[at:])
        request.chunk(b"")

    fabric, _ = await build(cut)
    for at in range(1, len(SSE)):
        answer = await fabric.ask(b"%d" % at).wait()
        assert answer.body == SSE
        assert answer.told[-1] in {"end", "answer"}


@over_each_kind
@pytest.mark.parametrize("size", [0, 65536, 65537, 50 * MIB])
async def test_a_body_of_any_size_arrives_whole(build: Builder, size: int) -> None:
    """In one frame or in hundreds, framed by its length either way."""
    fabric, engine = await build(digest)
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    answer = await fabric.ask(body).wait()
    assert answer.body.decode() == hashlib.sha256(body).hexdigest()
    assert engine.requests[0].headers["content-length"] == str(size)


@over_every_carrier
async def test_an_answer_of_any_size_arrives_whole(build: Builder) -> None:
    """In parts, within credit."""
    body = bytes(range(251)) * (20 * MIB // 251)

    async def answer(request: RawRequest) -> None:
        request.answer(body)
        await request.drain()

    fabric, _ = await build(answer)
    assert (await fabric.ask().wait()).body == body


@over_each_kind
async def test_a_slow_client_holds_the_engine(build: Builder) -> None:
    """Nothing piles up between them, and nothing is lost when the client goes on."""
    written = 0
    whole = 32 * MIB

    async def flood(request: RawRequest) -> None:
        nonlocal written
        request.stream()
        while written < whole:
            request.chunk(bytes(MIB))
            await request.drain()
            written += MIB
        request.chunk(b"")

    fabric, engine = await build(flood)
    slow = fabric.ask(sink=Recorder(is_slow=True))
    await until(lambda: len(slow.body) == WINDOW_BYTES)
    connection = engine.connections[0]
    await until(lambda: connection.writer.transport.get_write_buffer_size() > 0)
    # One read of the gateway, besides what the sockets of this host hold.
    assert fabric.gateway.received <= WINDOW_BYTES + MIB
    assert written <= 16 * MIB
    assert len(slow.body) == WINDOW_BYTES
    slow.is_slow = False
    assert slow.stream is not None
    slow.stream.consumed(WINDOW_BYTES)
    assert len((await slow.wait()).body) == whole


@over_each_kind
@pytest.mark.parametrize("moment", ["unary", "before the first token", "in mid-stream"])
async def test_leaving_stops_the_engine(build: Builder, moment: str) -> None:
    """Its connection closes, nothing more is told, and nothing is left in flight."""

    async def script(request: RawRequest) -> None:
        if moment != "unary":
            request.stream()
        if moment == "in mid-stream":
            request.chunk(b"data: 1\n\n")
        await request.gone()

    fabric, engine = await build(script)
    asked = fabric.ask()
    expected = {"unary": "ack", "before the first token": "head", "in mid-stream": "data"}[moment]
    await until(lambda: expected in asked.told)
    told = list(asked.told)
    assert asked.stream is not None
    asked.stream.cancel("client gone")
    await until(engine.connections[0].left.is_set)
    await until(lambda: fabric.gateway.in_flight == 0)
    assert fabric.link.in_flight == 0
    assert asked.told == told


@over_each_kind
async def test_a_reset_in_mid_stream_fails_loudly(build: Builder) -> None:
    """What came is passed on, then the failure; never an end."""

    async def broken(request: RawRequest) -> None:
        request.stream()
        request.chunk(b"data: 1\n\n")
        await request.drain()
        request.reset()

    fabric, _ = await build(broken)
    answer = await fabric.ask().wait()
    assert answer.told[-1] == "fail"
    assert answer.failure is not None
    assert (answer.failure.kind, answer.failure.definite) == (FailKind.ENGINE_LOST, False)


async def test_an_answer_cut_short_fails_loudly(build: Builder) -> None:
    """An engine that closes before its announced length, or before its last chunk."""

    async def short(request: RawRequest) -> None:
        if request.body == b"length":
            request.send(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc")
        else:
            request.stream()
            request.chunk(b"abc")
        request.close()

    fabric, _ = await build(short)
    for body in (b"length", b"chunks"):
        answer = await fabric.ask(body).wait()
        assert answer.told[-1] == "fail"
        assert answer.body == b"abc"


async def test_an_engine_that_does_not_listen_surely_did_not_begin(build: Builder) -> None:
    """Another session may be tried safely."""
    fabric, engine = await build(echo)
    await engine.stop()
    failure = (await fabric.ask().wait()).failure
    assert failure is not None
    assert failure.kind is FailKind.ENGINE_UNREACHABLE
    assert failure.definite
    assert failure.retryable


async def test_a_connection_that_went_stale_is_replaced(build: Builder) -> None:
    """The engine closes an idle connection just as the next request is on its way."""

    async def script(request: RawRequest) -> None:
        if request.body == b"leave" and len(request.connection.reader._buffer) == 0:  # type: ignore[attr-defined]
            request.answer(b"left")
        elif request.body == b"again" and request.connection is engine.connections[0]:
            request.reset()
        else:
            request.answer(b"ok")

    fabric, engine = await build(script)
    assert (await fabric.ask(b"leave").wait()).body == b"left"
    assert (await fabric.ask(b"again").wait()).body == b"ok"
    assert len(engine.connections) == 2


async def test_nobody_there_fails_at_once_and_surely(build: Builder) -> None:
    """The mesh says so; no time-out is waited for."""
    fabric, _ = await build(echo)
    gone = await fabric.ask(path=PATH._replace(session=SessionId("01JDNOBODY"))).wait()
    assert gone.told == ["fail"]
    assert gone.failure is not None
    assert gone.failure.kind is FailKind.NO_RESPONDERS
    assert gone.failure.definite


@over_each_kind
async def test_small_requests_pass_a_large_one(build: Builder) -> None:
    """A body of 50 MB delays nobody by more than a window."""
    fabric, _ = await build(digest)
    large = fabric.ask(bytes(50 * MIB))
    small = 0
    while not large.done.is_set():
        answer = await fabric.ask(b"small").wait()
        assert answer.told[-1] in {"end", "answer"}
        small += not large.done.is_set()
    assert large.told[-1] in {"end", "answer"}
    assert small >= 5


@over_each_kind
async def test_a_draining_session_refuses_and_finishes(build: Builder) -> None:
    """What runs goes on; what comes is sent elsewhere."""
    go = asyncio.Event()

    async def wait(request: RawRequest) -> None:
        await go.wait()
        request.answer(b"done")

    fabric, engine = await build(wait)
    running = fabric.ask()
    await until(lambda: len(engine.requests) == 1)
    fabric.gateway.drain()
    # What comes before the router has heard of it runs as well.
    await until(lambda: PATH not in fabric.link.loans._open)
    refused = await fabric.ask().wait()
    assert refused.failure is not None
    assert refused.failure.kind is FailKind.REFUSED
    assert refused.failure.definite
    go.set()
    assert (await running.wait()).body == b"done"
    await fabric.gateway.wait_idle()
    assert len(engine.requests) == 1


@over_each_kind
async def test_a_full_session_refuses(build: Builder) -> None:
    """Routers try elsewhere."""
    fabric, engine = await build(hang, gateway=GatewaySettings(streams_max=1))
    fabric.ask()
    await until(lambda: len(engine.requests) == 1)
    refused = await fabric.ask().wait()
    assert refused.failure is not None
    assert refused.failure.kind is FailKind.REFUSED


@over_each_kind
async def test_a_session_that_ends_breaks_off_what_runs(build: Builder) -> None:
    """The router hears of it, and the engine's connection closes."""
    fabric, engine = await build(hang)
    asked = fabric.ask()
    await until(lambda: len(engine.requests) == 1)
    fabric.gateway.stop()
    failure = (await asked.wait()).failure
    assert failure is not None
    assert failure.kind is FailKind.ENGINE_LOST
    await engine.connections[0].left.wait()


@over_each_kind
async def test_a_deadline_stops_the_engine(build: Builder) -> None:
    """On both sides."""
    fabric, engine = await build(hang)
    for deadline_s in (0.2, 2.0, 10.0):
        failure = (await fabric.ask(deadline_s=deadline_s).wait()).failure
        assert failure is not None
        assert failure.kind is FailKind.DEADLINE
        # On shared cores it may have been over before the engine was reached.
        if engine.connections:
            break
    await engine.connections[0].left.wait()


async def test_a_body_above_the_limit_is_refused(build: Builder) -> None:
    """Before it is sent, as its length is known."""
    limits = GatewaySettings(stream=CalleeSettings(body_bytes_max=MIB))
    fabric, engine = await build(echo, gateway=limits)
    failure = (await fabric.ask(bytes(MIB + 1)).wait()).failure
    assert failure is not None
    assert (failure.kind, failure.retryable) == (FailKind.TOO_LARGE, False)
    assert engine.requests == []


@over_each_kind
async def test_a_slow_engine_is_acknowledged_for(build: Builder) -> None:
    """Long before its head."""
    go = asyncio.Event()

    async def slow(request: RawRequest) -> None:
        await go.wait()
        request.answer(b"x")

    fabric, _ = await build(slow)
    asked = fabric.ask()
    await until(lambda: asked.told == ["ack"])
    go.set()
    assert (await asked.wait()).told == ["ack", "answer"]


async def test_another_session_cannot_answer(build: Builder) -> None:
    """Words about a stream count only on the subject of the session that was asked."""
    fabric, engine = await build(hang)
    asked = fabric.ask()
    await until(lambda: len(engine.requests) == 1)
    assert asked.stream is not None
    stream = asked.stream.caller.stream
    other = await fabric.client(build.mesh.access(role="provider", provider="q", at="a"))
    tail = asked.stream.answers.rpartition(".")[2]
    forged = asked.stream.answers.replace(f".p.{tail}", f".q.{tail}")
    for frame in (Head(stream, 200, (), b"forged", Timings()), Data(stream, 0, b"forged")):
        assert other.publish(forged, frames.encode(frame))
        # Its own provider's fence does not keep it from lying there; the server keeps it from p's.
        assert other.publish(asked.stream.answers, frames.encode(frame))
    await other.round_trip()
    await fabric.router_client.round_trip()
    assert asked.told in ([], ["ack"])
    asked.stream.cancel("seen")


async def test_another_provider_cannot_say_that_nobody_is_there(build: Builder) -> None:
    """The servers' own words, in its mouth, end none but its own streams."""
    fabric, engine = await build(hang)
    asked = fabric.ask()
    await until(lambda: len(engine.requests) == 1)
    assert asked.stream is not None
    tail = asked.stream.reply.rpartition(".")[2]
    prefix = asked.stream.reply.removesuffix(f".p.{tail}")
    heard: list[Message] = []
    sid = fabric.router_client.subscribe(f"{prefix}.q.>", print, on_no_responders=heard.append)
    await fabric.router_client.round_trip()
    other = await fabric.client(build.mesh.access(role="provider", provider="q", at="a"))
    assert other._connection is not None
    for provider in "pq":
        words = b"NATS/1.0 503\r\n\r\n"
        line = f"HPUB {prefix}.{provider}.{tail} {len(words)} {len(words)}\r\n"
        other._connection._outbox.send(line.encode() + words + b"\r\n")
    # Its own fence lets the second one through: the router has heard it, and knows better.
    await until(lambda: len(heard) == 1)
    await fabric.router_client.round_trip()
    assert asked.told in ([], ["ack"])
    assert fabric.link.in_flight == 1
    fabric.router_client.unsubscribe(sid)
    asked.stream.cancel("seen")


async def test_rubbish_is_dropped(build: Builder) -> None:
    """Bytes that are no frame, and frames without a router to answer, harm nobody."""
    fabric, engine = await build(echo)
    data = subjects.data(PATH)
    reply = subjects.reply("router1", PATH.provider, "i", "0")
    for payload, to in ((b"", reply), (b"\xff" * 20, reply), (b"\x01" * 40, ""), (b"x", "a.b")):
        fabric.router_client.publish(data, payload, to)
    assert (await fabric.ask(b"ok").wait()).body == b"ok"
    assert len(engine.requests) == 1
