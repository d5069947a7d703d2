"""What all client connections share: limits, the paths, and one write a loop turn."""

import asyncio
from typing import TYPE_CHECKING, Final

from opentela.core.clock import Clock
from opentela.router.config import ListenConfig
from opentela.router.desk import Desk
from opentela.router.pages import Pages
from opentela.router.paths import Paths

if TYPE_CHECKING:
    from opentela.router.connection import Connection

SWEEP_S: Final = 1.0
"""Between looks at connections that are silent; their limits are many times longer."""


class Flusher:
    """Calls each connection that has something to write once, at the end of the loop turn.

    What several frames of one turn bring to one client leaves as one write; nothing waits longer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due: list[Connection] = []

    def add(self, connection: "Connection") -> None:
        """Have *connection* flushed; it asks only once until then."""
        if not self._due:
            self._loop.call_soon(self._run)
        self._due.append(connection)

    def _run(self) -> None:
        due, self._due = self._due, []
        for connection in due:
            connection.flush()


class Gate:
    """The client side of a router.

    Attributes:
        held_bytes: Request bodies in memory.
        is_closing: Every answer from now on is the last of its connection.
        closes_idle: Connections that are kept close as soon as nothing is under way on them.
        deserted: Set while there are no connections.
    """

    def __init__(
        self,
        *,
        config: ListenConfig,
        desk: Desk,
        paths: Paths,
        pages: Pages,
        clock: Clock,
    ) -> None:
        self.config = config
        self.desk = desk
        self.paths = paths
        self.pages = pages
        self.now: Final = clock.now
        self.loop = asyncio.get_running_loop()
        self.flusher = Flusher(self.loop)
        self.held_bytes = 0
        self.is_closing = False
        self.closes_idle = False
        self.deserted = asyncio.Event()
        self.deserted.set()
        self._connections: dict[Connection, None] = {}
        self._sweep_timer = self.loop.call_later(SWEEP_S, self._sweep)

    def __len__(self) -> int:
        return len(self._connections)

    def admit(self, connection: "Connection") -> bool:
        """Return whether one more connection is borne, and count it in."""
        if len(self._connections) >= self.config.connections_max:
            return False
        self._connections[connection] = None
        self.deserted.clear()
        return True

    def forget(self, connection: "Connection") -> None:
        """Count a connection out."""
        self._connections.pop(connection, None)
        if not self._connections:
            self.deserted.set()

    def close_idle(self) -> None:
        """Close connections on which nothing is under way."""
        self.closes_idle = True
        for connection in list(self._connections):
            connection.close_if_idle()

    def close(self) -> None:
        """Break what is still open."""
        self._sweep_timer.cancel()
        for connection in list(self._connections):
            connection.cut()

    def _sweep(self) -> None:
        self._sweep_timer = self.loop.call_later(SWEEP_S, self._sweep)
        now = self.now()
        for connection in list(self._connections):
            connection.check(now)
