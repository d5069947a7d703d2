"""What fails is tried elsewhere while it can be, and told honestly when it cannot."""

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs
from tests.integration.router.conftest import Bench, MakeBench
from tests.integration.router.raw import post
from tests.integration.router.test_forwarding import ANSWER, DELTA, DONE, STOP
from tests.unit.router.parts import Dice, record, session_of

from opentela.core.record import Lifecycle
from opentela.router.config import AttemptConfig, EjectionConfig, WaitConfig
from opentela.router.directory import Candidate
from opentela.router.policies.base import Call, Observed
from opentela.router.policies.least_load import LeastLoad
from opentela.router.policies.prefix_affinity import FREE
from opentela.router.ports import Link
from opentela.router.sse import StreamWatch
from opentela.testing.fake_link import EVENTS, JSON, FakeStream, Sink
from opentela.wire.frames import FailKind
from opentela.wire.subjects import SessionPath

STREAM = post(b'{"model":"m","stream":true}')
QUICK = AttemptConfig(backoff_s=0.001, first_s=0.05, unary_s=0.05, idle_s=0.05)


def take(stream: FakeStream) -> None:
    """Take the request, and never answer."""
    stream.ack()


def begin(stream: FakeStream) -> None:
    """Begin a stream, and fall silent."""
    stream.head(200, EVENTS).data(DELTA)


def finished(logs: Sequence[Mapping[str, object]]) -> Mapping[str, object]:
    """Return the one line that is written of a request."""
    lines = [line for line in logs if line["event"] == "request_finished"]
    assert len(lines) == 1
    return lines[0]


async def test_a_failed_attempt_goes_on_at_another_session(bench: Bench) -> None:
    """Never at the same one; the header and the log say how many there were."""

    def script(stream: FakeStream) -> None:
        if len(bench.link.streams) == 1:
            stream.fail(FailKind.NO_RESPONDERS, begun=False)
        elif len(bench.link.streams) == 2:
            stream.ack().fail(FailKind.ENGINE_LOST)
        else:
            stream.answer(ANSWER)

    bench.link.script = script
    with capture_logs() as logs:
        answer = await (await bench.client()).ask(post())
    assert answer.status == 200
    assert answer.headers["x-otela-attempts"] == "3"
    tried = [stream.path.session for stream in bench.link.streams]
    assert sorted(tried) == sorted(session_of(number) for number in range(3))
    assert answer.headers["x-otela-session"] == tried[2]
    assert all(stream.body == b'{"model":"m"}' for stream in bench.link.streams)
    line = finished(logs)
    assert (line["attempts"], line["outcome"], line["session"]) == (3, "ok", tried[2])
    failed = [one for one in logs if one["event"] == "attempt_failed"]
    assert [one["session"] for one in failed] == tried[:2]


async def test_a_retry_goes_elsewhere_whatever_the_policy_would_like(
    make_bench: MakeBench,
) -> None:
    """This one would send equal prompts to the same session for ever."""
    bench = await make_bench(policy="prefix_affinity")
    bench.link.script = lambda stream: stream.fail(FailKind.NO_RESPONDERS, begun=False)
    answer = await (await bench.client()).ask(post())
    assert (answer.status, answer.headers["x-otela-attempts"]) == (503, "3")
    assert len({stream.path.session for stream in bench.link.streams}) == 3


async def test_an_engine_killed_in_mid_answer_costs_the_client_nothing(bench: Bench) -> None:
    """Half of a whole answer was never sent."""

    def script(stream: FakeStream) -> None:
        if len(bench.link.streams) == 1:
            stream.head().data(b'{"half":').fail(FailKind.ENGINE_LOST)
        else:
            stream.answer(ANSWER)

    bench.link.script = script
    answer = await (await bench.client()).ask(post())
    assert (answer.status, answer.body) == (200, ANSWER)


