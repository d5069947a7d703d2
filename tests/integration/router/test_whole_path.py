"""What engines do wrong, seen by a client and by the books, with a whole mesh between them.

Engine, gateway, leaf, hub and router are real, and so are the sockets between them. Whatever the
client gets is compared byte by byte; how the request is booked is read off the mesh.
"""

import gzip
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from structlog.testing import capture_logs
from tests.integration.data.raw_engine import RawRequest, Script
from tests.integration.mesh.omnipotent import omnipotent_bus
from tests.integration.registry.field import Field
from tests.integration.router.raw import Response, post
from tests.integration.router.scene import Scene, Session
from tests.integration.router.test_forwarding import ANSWER, DELTA, DONE, STOP

from opentela.mesh import nats_bus
from opentela.mesh.bus import Message
from opentela.testing.mesh import until
from opentela.wire import subjects
from opentela.wire.usage import UsageRecord, read_usage

pytestmark = pytest.mark.nats

STREAM = post(b'{"model":"m","stream":true}')
SSE = (
    'data: {"choices":[{"index":0,"delta":{"content":"é"},"finish_reason":null}]}\r\n\r\n'
    ": a comment with € in it\n\n"
    'data: {"choices":[{"index":0,\ndata: "delta":{"content":"🦊"},"finish_reason":"stop"}]}\n\n'
    "event: x\r\ndata: [DONE]\r\n\r\n"
).encode()
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}\n\n'
TOOL_CALL = (
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function",'
    b'"function":{"name":"f","arguments":"{\\"a\\": "}}]},"finish_reason":null}]}\n\n'
)
HTML = b"<html><body>502 Bad Gateway</body></html>"
SLOW_DOWN = b'{"error":{"message":"slow down"}}'


class Desk(Scene):
    """A mesh with registry and router, and the books that the router sends.

    Attributes:
        records: Usage records, in order.
    """

    def __init__(self, field: Field, stack: AsyncExitStack) -> None:
        super().__init__(field, stack)
        self.records: list[UsageRecord] = []

    async def start(self) -> None:
        """Start what is not the engine's."""
        await self.run_registry()
        await self.run_router()
        bus = await omnipotent_bus(self.field.mesh)

        def book(message: Message) -> None:
            self.records.append(read_usage(message.payload))

        await bus.subscribe(subjects.USAGE, book)

    async def serve(self, *scripts: Script) -> list[Session]:
        """Return sessions that follow *scripts*, once all of them are routed to."""
        sessions = [await self.run_session(script) for script in scripts]
        await self.serving(*sessions)
        return sessions

    async def ask(self, request: bytes) -> Response:
        """Return the answer on a new connection."""
        return await (await self.client()).ask(request)

    async def booked(self) -> UsageRecord:
        """Return the record of the only request."""
        await until(lambda: bool(self.records))
        (record,) = self.records
        return record


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    """A mesh, a registry, a router, and its books."""
    async with Desk.open() as desk:
        assert isinstance(desk, Desk)
        await desk.start()
        yield desk


def broken_after(*events: bytes) -> Script:
    """Return the script of an engine whose connection is reset after *events* of a stream."""

    async def script(request: RawRequest) -> None:
        request.stream()
        for event in events:
            request.chunk(event)
        await request.drain()
        request.reset()

    return script


def streaming(*events: bytes) -> Script:
    """Return the script of an engine that streams *events* and ends well."""

    async def script(request: RawRequest) -> None:
        request.stream()
        for event in events:
            request.chunk(event)
        request.chunk(b"")

    return script


def saying(raw: bytes, *, closes: bool = False) -> Script:
    """Return the script of an engine that answers *raw*."""

    async def script(request: RawRequest) -> None:
        request.send(raw)
        if closes:
            request.close()

    return script


