"""Services of ours as child processes: started, known to be ready, ended; none is left behind."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import aiohttp
import msgspec

from opentela import tether
from opentela.core.errors import OtelaError, UnavailableError
from opentela.mesh import files

READY_TIMEOUT_S: Final = 20.0
"""A service is ready in a second; a loaded login node may take several."""
STOP_GRACE_S: Final = 5.0
"""From SIGTERM to SIGKILL; there is nobody left to drain for."""
_POLL_S: Final = 0.02
"""How often log and health page are read until the child is ready."""
_LINES_SHOWN: Final = 3


class _Logged(msgspec.Struct):
    """The part of a log line that is read here."""

    event: str = ""
    url: str = ""


_LOGGED: Final = msgspec.json.Decoder(_Logged)


class Child:
    """One service as a process of its own, with its log in a file.

    Attributes:
        name: For people.
        health: Base URL of its health page, once `wait_until_ready` has returned.
    """

    def __init__(
        self, name: str, log: Path, process: asyncio.subprocess.Process, *, said_from: int
    ) -> None:
        self.name = name
        self.log = log
        self.health = ""
        self._process = process
        self._said_from = said_from

    @classmethod
    async def start(
        cls, name: str, argv: Sequence[str], *, log: Path, environ: Mapping[str, str] | None = None
    ) -> "Child":
        """Start *argv*; what it prints is added to *log*."""
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, files.PRIVATE_FILE)
        said_from = os.fstat(descriptor).st_size
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                env={**os.environ, **(environ or {})},
                # A Ctrl-C is for us: we end the children in order.
                start_new_session=True,
                preexec_fn=tether.to_this_process(),
            )
        except OSError as error:
            raise UnavailableError(f"cannot start {name}: {error.strerror}") from error
        finally:
            os.close(descriptor)
        return cls(name, log, process, said_from=said_from)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.returncode is None

    async def wait(self) -> int:
        """Return the exit status once it has ended; negative for a signal."""
        return await self._process.wait()

    def kill(self) -> None:
        """End the process and what it started, as a crash would."""
        self._signal(signal.SIGKILL)

    async def stop(self, *, grace_s: float = STOP_GRACE_S) -> None:
        """Ask it to end; after *grace_s*, end it."""
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                await self._process.wait()
        except TimeoutError:
            pass
        finally:
            self._signal(signal.SIGKILL)
            await self._process.wait()

    async def wait_until_ready(
        self,
        http: aiohttp.ClientSession,
        *,
        timeout_s: float = READY_TIMEOUT_S,
        page: Literal["readyz", "livez"] = "readyz",
    ) -> None:
        """Return once its health page says that it takes work, or on `livez` that it runs.

        Raises:
            UnavailableError: It ended, or was not ready in time; the message holds its last words.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not await self._says_yes(http, page):
                    if not self.is_running:
                        raise self.failure(f"ended with status {self._process.returncode}")
                    await asyncio.sleep(_POLL_S)
        except TimeoutError as error:
            raise self.failure(f"was not ready within {timeout_s:g} s") from error

    def failure(self, what: str) -> OtelaError:
        """Return *what* happened to it with the last words of its log."""
        lines = self._read().decode(errors="replace").strip().splitlines()
        # A service says in plain words why it ends; JSON lines before that are its history.
        plain = [line for line in lines if not line.startswith("{")] or lines
        said = (
            " | ".join(line.strip() for line in plain[-_LINES_SHOWN:])
            if plain
            else "it said nothing"
        )
        return UnavailableError(f"{self.name} {what}: {said}", remedy=f"read {self.log}")

    async def _says_yes(self, http: aiohttp.ClientSession, page: str) -> bool:
        self.health = self.health or self._logged_url()
        if not self.health:
            return False
        try:
            async with http.get(f"{self.health}/{page}") as answer:
                return answer.ok
        except aiohttp.ClientError:
            return False

    def _logged_url(self) -> str:
        for line in self._read().splitlines():
            if b"health_page_opened" in line:
                with contextlib.suppress(msgspec.DecodeError):
                    return _LOGGED.decode(line).url
        return ""

    def _read(self) -> bytes:
        return self.log.read_bytes()[self._said_from :]

    def _signal(self, number: signal.Signals) -> None:
        # The group outlives its leader when something was left behind in it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
