"""The fake and the real engine as processes that a test owns."""

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, Literal

Kind = Literal["fake", "llama"]

_STARTED_WITHIN_S: Final = 60.0
_STOPPED_WITHIN_S: Final = 10.0
_LISTENING: Final = "listening on "


class EngineProcess:
    """A running engine.

    Attributes:
        url: Where it listens, such as `http://127.0.0.1:41234`.
        model: The name that it answers to.
        process: For signals; it is ended by `running`.
    """

    def __init__(self, url: str, model: str, process: asyncio.subprocess.Process) -> None:
        self.url = url
        self.model = model
        self.process = process

    @property
    def port(self) -> int:
        """Where it listens on loopback."""
        return int(self.url.rpartition(":")[2])


@asynccontextmanager
async def running(
    kind: Kind, *arguments: str, model: str = "tiny", environ: Mapping[str, str] | None = None
) -> AsyncIterator[EngineProcess]:
    """Run an engine on a free port until the block ends.

    Raises:
        AssertionError: It ended, or did not listen in time; the message has its output.
    """
    name = {"fake": "--model", "llama": "--alias"}[kind]
    command = [sys.executable, "-m", f"opentela.testing.{kind}_engine", "--port", "0", name, model]
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *command,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **(environ or {})},
        )
        try:
            url = await _listening(process)
            assert url, f"{kind} engine did not start: {_said(errors.fileno())}"
            yield EngineProcess(url, model, process)
        finally:
            await _end(process)


async def _listening(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_STARTED_WITHIN_S):
            async for line in process.stdout:
                if line.startswith(_LISTENING.encode()):
                    return line.decode().strip().removeprefix(_LISTENING)
    return ""


def _said(descriptor: int) -> str:
    return os.pread(descriptor, 1 << 16, 0).decode(errors="replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(_STOPPED_WITHIN_S):
                await process.wait()
        except TimeoutError:
            process.kill()
    await process.wait()
