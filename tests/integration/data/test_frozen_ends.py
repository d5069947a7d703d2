"""A session in a process of its own, over a channel: it freezes, thaws, or dies at any moment."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.integration.data.builder import Builder
from tests.integration.data.fabric import PATH, Fabric, Recorder
from tests.integration.data.raw_engine import RawEngine, RawRequest

from opentela.mesh import access as access_files
from opentela.mesh.identity import Identity
from opentela.router.config import HomeConfig
from opentela.router.home_port import HomePort
from opentela.stream.caller import CallerSettings
from opentela.testing.mesh import until
from opentela.wire.frames import FailKind

pytestmark = pytest.mark.nats

CALLER = CallerSettings(ack_timeout_s=2.0, idle_timeout_s=2.0)
EVENT = b"data: 1\n\n"


async def promise(request: RawRequest) -> None:
    """Send a head, and an event for those who ask for one; then nothing more."""
    request.stream()
    if request.body != b"head":
        request.chunk(EVENT)
    await request.gone()


class Apart(NamedTuple):
    """A session that calls home from a process of its own."""

    fabric: Fabric
    engine: RawEngine
    process: asyncio.subprocess.Process

    async def streaming(self) -> Recorder:
        """Return a stream that has begun on the channel."""
        asked = self.fabric.ask()
        await until(lambda: asked.body == EVENT)
        assert asked.stream is not None
        assert asked.stream.channel is not None
        return asked

    async def works(self) -> bool:
        """Return whether a stream begins, whatever carries it."""
        asked = self.fabric.ask()
        await until(lambda: asked.body == EVENT or asked.failure is not None)
        assert asked.stream is not None
        asked.stream.cancel("seen")
        return asked.failure is None


@pytest.fixture
async def apart(build: Builder, tmp_path: Path) -> AsyncIterator[Apart]:
    """A session whose channel stands."""
    engine = await build.stack.enter_async_context(RawEngine(promise))
    fabric = Fabric(build.mesh, session_at="a", stack=build.stack)
    await fabric.open_link(CALLER)
    access, announce = tmp_path / "access.toml", tmp_path / "ready"
    access_files.write(access, build.mesh.access(role="provider", provider="p", at="a"))
    module = "tests.integration.data.session_process"
    arguments = (str(access), str(engine.address.port), str(announce))
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", module, *arguments)
    try:
        await until(announce.exists)
        key = announce.read_text()
        port = HomePort(
            HomeConfig(address="127.0.0.1:0"),
            fabric.link,
            router=Identity.new(),
            find=lambda name: (PATH, key) if name == PATH.session else None,
        )
        await port.start()
        build.stack.push_async_callback(port.close)
        await fabric.reachable()
        fabric.link._seek_channel(PATH)
        await until(lambda: PATH in fabric.link._channels)
        yield Apart(fabric, engine, process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def test_one_that_freezes_in_mid_stream_is_left_and_used_again(apart: Apart) -> None:
    """Its stream fails; what it says of that after it has thawed harms nobody."""
    asked = await apart.streaming()
    apart.process.send_signal(signal.SIGSTOP)
    failure = (await asked.wait()).failure
    assert failure is not None
    assert (failure.kind, failure.definite) == (FailKind.SILENT, False)
    apart.process.send_signal(signal.SIGCONT)
    await until(apart.works)
    await until(lambda: all(one.left.is_set() for one in apart.engine.connections))
    assert apart.fabric.link.in_flight == 0


@pytest.mark.parametrize("body", [b"head", b"{}"])
async def test_one_that_is_killed_fails_what_it_carried_at_once(apart: Apart, body: bytes) -> None:
    """Between the head and the first of the answer, or after that."""
    asked = apart.fabric.ask(body)
    await until(lambda: "head" in asked.told and (body == b"head" or asked.body == EVENT))
    apart.process.kill()
    failure = (await asked.wait()).failure
    assert failure is not None
    assert (failure.kind, failure.definite) == (FailKind.CHANNEL_LOST, False)
    gone = (await apart.fabric.ask().wait()).failure
    assert gone is not None
    assert gone.kind in (FailKind.NO_RESPONDERS, FailKind.UNACKNOWLEDGED)
