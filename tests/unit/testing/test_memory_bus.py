"""What only the bus in memory can do; the rest is the contract that it shares with the real one."""

import asyncio

import pytest

from opentela.core.errors import MeshUnavailableError
from opentela.mesh.bus import Message
from opentela.testing.memory_bus import MemoryMesh
from opentela.testing.virtual_loop import virtual_time


def test_messages_take_their_time_on_the_loops_clock() -> None:
    """An hour of latency passes in a moment, and a time-out of ten hours too."""

    async def main() -> None:
        mesh = MemoryMesh(latency_s=3600.0)
        loop = asyncio.get_running_loop()
        arrived = loop.create_future()
        bus = mesh.bus("a")
        await mesh.bus("b").subscribe("x", lambda _: arrived.set_result(loop.time()))
        await bus.publish("x", b"1")
        assert await arrived == 3600.0
        await mesh.bus("b").subscribe("y", lambda _: None)
        with pytest.raises(MeshUnavailableError, match="within 36000 s"):
            await bus.request("y", b"?", timeout_s=36000.0)
        assert loop.time() == 3600.0 + 36000.0

    with virtual_time() as runner:
        runner.run(main())


def test_handlers_that_fail_are_counted() -> None:
    """So that a test can insist that none did."""

    def fail(message: Message) -> None:
        raise ValueError(message)

    async def main() -> None:
        mesh = MemoryMesh()
        bus = mesh.bus("a")
        await bus.subscribe("x", fail)
        await bus.publish("x", b"1")
        got = asyncio.get_running_loop().create_future()
        await bus.subscribe("x", got.set_result)
        await bus.publish("x", b"2")
        await got
        assert mesh.handler_failures == 2

    with virtual_time() as runner:
        runner.run(main())


def test_a_message_under_way_to_a_bus_that_left_is_not_delivered() -> None:
    """Closing withdraws every interest, as on the real bus."""

    async def main() -> None:
        mesh = MemoryMesh(latency_s=1.0)
        loop = asyncio.get_running_loop()
        got: list[object] = []
        last = loop.create_future()
        there, here = mesh.bus("b"), mesh.bus("a")
        await there.subscribe("x", got.append)
        await here.subscribe("x", last.set_result)
        await here.publish("x", b"1")
        await there.close()
        await last
        assert got == []

    with virtual_time() as runner:
        runner.run(main())