async def test_a_path_that_stores_is_not_repeated(bench: Bench) -> None:
    """The engine may have begun."""
    bench.link.script = lambda stream: stream.ack().fail(FailKind.ENGINE_LOST)
    answer = await (await bench.client()).ask(post(b'{"model":"m"}', "/v1/responses"))
    assert answer.status == 502
    assert answer.error["code"] == "engine_failed"
    assert len(bench.link.streams) == 1


async def test_a_gone_model_is_503_and_an_unknown_one_404(bench: Bench) -> None:
    """The one may come back."""
    bench.front.directory.apply(
        [record(number, lifecycle=Lifecycle.LEFT, incarnation=2) for number in range(3)]
    )
    client = await bench.client()
    gone = await client.ask(post())
    assert gone.status == 503
    assert gone.error["code"] == "model_unavailable"
    assert int(gone.headers["retry-after"]) > 0
    unknown = await client.ask(post(b'{"model":"x/y"}'))
    assert unknown.status == 404
    assert (unknown.error["code"], unknown.error["param"]) == ("model_not_found", "model")
    assert "retry-after" not in unknown.headers


@pytest.mark.parametrize("body", [b"<html>Bad Gateway</html>", b"no healthy upstream", b""])
@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_proxys_error_becomes_an_error_object(
    bench: Bench, status: int, body: bytes
) -> None:
    """After every other session was tried."""
    html = (("Content-Type", "text/html"),)
    bench.link.script = lambda stream: stream.answer(body, status=status, headers=html)
    answer = await (await bench.client()).ask(post())
    assert answer.status == status
    assert answer.error["type"] == "server_error"
    assert len(bench.link.streams) == 3


async def test_the_engines_own_error_object_passes(bench: Bench) -> None:
    """Byte for byte, and without another attempt."""
    body = b'{"error":  {"message":"out of memory"}}'
    bench.link.script = lambda stream: stream.answer(body, status=500)
    with capture_logs() as logs:
        answer = await (await bench.client()).ask(post())
    assert (answer.status, answer.body) == (500, body)
    (failed,) = [line for line in logs if line["event"] == "attempt_failed"]
    assert failed["error"] == "the engine answered with an error of its own"
    assert len(bench.link.streams) == 1


async def test_a_stream_that_breaks_ends_with_an_error_event(bench: Bench) -> None:
    """No reason to finish is invented, and nothing claims success."""
    with capture_logs() as logs:
        client = await bench.client()
        client.send(STREAM)
        await bench.until(lambda: len(bench.link.streams) == 1)
        stream = bench.link.streams[0].head(200, EVENTS).data(DELTA).data(DELTA + STOP[:30])
        stream.fail(FailKind.ENGINE_LOST)
        answer = await client.answer()
    assert answer.status == 200
    assert answer.body.startswith(DELTA + DELTA + b"data: ")
    last = json.loads(answer.body.removeprefix(DELTA + DELTA).removeprefix(b"data: "))
    assert last["error"]["code"] == "engine_failed"
    assert b"[DONE]" not in answer.body
    assert b'"stop"' not in answer.body
    line = finished(logs)
    assert (line["outcome"], line["status"]) == ("broken", 200)
    # The answer's head promised the connection for the next request: closing would race with it.
    bench.link.script = lambda stream: stream.head(200, EVENTS).data(DELTA + STOP).end()
    assert (await client.ask(STREAM)).status == 200


async def test_a_stream_that_ends_without_an_end_is_told(bench: Bench) -> None:
    """The engine's connection closed well in the middle of its answer."""
    bench.link.script = lambda stream: stream.head(200, EVENTS).data(DELTA).end()
    answer = await (await bench.client()).ask(STREAM)
    assert answer.body.startswith(DELTA + b'data: {"error"')
    assert b"[DONE]" not in answer.body


