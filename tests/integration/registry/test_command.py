"""`otela registry` as operators run it: a process, its health page, its end."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.integration.registry.field import Field, new_owner

from opentela.mesh import access as accesses
from opentela.registry import state
from opentela.testing.mesh import until

pytestmark = pytest.mark.nats

QUICK = {"OTELA_REGISTRY__DETECTOR__GRACE_S": "60", "OTELA_REGISTRY__PEERS__LEARN_S": "0.2"}


class Process:
    """A running `otela registry`.

    Attributes:
        lines: What it has logged so far.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []

    async def read_log(self) -> None:
        """Take its log until it ends."""
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(json.loads(line))

    def url(self) -> str:
        """Return its health page, once it has one."""
        urls = [line["url"] for line in self.lines if line["event"] == "health_page_opened"]
        return urls[0] if urls else ""

    async def get(self, path: str) -> tuple[int, str]:
        """Return status and text of a page."""
        async with aiohttp.ClientSession() as client, client.get(self.url() + path) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def running(*arguments: str, environ: Mapping[str, str]) -> AsyncIterator[Process]:
    """Run the command; it is killed at the end if it is still there."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "opentela.cli", "registry", *arguments),
        stderr=asyncio.subprocess.PIPE,
        env={**environ},
    )
    process = Process(child)
    reading = asyncio.ensure_future(process.read_log())
    try:
        yield process
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()
        await reading


async def output(*arguments: str) -> tuple[int | None, str]:
    """Return exit code and standard error of a command that ends by itself."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "opentela.cli", "registry", *arguments),
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    _, error = await child.communicate()
    return child.returncode, error.decode()


async def test_it_serves_tells_its_health_and_ends_when_asked(field: Field, tmp_path: Path) -> None:
    """Green, red for a ghost's model, and its map kept for the next life."""
    access, kept = tmp_path / "registry.toml", tmp_path / "registry.state"
    accesses.write(access, field.mesh.access(role="registry"))
    flags = ("--set", f"access={access}", "--set", f"retention.state_file={kept}")
    owner = new_owner(models=("ghost",))
    async with running(*flags, environ=QUICK) as registry:
        await until(lambda: any(line["event"] == "registry_started" for line in registry.lines))

        async def is_ready() -> bool:
            return (await registry.get("/readyz"))[0] == 200

        await until(is_ready)
        async with field.session(owner) as session, field.view() as view:
            await until(lambda: len(view.records) == 1)
            await session.die()

            async def is_red() -> bool:
                status, text = await registry.get("/readyz")
                return status == 503 and "ghost" in text

            await until(is_red)
        _, text = await registry.get("/status")
        status = json.loads(text)
        assert (status["sessions"], status["models_unroutable"]) == (1, ["ghost"])
        _, text = await registry.get("/metrics")
        assert "otela_registry_models_unroutable 1.0" in text
        registry.process.send_signal(signal.SIGTERM)
        assert await registry.process.wait() == 0
    assert "registry_stopped" in [line["event"] for line in registry.lines]
    restored = state.read(kept)
    assert restored is not None
    assert len(restored.records) == 1


async def test_without_access_it_says_what_to_do(tmp_path: Path) -> None:
    """One line each, and the exit code of a usage error."""
    code, error = await output("--set", f"access={tmp_path / 'none.toml'}")
    assert (code, error.count("\n")) == (2, 1)
    assert "none.toml" in error
    code, error = await output()
    assert (code, error.count("\n")) == (2, 1)
    assert "access is not configured" in error


async def test_the_access_of_another_role_is_refused(field: Field, tmp_path: Path) -> None:
    """Before anything is tried with it."""
    access = tmp_path / "router.toml"
    accesses.write(access, field.mesh.access(role="router"))
    code, error = await output("--set", f"access={access}")
    assert (code, error.count("\n")) == (2, 1)
    assert "access file of a router" in error
