"""Child processes: known to be ready, ended in order, and never left behind."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from opentela.core.errors import UnavailableError
from opentela.local.children import Child

SERVICE = """
import asyncio
from opentela import service
from opentela.core.errors import ConfigError
from opentela.telemetry.config import HealthConfig

async def main(life):
    await life.health.open(HealthConfig())
    {body}
    await life.stopping.wait()

service.run(main, name="child")
"""
STUBBORN = """
import signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True: signal.pause()
"""


@pytest_asyncio.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def start(tmp_path: Path, source: str) -> Child:
    return await Child.start("child", [sys.executable, "-c", source], log=tmp_path / "child.log")


async def test_a_child_is_awaited_until_it_takes_work(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    """Where it serves is read from its log, and its own health page says when."""
    child = await start(tmp_path, SERVICE.format(body="life.ready(flag=True)"))
    try:
        await child.wait_until_ready(http)
        async with http.get(f"{child.health}/livez") as answer:
            assert answer.ok
    finally:
        await child.stop()
    assert not child.is_running
    assert await child.wait() == 0


async def test_a_child_that_ends_says_why(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    """Its last words are in the message, so that no log need be opened."""
    child = await start(tmp_path, SERVICE.format(body="raise ConfigError('x = 0 is wrong')"))
    with pytest.raises(UnavailableError, match="ended with status 2: otela child: x = 0 is wrong"):
        await child.wait_until_ready(http)


async def test_a_child_that_never_gets_ready_is_given_up(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    """A service that hangs at start does not hang its starter."""
    child = await start(tmp_path, SERVICE.format(body="pass"))
    try:
        with pytest.raises(UnavailableError, match=r"was not ready within 0\.5 s"):
            await child.wait_until_ready(http, timeout_s=0.5)
    finally:
        await child.stop()


async def test_a_child_that_runs_may_be_enough(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    """A registry that misses sessions is unready for as long, and no reason not to start a mesh."""
    child = await start(tmp_path, SERVICE.format(body="life.ready(flag=False, reason='missed')"))
    try:
        await child.wait_until_ready(http, page="livez")
        async with http.get(f"{child.health}/readyz") as answer:
            assert not answer.ok
    finally:
        await child.stop()


async def test_a_child_that_ignores_the_request_is_ended(tmp_path: Path) -> None:
    """Stopping always ends."""
    child = await start(tmp_path, STUBBORN)
    await child.stop(grace_s=0.1)
    assert await child.wait() < 0


async def test_a_missing_program_is_named(tmp_path: Path) -> None:
    """The message is for who installed it."""
    with pytest.raises(UnavailableError, match="cannot start ghost: No such file"):
        await Child.start("ghost", ["no-such-program-here"], log=tmp_path / "log")


async def test_children_die_with_their_parent(tmp_path: Path) -> None:
    """A killed parent, which can tidy up nothing, leaves nothing behind."""
    source = f"""
import asyncio, sys
from pathlib import Path
from opentela.local.children import Child

async def main():
    child = await Child.start(
        "child", [sys.executable, "-c", "import signal; signal.pause()"],
        log=Path({str(tmp_path / "child.log")!r}),
    )
    print(child.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", source, stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    descriptor = os.pidfd_open(pid)
    try:
        parent.kill()
        await parent.communicate()
        await _readable(descriptor)
    finally:
        os.close(descriptor)


async def _readable(descriptor: int) -> None:
    """Return once the process behind a pidfd has ended."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, ended.set)
    try:
        async with asyncio.timeout(10):
            await ended.wait()
    finally:
        loop.remove_reader(descriptor)