async def test_a_choice_without_a_reason_to_finish_passes(bench: Bench) -> None:
    """And is recorded as incomplete."""
    bench.link.script = lambda stream: stream.head(200, EVENTS).data(DELTA + DONE).end()
    with capture_logs() as logs:
        answer = await (await bench.client()).ask(STREAM)
    assert answer.body == DELTA + DONE
    assert finished(logs)["outcome"] == "incomplete"


async def test_a_usage_chunk_passes_and_is_booked(bench: Bench) -> None:
    """Its list of choices is empty."""
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}\n\n'
    bench.link.script = lambda stream: (
        stream.head(200, EVENTS).data(DELTA + STOP + usage + DONE).end()
    )
    with capture_logs() as logs:
        answer = await (await bench.client()).ask(STREAM)
    assert answer.body == DELTA + STOP + usage + DONE
    line = finished(logs)
    assert (line["tokens_in"], line["tokens_out"]) == (9, 4)
    assert isinstance(line["ttft_s"], float)


async def test_a_large_answer_that_breaks_is_cut(make_bench: MakeBench) -> None:
    """Its client must not take it for whole."""
    bench = await make_bench(attempts=AttemptConfig(held_bytes_max=4))
    client = await bench.client()
    client.send(post())
    stream = (await bench.opened()).head(200, JSON).data(b"12345")
    await client.head()
    assert await client.chunk() == b"12345"
    stream.fail(FailKind.ENGINE_LOST)
    with pytest.raises(ConnectionError):
        await client.ended()


@pytest.mark.parametrize("stage", ["unary", "before the first token", "in the middle"])
async def test_a_client_that_leaves_stops_the_engine(bench: Bench, stage: str) -> None:
    """In whichever moment, and nothing stays counted."""
    client = await bench.client()
    client.send(post() if stage == "unary" else STREAM)
    stream = (await bench.opened()).ack()
    if stage == "before the first token":
        stream.head(200, EVENTS)
    if stage == "in the middle":
        stream.head(200, EVENTS).data(DELTA)
        await client.head()
    with capture_logs() as logs:
        client.abort()
        await bench.until(lambda: stream.ended)
    assert stream.cancelled == "the client left"
    assert bench.front.desk.in_flight == 0
    assert finished(logs)["outcome"] == "cancelled"


async def test_a_hung_engine_is_left_and_passed_over(make_bench: MakeBench) -> None:
    """Its request goes on elsewhere; later ones do not go there at all."""
    bench = await make_bench(attempts=QUICK)
    hung = session_of(0)

    def script(stream: FakeStream) -> None:
        stream.ack()
        if stream.path.session != hung:
            stream.head(200, EVENTS).data(DELTA + STOP + DONE).end()

    bench.link.script = script
    client = await bench.client()
    first = await client.ask(STREAM)
    assert first.headers["x-otela-attempts"] == "2"
    assert bench.link.streams[0].cancelled == "The engine sent nothing for too long."
    for _ in range(6):
        assert (await client.ask(STREAM)).headers["x-otela-attempts"] == "1"
    assert [stream.path.session for stream in bench.link.streams].count(hung) == 1


@pytest.mark.parametrize("policy", ["least_load", "hardware_weighted", "prefix_affinity"])
async def test_a_hung_engine_slows_nobody_elses_requests(
    make_bench: MakeBench, policy: str
) -> None:
    """Long before its time-outs tell: what it has under way keeps others away from it."""
    bench = await make_bench(policy=policy)
    hung: list[FakeStream] = []

    def script(stream: FakeStream) -> None:
        if not hung or stream.path == hung[0].path:
            hung.append(stream.ack())
        else:
            stream.answer(ANSWER)

    bench.link.script = script
    waiting = [await bench.client() for _ in range(FREE)]
    for client in waiting:
        client.send(post())
        await bench.until(lambda: all(one.ended or one in hung for one in bench.link.streams))
    client = await bench.client()
    answers = [await client.ask(post()) for _ in range(30)]
    assert {(answer.status, answer.headers["x-otela-attempts"]) for answer in answers} == {
        (200, "1")
    }
    assert len(hung) <= FREE
    for stream in hung:
        stream.answer(ANSWER)
    assert [(await client.answer()).status for client in waiting] == [200] * FREE


