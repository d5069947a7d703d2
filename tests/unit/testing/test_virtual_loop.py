"""Time passes only when everybody waits, and waiting for nothing is an error."""

import asyncio
import time

import pytest

from opentela.testing.virtual_loop import HangError, virtual_time


def test_an_hour_passes_in_a_moment() -> None:
    """Sleeping moves the virtual clock and takes no real time."""

    async def main() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    began = time.monotonic()
    with virtual_time() as runner:
        assert runner.run(main()) == pytest.approx(3600)
    assert time.monotonic() - began < 5


def test_timers_keep_their_order() -> None:
    """Tasks wake in the order of their deadlines, however they were started."""

    async def main() -> list[float]:
        woken: list[float] = []

        async def nap(length_s: float) -> None:
            await asyncio.sleep(length_s)
            woken.append(length_s)

        async with asyncio.TaskGroup() as group:
            for length_s in (30.0, 0.5, 1000.0, 2.0):
                group.create_task(nap(length_s))
        return woken

    with virtual_time() as runner:
        assert runner.run(main()) == [0.5, 2.0, 30.0, 1000.0]


def test_a_timeout_of_asyncio_works() -> None:
    """`asyncio.timeout` ends a wait that nothing else would end."""

    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    with virtual_time() as runner:
        assert runner.run(main()) == pytest.approx(60)


def test_a_hang_is_an_error() -> None:
    """A task that waits for what nobody does ends the test at once."""

    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(HangError), virtual_time() as runner:
        runner.run(main())
