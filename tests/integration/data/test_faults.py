"""What breaks between a router and a session: each stream fails loudly, and soon."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.data.builder import Builder
from tests.integration.data.fabric import Fabric, Recorder
from tests.integration.data.raw_engine import RawEngine, RawRequest

from opentela.mesh import access as access_files
from opentela.stream.callee import CalleeSettings
from opentela.stream.caller import CallerSettings
from opentela.supervisor.gateway import GatewaySettings
from opentela.testing.mesh import HUB, until
from opentela.wire.frames import FailKind

pytestmark = pytest.mark.nats

CALLER = CallerSettings(ack_timeout_s=1.0, idle_timeout_s=1.5, keepalive_s=0.2)
GATEWAY = GatewaySettings(stream=CalleeSettings(keepalive_s=0.1, router_timeout_s=0.8))


async def begin(request: RawRequest) -> None:
    """Begin a stream that goes on until its connection is closed."""
    request.stream()
    request.chunk(b"data: 1\n\n")
    await request.gone()


async def streaming(fabric: Fabric) -> Recorder:
    """Return a stream that has begun; who is not answered in time on shared cores asks again."""
    while True:
        asked = fabric.ask()
        await until(lambda asked=asked: asked.body == b"data: 1\n\n" or asked.failure is not None)
        if asked.failure is None:
            return asked


async def failed(asked: Recorder, *kinds: FailKind) -> None:
    failure = (await asked.wait()).failure
    assert failure is not None
    assert failure.kind in kinds
    assert not failure.definite


class Process:
    """A session in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


@pytest.fixture
async def apart(build: Builder, tmp_path: Path) -> AsyncIterator[tuple[Fabric, RawEngine, Process]]:
    """A session that can be stopped and killed, and a link that asks it."""
    engine = await build.stack.enter_async_context(RawEngine(begin))
    fabric = Fabric(build.mesh, session_at="a", stack=build.stack)
    await fabric.open_link(CALLER)
    access, announce = tmp_path / "access.toml", tmp_path / "ready"
    access_files.write(access, build.mesh.access(role="provider", provider="p", at="a"))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.integration.data.session_process",
        str(access),
        str(engine.address.port),
        str(announce),
    )
    try:
        await until(announce.exists)
        await fabric.reachable()
        yield fabric, engine, Process(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def test_a_session_that_is_frozen_in_mid_stream_is_found_silent(
    apart: tuple[Fabric, RawEngine, Process],
) -> None:
    """Keep-alives stop; the router does not wait for TCP."""
    fabric, _, session = apart
    asked = await streaming(fabric)
    session.send(signal.SIGSTOP)
    await failed(asked, FailKind.SILENT)


async def test_a_frozen_session_does_not_acknowledge(
    apart: tuple[Fabric, RawEngine, Process],
) -> None:
    """Nothing at all comes back; and when it goes on, the request was taken back meanwhile."""
    fabric, engine, session = apart
    session.send(signal.SIGSTOP)
    await failed(fabric.ask(), FailKind.UNACKNOWLEDGED)
    session.send(signal.SIGCONT)
    asked = await streaming(fabric)
    assert asked.failure is None
    assert asked.stream is not None
    asked.stream.cancel("seen")
    await until(lambda: all(one.left.is_set() for one in engine.connections))


async def test_a_session_that_is_killed_in_mid_stream_is_noticed(
    apart: tuple[Fabric, RawEngine, Process],
) -> None:
    """At the next word to it at the latest, as the mesh answers that nobody is there."""
    fabric, engine, session = apart
    asked = await streaming(fabric)
    session.send(signal.SIGKILL)
    await failed(asked, FailKind.SILENT, FailKind.NO_RESPONDERS)
    await until(lambda: all(one.left.is_set() for one in engine.connections))


async def test_a_leaf_that_restarts_breaks_its_streams_and_serves_again(build: Builder) -> None:
    """The stream fails, the engine stops, and the session is reached again by itself."""
    fabric, engine = await build(begin, caller=CALLER, gateway=GATEWAY)
    asked = await streaming(fabric)
    await build.mesh.restart("a")
    await failed(asked, FailKind.SILENT, FailKind.NO_RESPONDERS, FailKind.MESH_LOST)
    await until(engine.connections[0].left.is_set)
    assert fabric.gateway.in_flight == 0
    await until(lambda: fabric.session_client.is_connected)
    await fabric.reachable()
    again = await streaming(fabric)
    assert again.failure is None


async def test_a_hub_that_restarts_breaks_the_routers_streams_at_once(build: Builder) -> None:
    """The router knows that it lost the mesh; the session stops its engine when told or left."""
    fabric, engine = await build(begin, caller=CALLER, gateway=GATEWAY)
    asked = await streaming(fabric)
    await build.mesh.restart(HUB)
    await failed(asked, FailKind.MESH_LOST)
    await until(engine.connections[0].left.is_set)
    await until(lambda: fabric.router_client.is_connected)
    await fabric.reachable()
    again = await streaming(fabric)
    assert again.failure is None


async def test_asking_without_a_mesh_fails_surely_and_afterwards(build: Builder) -> None:
    """Not within the call that asks."""
    fabric, _ = await build(begin, caller=CALLER, gateway=GATEWAY)
    await build.mesh.server(HUB).kill()
    await until(lambda: not fabric.router_client.is_connected)
    asked = fabric.ask()
    assert asked.told == []
    failure = (await asked.wait()).failure
    assert failure is not None
    assert (failure.kind, failure.definite) == (FailKind.MESH_LOST, True)
    assert fabric.link.in_flight == 0


async def test_a_router_that_vanishes_does_not_leave_its_engine_working(build: Builder) -> None:
    """Nobody reads the tokens of a router that is gone."""
    fabric, engine = await build(begin, caller=CALLER, gateway=GATEWAY)
    await streaming(fabric)
    # As SIGKILL would: the socket is cut, and nobody says a word.
    fabric.link.on_mesh = lambda *, connected: None  # type: ignore[method-assign]
    await fabric.router_client.close()
    await until(engine.connections[0].left.is_set)
    assert fabric.gateway.in_flight == 0


async def test_a_sink_that_fails_harms_only_its_stream(build: Builder) -> None:
    """Its session is told to stop, and others go on."""

    class Faulty(Recorder):
        def on_data(self, data: bytes) -> None:
            raise RuntimeError("a bug above")

    fabric, engine = await build(begin, caller=CALLER, gateway=GATEWAY)
    other = await streaming(fabric)
    fabric.ask(sink=Faulty())
    await until(lambda: len(engine.connections) == 2 and engine.connections[1].left.is_set())
    assert fabric.link.in_flight == 1
    assert other.failure is None
