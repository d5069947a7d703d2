"""What a registry has to say, said in order without making it wait."""

import asyncio
from collections import deque
from typing import Final

from opentela.core.errors import WireError
from opentela.mesh.bus import Bus
from opentela.registry.letters import Letter
from opentela.telemetry import metrics
from opentela.telemetry.log import get_logger

log: Final = get_logger()

LETTERS_MAX: Final = 50_000
"""Messages that wait for the bus; more is dropped, and repaired by the next exchange."""

_dropped: Final = metrics.counter(
    "otela_registry_messages_dropped_total", "Messages that a registry could not send.", ("reason",)
)


class Outbox:
    """A queue before a bus."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._letters: deque[Letter] = deque()
        self._filled = asyncio.Event()

    def put(self, letter: Letter) -> None:
        """Send *letter* as soon as the bus takes it."""
        if len(self._letters) >= LETTERS_MAX:
            _dropped.labels("full").inc()
            return
        self._letters.append(letter)
        self._filled.set()

    async def run(self) -> None:
        """Send for ever.

        Raises:
            MeshUnavailableError: The bus was closed under it.
        """
        while True:
            while self._letters:
                await self._send(self._letters.popleft())
            self._filled.clear()
            await self._filled.wait()

    async def _send(self, letter: Letter) -> None:
        try:
            await self._bus.publish(
                letter.subject, letter.payload, reply=letter.reply, headers=letter.headers
            )
        except WireError as error:
            # Ours are far below what a mesh carries; one that is configured smaller is found here.
            _dropped.labels("too_large").inc()
            fault = str(error)
            log.error("message_unsendable", subject=letter.subject, error=fault)  # noqa: TRY400
