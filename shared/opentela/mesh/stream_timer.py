"""One timer of the loop for all streams of a shell: what `Deadlines` decides, kept in time."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from opentela.stream.deadlines import DeadlineOf, Deadlines

Key = TypeVar("Key")

LINGER_S: Final = 1.0
"""The timer ticks on for so long after the last new stream: to set it costs more than its ticks,
and a request that comes then has no time for that."""

_EARLY_S: Final = 0.001
"""uvloop rounds to milliseconds; a wake-up just before the moment would be for nothing."""


class StreamTimer(Generic[Key]):
    """Ticks the streams that are due.

    Args:
        grain_s: A new stream is first looked at within this; none of its deadlines is earlier.
        deadline_of: Returns when a stream is due, as it stands now; None when it has ended.
        tick: Lets a stream act on the time that passed.
    """

    def __init__(
        self, grain_s: float, deadline_of: DeadlineOf[Key], tick: Callable[[Key], None]
    ) -> None:
        self._grain_s = grain_s
        self._deadlines: Deadlines[Key] = Deadlines()
        self._deadline_of = deadline_of
        self._tick = tick
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._armed_at = 0.0
        self._is_ticking = False
        self._ticks_until = 0.0

    def add(self, key: Key) -> None:
        """Watch a new stream until it has ended."""
        self._deadlines.add(key)
        if not self._is_ticking:
            self._is_ticking = True
            self._arm(time.monotonic() + self._grain_s)

    def close(self) -> None:
        """Wake up no more."""
        self._is_ticking = True  # whatever is added now comes too late
        if self._handle is not None:
            self._handle.cancel()

    def _arm(self, at: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._armed_at = at
        self._handle = self._loop.call_later(at - time.monotonic() + _EARLY_S, self._wake)

    def _wake(self) -> None:
        self._handle = None
        now = time.monotonic()
        if self._deadlines.has_fresh:
            self._ticks_until = now + LINGER_S
        for key in self._deadlines.due(now, self._armed_at, self._deadline_of):
            self._tick(key)
            self._deadlines.put(key, self._deadline_of(key))
        next_at = self._deadlines.next_at
        self._is_ticking = now < self._ticks_until
        if self._is_ticking:
            tick_at = now + self._grain_s
            next_at = tick_at if next_at is None else min(next_at, tick_at)
        if next_at is not None:
            self._arm(next_at)
