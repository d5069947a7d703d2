"""Usage is heard on a connection of its own, in a thread of its own, and not without bound."""

import pytest
from tests.unit.placer.live import parts

from opentela.mesh.bus import Bus
from opentela.placer.live import ear as ears
from opentela.placer.live.ear import Ear
from opentela.testing.mesh import TestMesh, until
from opentela.wire import subjects, usage
from opentela.wire.usage import UsageRecord

pytestmark = pytest.mark.nats


async def hears(ear: Ear, router: Bus, heard: list[UsageRecord]) -> None:
    """Wait until what a router tells arrives."""

    async def is_heard() -> bool:
        await router.publish(subjects.USAGE, usage.encode(parts.used("a")))
        heard.extend(ear.take())
        return bool(heard)

    await until(is_heard, timeout_s=20)


async def test_what_routers_tell_is_heard_and_rubbish_is_not() -> None:
    """Each record once, whatever else comes on that subject."""
    async with TestMesh() as mesh:
        router = await mesh.bus(role="router")
        async with Ear(mesh.access(role="placer", name="placer1")).open() as ear:
            heard: list[UsageRecord] = []
            await hears(ear, router, heard)
            for payload in (b"", b"[]", b'{"tokens_in": 1e300}', bytes(5000)):
                await router.publish(subjects.USAGE, payload)
            last = parts.used("b")
            await router.publish(subjects.USAGE, usage.encode(last))

            def is_last_heard() -> bool:
                heard.extend(ear.take())
                return heard[-1] == last

            await until(is_last_heard, timeout_s=20)
            assert {record.model for record in heard} == {"a", "b"}
            assert ear.lost == 0


async def test_what_nobody_can_count_is_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only so much is kept until the next turn, and the rest is told as lost."""
    async with TestMesh() as mesh:
        router = await mesh.bus(role="router")
        async with Ear(mesh.access(role="placer", name="placer1")).open() as ear:
            await hears(ear, router, [])
            monkeypatch.setattr(ears, "RECORDS_MAX", 3)
            for _ in range(50):
                await router.publish(subjects.USAGE, usage.encode(parts.used("a")))
            await until(lambda: ear.lost > 0, timeout_s=20)
            assert len(ear.take()) <= 3
