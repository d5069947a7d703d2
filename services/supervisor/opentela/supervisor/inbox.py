"""What a machine is to be told of, in order, and when it must look up by itself."""

import asyncio
from typing import Final, Generic, TypeVar

from opentela.core.clock import Clock
from opentela.mesh.seldom import Seldom
from opentela.supervisor.events import Tick
from opentela.telemetry import log as logs
from opentela.telemetry import metrics

log: Final = logs.get_logger()

EVENTS_QUEUED_MAX: Final = 1024
"""Beyond this, what is said again anyway is dropped; all else is rare."""

_dropped: Final = metrics.counter(
    "otela_supervisor_events_dropped_total", "Probes, verdicts and commands that arrived too fast."
)

EventT = TypeVar("EventT")


class Inbox(Generic[EventT]):
    """Events that wait for the machine.

    Args:
        clock: For instants.
        droppable: Kinds of events that whoever sent one says again.
    """

    def __init__(self, clock: Clock, droppable: tuple[type, ...]) -> None:
        self._clock = clock
        self._droppable = droppable
        self._events: asyncio.Queue[EventT] = asyncio.Queue()
        self._logs_drop = Seldom()

    def put(self, event: EventT) -> None:
        """Keep *event* until it is its turn, unless too many wait and it may be dropped."""
        if isinstance(event, self._droppable) and self._events.qsize() >= EVENTS_QUEUED_MAX:
            _dropped.inc()
            if self._logs_drop.now():
                log.warning("events_dropped", kind=type(event).__name__)
            return
        self._events.put_nowait(event)

    async def next(self, deadline: float) -> EventT | Tick:
        """Return the next event, or a `Tick` if there is none by *deadline*."""
        scope = asyncio.timeout(max(0.0, deadline - self._clock.now()))
        try:
            async with scope:
                return await self._events.get()
        except TimeoutError:
            if not scope.expired():
                raise
            return Tick()