async def test_a_stream_cut_at_any_byte_arrives_as_it_was(desk: Desk) -> None:
    """Characters of two, three and four bytes, both line ends, comments, data of several lines."""
    cuts = iter(range(1, len(SSE)))

    async def cut(request: RawRequest) -> None:
        at = next(cuts)
        request.stream()
        before = session.gateway.received
        request.chunk(SSE[:at])
        # In a read of its own, or the cut is none.
        await until(lambda: session.gateway.received == before + at)
        request.chunk(SSE[at:])
        request.chunk(b"")

    (session,) = await desk.serve(cut)
    client = await desk.client()
    for _ in range(1, len(SSE)):
        assert (await client.ask(STREAM)).body == SSE
    assert next(cuts, None) is None
    await until(lambda: len(desk.records) == len(SSE) - 1)
    assert {record.outcome for record in desk.records} == {"ok"}


async def test_a_stream_in_pieces_of_one_byte_arrives_as_it_was(desk: Desk) -> None:
    """Every cut at once."""
    await desk.serve(streaming(*(SSE[at : at + 1] for at in range(len(SSE)))))
    assert (await desk.ask(STREAM)).body == SSE


@pytest.mark.parametrize("count", [1, 2, 7])
async def test_a_stream_that_breaks_ends_with_an_error_and_is_booked_as_broken(
    desk: Desk, count: int
) -> None:
    """What came whole is passed on; nothing that claims success, no half event, no reason."""
    await desk.serve(broken_after(*[DELTA] * count, DELTA[:-5]))
    client = await desk.client()
    answer = await client.ask(STREAM)
    assert answer.status == 200
    assert answer.body.startswith(DELTA * count)
    last = answer.body.removeprefix(DELTA * count)
    assert last.startswith(b"data: ")
    assert last.endswith(b"\n\n")
    error = json.loads(last.removeprefix(b"data: "))["error"]
    assert error["type"] == "server_error"
    assert b"[DONE]" not in answer.body
    assert answer.body.count(b"finish_reason") == answer.body.count(b'"finish_reason":null')
    record = await desk.booked()
    assert (record.outcome, record.status, record.streamed) == ("broken", 200, True)


async def test_a_stream_that_breaks_before_its_first_event_goes_on_elsewhere(desk: Desk) -> None:
    """A head, a comment's half or nothing: the client has seen none of it."""
    await desk.serve(broken_after(b"data: {"), streaming(DELTA, STOP, DONE))
    client = await desk.client()
    answers = [await client.ask(STREAM) for _ in range(2)]
    assert [answer.body for answer in answers] == [DELTA + STOP + DONE] * 2
    assert sorted(answer.headers["x-otela-attempts"] for answer in answers) == ["1", "2"]


async def test_a_chunk_without_choices_passes_and_is_booked(desk: Desk) -> None:
    """Such as that of the usage."""
    await desk.serve(streaming(DELTA, STOP, USAGE, DONE))
    assert (await desk.ask(STREAM)).body == DELTA + STOP + USAGE + DONE
    record = await desk.booked()
    assert (record.outcome, record.tokens_in, record.tokens_out) == ("ok", 9, 4)


async def test_a_tool_call_without_an_end_passes_and_is_booked_as_incomplete(desk: Desk) -> None:
    """One choice finishes, the other never does; nothing is invented for it."""
    other = b'data: {"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}\n\n'
    await desk.serve(streaming(TOOL_CALL, other, DONE))
    assert (await desk.ask(STREAM)).body == TOOL_CALL + other + DONE
    assert (await desk.booked()).outcome == "incomplete"


@pytest.mark.parametrize("stage", ["unary", "before the first token", "in the middle"])
async def test_a_client_that_leaves_is_booked_as_such_and_counted_nowhere(
    desk: Desk, stage: str
) -> None:
    """Neither by the router nor by the session."""

    async def begun(request: RawRequest) -> None:
        if stage != "unary":
            request.stream()
        if stage == "in the middle":
            request.chunk(DELTA)

    (session,) = await desk.serve(begun)
    client = await desk.client()
    client.send(post() if stage == "unary" else STREAM)
    await until(lambda: len(session.engine.requests) == 1)
    if stage == "in the middle":
        await client.head()
    assert desk.router.status()["in_flight"] == 1
    client.abort()
    await until(session.engine.connections[0].closed.is_set, timeout_s=4.0)
    assert (await desk.booked()).outcome == "cancelled"
    assert desk.router.status()["in_flight"] == 0
    await until(lambda: session.gateway.in_flight == 0)


