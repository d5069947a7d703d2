"""What leaves on one connection: at once, or with what else the turn of the loop brings."""

import asyncio
from collections.abc import Callable


class Outbox:
    """Joins what is sent within one turn of the loop and one millisecond, all but the first.

    The first is written at once, for a request must not wait for the books that are kept about it;
    the rest leaves as one more write. Nothing waits in order to be joined.

    Attributes:
        waiting_bytes: What the turn has gathered.
    """

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self.waiting_bytes = 0
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._gathered: list[bytes] = []
        self._written_at = -1.0

    def send(self, words: bytes) -> None:
        """Send *words*, at the latest when this turn of the loop ends."""
        if self._gathered:
            self._gathered.append(words)
            self.waiting_bytes += len(words)
            return
        # uvloop tells milliseconds: who has written in this one gathers what follows. To be called
        # at the end of each turn, in order to know the next, costs as much as a write.
        now = self._loop.time()
        if now != self._written_at:
            self._written_at = now
            self._write(words)
            return
        self._gathered.append(words)
        self.waiting_bytes += len(words)
        self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send now what was gathered."""
        if self._gathered:
            self._write(b"".join(self._gathered))
            self._gathered.clear()
            self.waiting_bytes = 0
