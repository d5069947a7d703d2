"""What leaves on one connection: at once, or with what else the turn of the loop brings."""

import asyncio
from collections.abc import Callable, Iterable


class Outbox:
    """Joins what is sent within one turn of the loop, all but the first.

    The first is written at once, for a request must not wait for the books that are kept about it;
    the rest of the turn leaves as one more write. Nothing waits in order to be joined.

    Attributes:
        waiting_bytes: What the turn has gathered.
    """

    def __init__(self, write: Callable[[Iterable[bytes]], None]) -> None:
        self.waiting_bytes = 0
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._gathered: list[bytes] = []
        self._has_written = False  # in this turn of the loop

    def send(self, *pieces: bytes) -> None:
        """Send *pieces*, at the latest when this turn of the loop ends."""
        if self._has_written:
            self._gathered += pieces
            self.waiting_bytes += sum(map(len, pieces))
        else:
            self._has_written = True
            self._write(pieces)
            self._loop.call_soon(self._end_turn)

    def flush(self) -> None:
        """Send now what was gathered."""
        if self._gathered:
            self._write(self._gathered)
            self._gathered.clear()
            self.waiting_bytes = 0

    def _end_turn(self) -> None:
        self._has_written = False
        self.flush()
