"""Parts of a mesh that die are started again, and that is told."""

import asyncio
from pathlib import Path

import pytest

from opentela.core.errors import UnavailableError
from opentela.local.parts import Part
from opentela.local.restarts import DEATHS_MAX
from opentela.service import SystemClock


class FakeProcess:
    """A process that ends when told to, at once when it is *short_lived*."""

    def __init__(self, *, short_lived: bool = False) -> None:
        self.pid = 1
        self.log = Path("hub.log")
        self.ended = asyncio.Event()
        if short_lived:
            self.ended.set()

    async def wait(self) -> int:
        await self.ended.wait()
        return -9

    async def stop(self) -> None:
        self.ended.set()


async def test_a_part_that_dies_is_started_again() -> None:
    """Once each, one line before and one after."""
    made: list[FakeProcess] = []
    told: list[str] = []
    second = asyncio.Event()

    async def launch() -> FakeProcess:
        made.append(FakeProcess())
        if len(made) == 2:
            second.set()
        return made[-1]

    part = await Part.start("hub", launch)
    keeper = asyncio.create_task(part.keep(SystemClock(), told.append))
    made[0].ended.set()
    async with asyncio.timeout(10):
        await second.wait()
    keeper.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeper
    assert told[0] == "hub ended (signal 9); starting it again"
    assert part.process is made[1]
    await part.stop()
    assert made[1].ended.is_set()


async def test_a_part_that_cannot_live_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says where its log is."""
    monkeypatch.setattr("opentela.local.restarts.DELAY_S", 0.001)
    told: list[str] = []

    async def launch() -> FakeProcess:
        return FakeProcess(short_lived=True)

    part = await Part.start("router", launch)
    with pytest.raises(UnavailableError, match=f"router died {DEATHS_MAX} times") as caught:
        await part.keep(SystemClock(), told.append)
    assert caught.value.remedy == "read hub.log"
    assert told.count("router runs again") == DEATHS_MAX - 1
