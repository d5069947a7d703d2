"""One timer for many streams, in time for each."""

import asyncio
import time

from opentela.mesh.stream_timer import StreamTimer

NEVER_S = 600.0


async def test_what_is_due_soon_does_not_wait_until_new_streams_are_looked_at() -> None:
    """It is ticked at its own time."""
    due = {"soon": time.monotonic() + 0.01, "late": time.monotonic() + NEVER_S}
    ticked: list[str] = []
    told = asyncio.Event()

    def tick(key: str) -> None:
        del due[key]
        ticked.append(key)
        told.set()

    timer = StreamTimer(NEVER_S, due.get, tick)
    timer.add("late", NEVER_S)
    timer.add("soon", 0.01)
    async with asyncio.timeout(30):
        await told.wait()
    assert ticked == ["soon"]
    timer.close()
