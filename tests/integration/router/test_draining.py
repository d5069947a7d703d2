"""A router that ends lets its clients finish, and go elsewhere of their own accord."""

import asyncio
import os
import socket

import pytest
from structlog.testing import capture_logs
from tests.integration.router.conftest import Bench, MakeBench
from tests.integration.router.raw import get, post
from tests.integration.router.test_forwarding import ANSWER, DELTA, DONE, STOP
from tests.unit.router.parts import session_of

from opentela.core.errors import ConfigError
from opentela.router import listening
from opentela.router.config import AttemptConfig, ListenConfig
from opentela.testing.fake_link import EVENTS

LONG_S = 30.0
"""Longer than a test waits: what ends sooner was not waited for."""


async def test_a_draining_router_finishes_what_runs(bench: Bench) -> None:
    """Idle connections close, the last answer closes its own, new ones are not taken."""
    idle, client = await bench.client(), await bench.client()
    client.send(post() + post())
    await bench.until(lambda: len(bench.link.streams) == 1 and len(bench.front.gate) == 2)
    with capture_logs() as logs:
        draining = asyncio.create_task(bench.front.drain())
        assert await idle.ended() == b""
        with pytest.raises(OSError, match=r"refused|reset|failed"):
            await (await bench.client()).ask(post())
        assert not draining.done()
        bench.link.streams[0].answer(b"{}")
        answer = await client.answer()
        assert answer.headers["connection"] == "close"
        assert answer.headers["x-otela-session"] == session_of(0)
        await draining
    assert await client.ended() == b""
    assert [line["event"] for line in logs] == ["request_finished", "drained"]


async def test_a_request_on_a_kept_connection_is_served_while_draining(
    make_bench: MakeBench,
) -> None:
    """It was on its way: its answer is the one that closes the connection."""
    bench = await make_bench(drain_idle_s=LONG_S, drain_s=LONG_S)
    bench.link.script = lambda stream: stream.answer(ANSWER)
    client, fresh = await bench.client(), await bench.client()
    assert "connection" not in (await client.ask(post())).headers
    await bench.until(lambda: len(bench.front.gate) == 2)
    draining = asyncio.create_task(bench.front.drain())
    await bench.until(lambda: bench.front.gate.is_closing)
    for kept in (client, fresh):
        assert not draining.done()
        answer = await kept.ask(post())
        assert (answer.body, answer.headers["connection"]) == (ANSWER, "close")
        assert await kept.ended() == b""
    async with asyncio.timeout(LONG_S / 2):
        await draining


async def test_a_stream_that_runs_ends_well_while_draining(bench: Bench) -> None:
    """Its head did not say that the connection closes; its end does."""
    client = await bench.client()
    client.send(post(b'{"model":"m","stream":true}'))
    stream = (await bench.opened()).head(200, EVENTS).data(DELTA)
    await client.head()
    assert await client.chunk() == DELTA
    draining = asyncio.create_task(bench.front.drain())
    await bench.until(lambda: bench.front.gate.is_closing)
    stream.data(STOP + DONE).end()
    assert await client.chunk() == STOP + DONE
    assert await client.chunk() == b""
    assert await client.ended() == b""
    await draining


async def test_the_end_of_an_answer_is_waited_for(make_bench: MakeBench) -> None:
    """A slow client has not got it when the engine is long done."""
    part, size = 64 << 10, 32 << 20
    bench = await make_bench(
        drain_idle_s=0, drain_s=LONG_S, attempts=AttemptConfig(held_bytes_max=2 * size)
    )
    client = await bench.client()
    client.stop_reading()
    client.send(post())
    stream = (await bench.opened()).head()
    for _ in range(size // part):
        stream.data(b"x" * part)
    stream.end()
    await bench.until(lambda: bench.front.desk.in_flight == 0)
    draining = asyncio.create_task(bench.front.drain())
    await bench.until(lambda: bench.front.gate.is_closing)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not draining.done()
    client.go_on_reading()
    assert len((await client.answer()).body) == size
    await draining


async def test_new_connections_are_taken_while_balancers_look(make_bench: MakeBench) -> None:
    """As long as was configured; each of them gets one answer."""
    bench = await make_bench(drain_notice_s=LONG_S, drain_s=LONG_S)
    bench.link.script = lambda stream: stream.answer(ANSWER)
    draining = asyncio.create_task(bench.front.drain())
    await bench.until(lambda: bench.front.gate.is_closing)
    answer = await (await bench.client()).ask(post())
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    draining.cancel()


async def test_a_drain_takes_no_longer_than_it_may(make_bench: MakeBench) -> None:
    """What still runs is cut, and its engine stopped."""
    bench = await make_bench(drain_s=0.01)
    client = await bench.client()
    client.send(post())
    await bench.until(lambda: len(bench.link.streams) == 1)
    with capture_logs() as logs:
        await bench.front.drain()
        await bench.front.stop()
        await bench.until(lambda: bench.link.streams[0].ended)
    assert bench.link.streams[0].cancelled == "the client left"
    assert [line["event"] for line in logs] == ["drain_cut_short", "request_finished"]


@pytest.fixture
def passed() -> socket.socket:
    """A socket that listens, held by who would start routers."""
    return socket.create_server(("127.0.0.1", 0))


async def test_a_shared_socket_is_handed_over_without_a_refusal(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch, passed: socket.socket
) -> None:
    """What connects between two routers waits for the second."""
    monkeypatch.setattr(listening, "_FIRST", passed.fileno())
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.delenv("LISTEN_PID", raising=False)
    config = ListenConfig(address="inherited")
    with passed:
        first = await make_bench(listen=config)
        first.link.script = lambda stream: stream.answer(ANSWER)
        assert (await (await first.client()).ask(post())).status == 200
        await first.front.drain()
        between = (await first.client()).send(post())
        second = await make_bench(listen=config)
        assert second.front.url == first.front.url
        second.link.script = lambda stream: stream.answer(ANSWER)
        assert (await between.answer()).status == 200


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "exactly one"),
        ({"LISTEN_FDS": "2"}, "exactly one"),
        ({"LISTEN_FDS": "1", "LISTEN_PID": "1"}, "exactly one"),
        ({"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}, "no socket"),
    ],
)
def test_what_was_not_passed_is_said(
    environ: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what to do about it."""
    monkeypatch.setattr(listening, "_FIRST", 9999)
    with pytest.raises(ConfigError, match=words) as error:
        listening.inherited(environ)
    assert "systemd" in error.value.remedy


def test_a_socket_that_does_not_listen_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a connection, or nothing yet."""
    with socket.socket() as idle:
        monkeypatch.setattr(listening, "_FIRST", idle.fileno())
        with pytest.raises(ConfigError, match="does not listen"):
            listening.inherited({"LISTEN_FDS": "1"})


async def test_readiness_is_told_on_the_port_while_draining(make_bench: MakeBench) -> None:
    """That is where balancers look."""
    bench = await make_bench(drain_notice_s=LONG_S, drain_s=LONG_S)
    bench.front.set_ready(flag=False, reason="stopping")
    draining = asyncio.create_task(bench.front.drain())
    answer = await (await bench.client()).ask(get("/readyz"))
    assert (answer.status, answer.json["reason"]) == (503, "stopping")
    draining.cancel()