async def test_an_ejected_session_gets_one_trial(make_bench: MakeBench) -> None:
    """And is back when it answers."""
    bench = await make_bench(sessions=2, ejection=EjectionConfig(eject_s=1.0))
    bench.link.script = lambda stream: (
        stream.fail(FailKind.ENGINE_UNREACHABLE, begun=False)
        if len(bench.link.streams) == 1
        else stream.answer(ANSWER)
    )
    client = await bench.client()
    await client.ask(post())
    failed = bench.link.streams[0].path.session

    async def served_by() -> str:
        return (await client.ask(post())).headers["x-otela-session"]

    assert failed not in {await served_by() for _ in range(4)}
    seen = ""
    while seen != failed:  # bounded by the time that a test may take
        seen = await served_by()


async def test_bad_requests_are_not_held_against_a_session(make_bench: MakeBench) -> None:
    """Fifty answers 400, and it is in rotation as before."""
    bench = await make_bench(sessions=2)
    body = b'{"error":{"message":"bad"}}'
    bench.link.script = lambda stream: stream.answer(body, status=400)
    client = await bench.client()
    sessions = [(await client.ask(post())).headers["x-otela-session"] for _ in range(50)]
    # One that is ejected is passed over for a while: turns would not alternate.
    assert sessions == [session_of(0), session_of(1)] * 25


async def test_a_stream_that_falls_silent_is_broken_off(make_bench: MakeBench) -> None:
    """The engine is told, and so is the client."""
    bench = await make_bench(attempts=QUICK)
    bench.link.script = begin
    answer = await (await bench.client()).ask(STREAM)
    assert answer.body.startswith(DELTA + b'data: {"error"')
    assert b"engine_timeout" in answer.body
    assert bench.link.streams[0].cancelled


async def test_when_all_attempts_are_late_the_client_is_told(make_bench: MakeBench) -> None:
    """504, as an error object."""
    bench = await make_bench(attempts=QUICK)
    bench.link.script = take
    answer = await (await bench.client()).ask(post())
    assert answer.status == 504
    assert answer.error["code"] == "engine_timeout"
    assert answer.headers["x-otela-attempts"] == "3"


async def test_a_slow_client_slows_its_session_and_no_other(bench: Bench) -> None:
    """Nothing is dropped, and nothing fills the memory."""
    part = b": " + b"x" * 65_533 + b"\n"
    client, other = await bench.client(), await bench.client()
    client.stop_reading()
    client.send(STREAM)
    stream = (await bench.opened()).head(200, EVENTS).data(DELTA)
    for _ in range(250):
        stream.data(part)
    # The kernel's buffers, the transport's and one window: the rest waits at the session.
    await bench.until(lambda: bench.link.streams[0].waiting_bytes > 0)
    assert stream.credited < 250 * len(part)
    bench.link.script = lambda late: late.answer(ANSWER)
    assert (await other.ask(post())).status == 200
    stream.data(STOP + DONE).end()
    client.go_on_reading()
    answer = await client.answer()
    assert answer.body == DELTA + part * 250 + STOP + DONE


async def test_after_a_pause_the_engine_has_its_whole_time_again(bench: Bench) -> None:
    """What the client took to read is not held against the engine."""
    client = await bench.client()
    client.send(STREAM)
    stream = (await bench.opened()).head(200, EVENTS).data(DELTA)
    await client.head()
    (connection,) = bench.front.gate._connections
    exchange = connection._exchange
    assert exchange is not None
    assert exchange._attempts is not None
    before = exchange._attempts.next_deadline()
    connection.pause_writing()
    connection.resume_writing()
    after = exchange._attempts.next_deadline()
    assert before is not None
    assert after is not None
    assert after > before
    stream.data(STOP + DONE).end()
    assert await client.chunk() == DELTA


