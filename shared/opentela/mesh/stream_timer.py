"""One timer of the loop for all streams of a shell: what `Deadlines` decides, kept in time."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from opentela.stream.deadlines import DeadlineOf, Deadlines

Key = TypeVar("Key")

_EARLY_S: Final = 0.001
"""uvloop rounds to milliseconds; a wake-up just before the moment would be for nothing."""


class StreamTimer(Generic[Key]):
    """Ticks the streams that are due.

    Args:
        grain_s: A new stream is first looked at after this.
        deadline_of: Returns when a stream is due, as it stands now; None when it has ended.
        tick: Lets a stream act on the time that passed.
    """

    def __init__(
        self, grain_s: float, deadline_of: DeadlineOf[Key], tick: Callable[[Key], None]
    ) -> None:
        self._deadlines: Deadlines[Key] = Deadlines(grain_s)
        self._deadline_of = deadline_of
        self._tick = tick
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._armed_at = 0.0

    def add(self, now: float, key: Key) -> None:
        """Watch a new stream until it has ended."""
        if self._deadlines.add(now, key):
            self._arm()

    def close(self) -> None:
        """Wake up no more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        at = self._deadlines.next_at
        if at is None or (self._handle is not None and self._armed_at <= at):
            return
        if self._handle is not None:
            self._handle.cancel()
        self._armed_at = at
        self._handle = self._loop.call_later(at - time.monotonic() + _EARLY_S, self._wake)

    def _wake(self) -> None:
        self._handle = None
        for key in self._deadlines.due(time.monotonic(), self._deadline_of):
            self._tick(key)
            self._deadlines.put(key, self._deadline_of(key))
        self._arm()
