"""The parts of a mesh on this machine: each a process that is started again when it dies."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from opentela.core.clock import Clock
from opentela.core.errors import UnavailableError
from opentela.local.restarts import DEATHS_MAX, WINDOW_S, Restarts


class Process(Protocol):
    """What servers and services have in common."""

    @property
    def pid(self) -> int:
        """The process id."""

    @property
    def log(self) -> Path:
        """Where it writes what it does."""

    async def wait(self) -> int:
        """Return its exit status once it has ended; negative for a signal."""

    async def stop(self) -> None:
        """End it in order."""


Launch = Callable[[], Awaitable[Process]]
Report = Callable[[str], None]


class Part:
    """One part: who it is, and the process that is it at the moment.

    Attributes:
        name: For people.
        process: Runs, or has just ended.
    """

    def __init__(self, name: str, launch: Launch, process: Process) -> None:
        self.name = name
        self.process = process
        self._launch = launch

    @classmethod
    async def start(cls, name: str, launch: Launch) -> "Part":
        """Launch a process and return the part once it is ready."""
        return cls(name, launch, await launch())

    async def keep(self, clock: Clock, report: Report) -> None:
        """Start it again whenever it dies, saying so; never return.

        Raises:
            UnavailableError: It dies again and again, or does not start any more.
        """
        restarts = Restarts()
        while True:
            status = await self.process.wait()
            delay_s = restarts.after_death(clock.now())
            if delay_s is None:
                raise UnavailableError(
                    f"{self.name} died {DEATHS_MAX} times within {WINDOW_S:g} s",
                    remedy=f"read {self.process.log}",
                )
            report(f"{self.name} ended ({_cause(status)}); starting it again")
            await asyncio.sleep(delay_s)
            self.process = await self._launch()
            report(f"{self.name} runs again")

    async def stop(self) -> None:
        """End it in order."""
        await self.process.stop()


def _cause(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"