async def test_a_client_that_stops_reading_is_left(make_bench: MakeBench) -> None:
    """Its silence is not the engine's: no session is blamed."""
    bench = await make_bench(attempts=AttemptConfig(idle_s=0.2))
    part = b": " + b"x" * 65_533 + b"\n"
    client = await bench.client()
    client.stop_reading()
    client.send(STREAM)
    stream = (await bench.opened()).head(200, EVENTS).data(DELTA)
    for _ in range(500):
        stream.data(part)
    await bench.until(lambda: stream.ended)
    assert stream.cancelled == "the client left"
    assert bench.front.outcomes.ejected(0.0, []) == ()


class Buggy(LeastLoad):
    """A policy with a bug, for a while; it would notice an end without a start."""

    is_broken = False

    def on_request_start(self, call: Call, chosen: Candidate) -> None:
        """Fail."""
        if self.is_broken:
            raise RuntimeError("a bug")
        super().on_request_start(call, chosen)


class FailsAtTheEnd(LeastLoad):
    """A policy with a bug in its books."""

    def on_request_end(self, call: Call, chosen: Candidate, observed: Observed) -> None:
        """Fail."""
        raise RuntimeError("a bug")


async def test_a_bug_on_one_request_is_a_500_and_no_more(bench: Bench) -> None:
    """The next request of the same connection is served."""
    buggy = Buggy(Dice())
    bench.front.desk.policy = buggy
    buggy.is_broken = True
    client = await bench.client()
    with capture_logs() as logs:
        answer = await client.ask(post())
    assert answer.status == 500
    assert answer.error["code"] == "internal_error"
    assert [line["event"] for line in logs] == ["exchange_crashed", "request_finished"]
    assert bench.link.streams[0].cancelled == "the router failed"
    buggy.is_broken = False
    bench.link.script = lambda stream: stream.answer(ANSWER)
    assert (await client.ask(post())).status == 200


async def test_a_policy_that_fails_at_the_end_leaves_no_session_busy(
    make_bench: MakeBench,
) -> None:
    """Its place is free again, and the next request gets it."""
    bench = await make_bench(sessions=1, wait=WaitConfig(session_requests_max=1, full_s=0))
    bench.front.desk.policy = FailsAtTheEnd(Dice())
    bench.link.script = lambda stream: stream.answer(ANSWER)
    for _ in range(2):
        with capture_logs() as logs:
            await (await bench.client()).ask(post())
        assert "exchange_crashed" in [line["event"] for line in logs]
    assert not bench.front.desk.waiting.full
    assert len(bench.link.streams) == 2


async def test_a_bug_in_the_middle_of_an_answer_cuts_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And stops the engine."""
    client = await bench.client()
    client.send(STREAM)
    stream = (await bench.opened()).head(200, EVENTS).data(DELTA)
    await client.head()
    assert await client.chunk() == DELTA
    monkeypatch.setattr(StreamWatch, "feed", lambda *_: 1 / 0)
    with capture_logs() as logs:
        stream.data(DELTA)
    assert "exchange_crashed" in [line["event"] for line in logs]
    assert stream.cancelled == "the router failed"
    with pytest.raises(ConnectionError):
        await client.ended()


async def test_a_link_may_answer_before_it_returns(bench: Bench) -> None:
    """Everything still happens in order, retries included."""

    def at_once(path: SessionPath, *, sink: Sink, **request: Any) -> FakeStream:
        stream = FakeStream(path, sink=sink, **request)
        bench.link.streams.append(stream)
        if len(bench.link.streams) < 3:
            stream.fail(FailKind.MESH_LOST, begun=False)
        else:
            stream.answer(ANSWER)
        return stream

    bench.front.desk.link = cast("Link", SimpleNamespace(open=at_once))
    answer = await (await bench.client()).ask(post())
    assert (answer.status, answer.headers["x-otela-attempts"]) == (200, "3")
