"""Hears of requests that have ended, in a thread of its own.

There may be more of them than anybody can count: a router that floods, or very many clients. On the
connection and in the loop of the placer itself they would stand before the answers to its lease,
and it would lead no more. Here only usage is late or lost, which an estimate can bear.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol

from opentela.core.clock import Clock
from opentela.core.errors import WireError
from opentela.mesh import nats_bus
from opentela.mesh.access import Access
from opentela.mesh.bus import Message
from opentela.service import SystemClock
from opentela.view.refusals import Refusals
from opentela.wire import subjects, usage
from opentela.wire.usage import UsageRecord

RECORDS_MAX: Final = 20_000
"""Usage records that wait for the next turn, at most a second later; some 700 bytes each."""
JOIN_S: Final = 5.0
"""At the end, how long the thread may take to leave the mesh."""


class Hears(Protocol):
    """Hears of requests that have ended."""

    @property
    def lost(self) -> int:
        """How many records had no room so far."""

    def take(self) -> tuple[UsageRecord, ...]:
        """Return what was heard since the last time."""


class Kept:
    """Records that wait to be counted, and how many had no room."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._records: deque[UsageRecord] = deque()
        self._refusals = Refusals()
        self._lost = 0

    @property
    def lost(self) -> int:
        """How many records had no room so far."""
        return self._lost

    def hear(self, message: Message) -> None:
        """Keep one record for the next turn, if there is room."""
        if len(self._records) >= RECORDS_MAX:
            self._lost += 1
            return
        try:
            self._records.append(usage.read_usage(message.payload))
        except WireError as error:
            self._refusals.message(
                self._clock.now(), kind="usage", subject=message.subject, error=error
            )

    def take(self) -> tuple[UsageRecord, ...]:
        """Return what was heard since the last time."""
        # One thread adds while another takes: each takes what it has counted, and no more.
        return tuple(self._records.popleft() for _ in range(len(self._records)))


class Ear:
    """A connection that hears usage and nothing else."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._kept = Kept(SystemClock())
        self._loop = asyncio.new_event_loop()
        self._listening: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="usage", daemon=True)
        self._error: Exception | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Ear"]:
        """Hear while the context lasts."""
        self._listening = self._loop.create_task(self._listen())
        self._thread.start()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._listening.cancel)
            await asyncio.to_thread(self._thread.join, JOIN_S)

    @property
    def lost(self) -> int:
        """How many records had no room so far."""
        return self._kept.lost

    def take(self) -> tuple[UsageRecord, ...]:
        """Return what was heard since the last time.

        Raises:
            Exception: It cannot hear any more.
        """
        if self._error is not None:
            raise self._error
        return self._kept.take()

    def _run(self) -> None:
        assert self._listening is not None, "it is made first"
        asyncio.set_event_loop(self._loop)
        try:
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._listening)
        except Exception as error:  # noqa: BLE001  # whoever takes next is told
            self._error = error
        finally:
            self._loop.close()

    async def _listen(self) -> None:
        name = f"{self._access.name}-usage"
        async with await nats_bus.connect(self._access, name=name, timeout_s=None) as bus:
            await bus.subscribe(subjects.USAGE, self._kept.hear)
            await asyncio.Event().wait()