async def test_what_a_client_took_before_it_left_is_booked(desk: Desk) -> None:
    """The engine never came to count it; placers may read the books, with what they may do."""
    access = desk.field.mesh.access(role="placer")
    bus = await desk.stack.enter_async_context(await nats_bus.connect(access, name="placer"))
    read: list[UsageRecord] = []

    async def begun(request: RawRequest) -> None:
        request.stream()
        for _ in range(3):
            request.chunk(DELTA)

    await desk.serve(begun)
    await bus.subscribe(subjects.USAGE, lambda message: read.append(read_usage(message.payload)))
    client = await desk.client()
    client.send(STREAM)
    await client.head()
    received = b""
    while received.count(DELTA) < 3:
        received += await client.chunk()
    client.abort()
    record = await desk.booked()
    assert (record.outcome, record.tokens_out, record.streamed) == ("cancelled", 3, True)
    await until(lambda: read == [record])


GZIPPED = gzip.compress(ANSWER)


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "500 Internal Server Error"])
async def test_what_an_engine_compressed_unasked_stays_readable(desk: Desk, status: str) -> None:
    """Its bytes pass with the field that says how to read them, errors too."""

    async def compressed(request: RawRequest) -> None:
        fields = "content-type: application/json\r\ncontent-encoding: gzip\r\n"
        request.answer(GZIPPED, status=status, fields=fields)

    (session,) = await desk.serve(compressed)
    answer = await desk.ask(post())
    assert (answer.status, answer.body) == (int(status[:3]), GZIPPED)
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["content-length"] == str(len(GZIPPED))
    assert session.engine.requests[0].headers["accept-encoding"] == "identity"


async def test_what_the_client_wants_of_its_answer_reaches_the_engine_byte_for_byte(
    desk: Desk,
) -> None:
    """Several choices, log-probabilities, options of the stream, blanks and escapes."""
    body = (
        '{ "n":4,"logprobs" :true, "top_logprobs":5,"stream":true,\r\n'
        '"stream_options":{"include_usage":true, "x":[1.0e+2]},"seed":1.50,'
        '"messages":[{"role":"user","content":"\\u00e4\\/ é 🦊"}],"model":"m" }'
    ).encode()
    (session,) = await desk.serve(streaming(DELTA, STOP, USAGE, DONE))
    answer = await desk.ask(post(body))
    assert session.engine.requests[0].body == body
    assert answer.body == DELTA + STOP + USAGE + DONE


FRAMED_TWICE = (
    b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\ntransfer-encoding: chunked\r\n"
    b"content-type: application/json\r\nconnection: x-hop, keep-alive\r\nx-hop: 1\r\n"
    b"keep-alive: timeout=5\r\nx-kept: yes\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(ANSWER), ANSWER)
)
TOO_SHORT = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
    b"connection: x-hop\r\nx-hop: 1\r\nx-kept: yes\r\n\r\n%bEXTRA" % (len(ANSWER), ANSWER)
)


@pytest.mark.parametrize("raw", [FRAMED_TWICE, TOO_SHORT], ids=["framed twice", "too short"])
async def test_framing_and_hop_by_hop_fields_stay_with_the_engine(desk: Desk, raw: bytes) -> None:
    """The client's answer is well framed: the next one on its connection is, too."""
    await desk.serve(saying(raw))
    client = await desk.client()
    for _ in range(3):
        answer = await client.ask(post())
        assert (answer.status, answer.body) == (200, ANSWER)
        assert answer.headers["content-length"] == str(len(ANSWER))
        assert answer.headers["x-kept"] == "yes"
        assert not answer.headers.keys() & {"x-hop", "keep-alive", "connection"}


