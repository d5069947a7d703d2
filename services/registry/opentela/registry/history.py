"""Sees to it that the mesh keeps lifecycle events, where the hub has JetStream."""

import asyncio
from typing import Final

from opentela.core.errors import MeshUnavailableError, WireError
from opentela.mesh.bus import Bus
from opentela.registry.config import EventsConfig
from opentela.telemetry.log import get_logger
from opentela.wire import history, subjects

log: Final = get_logger()

ANSWER_TIMEOUT_S: Final = 5.0
"""For the hub to make a stream, which it does on disk."""
LOOK_S: Final = 30.0
"""Until it is tried again, or made anew if a hub was set up again, for 40 B/s."""


class HistoryKeeper:
    """Makes the stream of events, or alters it to what is configured.

    Attributes:
        why_not: Why events are not kept; empty once they are.
    """

    def __init__(self, bus: Bus, config: EventsConfig) -> None:
        self._bus = bus
        self._settings = history.settings(
            days=config.keep_days, bytes_max=config.bytes_max, replicas=config.replicas
        )
        self.why_not = "not asked yet"

    async def run(self) -> None:
        """Look every now and then, for ever; making a stream that is there changes nothing."""
        while True:
            why_not = await self._made()
            if why_not != self.why_not:
                self.why_not = why_not
                if why_not:
                    log.warning("event_history_unavailable", reason=why_not)
                else:
                    log.info("event_history_kept", stream=subjects.HISTORY)
            await asyncio.sleep(LOOK_S)

    async def _made(self) -> str:
        """Return why there is no such stream; nothing if there is."""
        try:
            reply = await self._request(subjects.MAKE_HISTORY)
            if history.is_other(reply):
                reply = await self._request(subjects.ALTER_HISTORY)
            return history.fault(reply)
        except MeshUnavailableError:
            return "no hub with JetStream answers"
        except WireError as error:
            return str(error)

    async def _request(self, subject: str) -> bytes:
        return await self._bus.request(subject, self._settings, timeout_s=ANSWER_TIMEOUT_S)