async def test_an_answer_shorter_than_its_length_is_never_taken_for_whole(desk: Desk) -> None:
    """It is asked for elsewhere."""
    short = b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n" + ANSWER
    await desk.serve(saying(short, closes=True), saying(FRAMED_TWICE))
    client = await desk.client()
    answers = [await client.ask(post()) for _ in range(2)]
    assert [answer.body for answer in answers] == [ANSWER] * 2
    assert sorted(answer.headers["x-otela-attempts"] for answer in answers) == ["1", "2"]


NOT_JSON = (
    ("502 Bad Gateway", "text/html", HTML),
    ("502 Bad Gateway", "text/event-stream", HTML),
    ("503 Service Unavailable", "text/plain", b"no healthy upstream"),
    ("500 Internal Server Error", "text/plain", b"Internal Server Error"),
    ("404 Not Found", "text/html", b"<h1>404</h1>"),
)


@pytest.mark.parametrize("asked", [post(), STREAM], ids=["whole", "stream"])
async def test_an_error_that_is_not_json_becomes_an_error_object_of_its_status(
    desk: Desk, asked: bytes
) -> None:
    """Whoever before the engine wrote it; never a complaint about JSON."""
    answers = iter(NOT_JSON)

    async def script(request: RawRequest) -> None:
        status, kind, body = next(answers)
        request.answer(body, status=status, fields=f"content-type: {kind}\r\n")

    await desk.serve(script)
    client = await desk.client()
    for count, (status, _, _) in enumerate(NOT_JSON, start=1):
        answer = await client.ask(asked)
        assert answer.status == int(status[:3])
        is_theirs = answer.status >= 500
        assert answer.error["type"] == ("server_error" if is_theirs else "invalid_request_error")
        assert "JSON" not in answer.error["message"]
        await until(lambda: len(desk.records) == count)  # noqa: B023 - awaited at once
        record = desk.records[-1]
        assert record.status == answer.status
        assert record.outcome == ("engine_error" if is_theirs else "rejected")


async def test_a_retry_goes_to_another_session_and_is_told_in_header_log_and_books(
    desk: Desk,
) -> None:
    """Never back to the one that failed, also when it is the only other one."""

    async def dead(request: RawRequest) -> None:
        request.reset()

    async def proxy(request: RawRequest) -> None:
        request.answer(HTML, status="502 Bad Gateway", fields="content-type: text/html\r\n")

    first, second = await desk.serve(dead, proxy)
    with capture_logs() as logs:
        answer = await desk.ask(post())
        record = await desk.booked()
    assert answer.status == 502
    assert answer.headers["x-otela-attempts"] == "2"
    assert [len(session.engine.requests) for session in (first, second)] == [1, 1]
    failed = [line["session"] for line in logs if line["event"] == "attempt_failed"]
    assert sorted(map(str, failed)) == sorted([first.id, second.id])
    (line,) = [line for line in logs if line["event"] == "request_finished"]
    assert (line["attempts"], record.attempts) == (2, 2)


@pytest.mark.parametrize(
    ("kind", "body"), [("application/json", SLOW_DOWN), ("text/html", b"<h1>Slow down</h1>")]
)
async def test_an_engine_that_is_too_busy_says_itself_when_to_come_again(
    desk: Desk, kind: str, body: bytes
) -> None:
    """Its 429 and its advice pass, without another attempt; what is no JSON is put into some."""

    async def busy(request: RawRequest) -> None:
        fields = f"content-type: {kind}\r\nretry-after: 7\r\n"
        request.answer(body, status="429 Too Many Requests", fields=fields)

    sessions = await desk.serve(busy, busy)
    answer = await desk.ask(post())
    assert answer.status == 429
    if body == SLOW_DOWN:
        assert answer.body == SLOW_DOWN
    else:
        assert answer.error["type"] == "rate_limit_error"
    assert answer.headers["retry-after"] == "7"
    assert answer.headers["x-otela-attempts"] == "1"
    assert sum(len(session.engine.requests) for session in sessions) == 1
    assert (await desk.booked()).outcome == "rejected"
