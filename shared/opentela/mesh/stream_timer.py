"""One timer of the loop for all streams of a shell: what `Deadlines` decides, kept in time."""

import asyncio
import math
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
        grain_s: A new stream is first looked at within this; what is due no sooner is kept to the
            millisecond. The longer it is, the more streams have ended then, and the seldomer
            anybody wakes up for them.
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
        self._looks_at_fresh = False  # within the grain
        self._is_closed = False

    def add(self, key: Key, due_in_s: float = math.inf) -> None:
        """Watch a new stream until it has ended; *due_in_s* is the first time if that is soon."""
        if due_in_s < self._grain_s:
            self._add_at(key, time.monotonic() + due_in_s)
            return
        self._deadlines.add(key)
        if not self._looks_at_fresh:
            self._looks_at_fresh = True
            at = time.monotonic() + self._grain_s
            if self._handle is None or at < self._armed_at:
                self._arm(at)

    def close(self) -> None:
        """Wake up no more."""
        self._is_closed = True
        self._looks_at_fresh = True  # whatever is added now comes too late
        if self._handle is not None:
            self._handle.cancel()

    def _add_at(self, key: Key, at: float) -> None:
        self._deadlines.put(key, at)
        if not self._is_closed and (self._handle is None or at < self._armed_at):
            self._arm(at)

    def _arm(self, at: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._armed_at = at
        self._handle = self._loop.call_later(at - time.monotonic() + _EARLY_S, self._wake)

    def _wake(self) -> None:
        self._handle = None
        now = time.monotonic()
        for key in self._deadlines.due(now, self._armed_at, self._deadline_of):
            self._tick(key)
            self._deadlines.put(key, self._deadline_of(key))
        next_at = self._deadlines.next_at
        self._looks_at_fresh = self._deadlines.has_fresh
        if self._looks_at_fresh:
            # Added by a tick, or kept by a reprieve.
            next_at = min(now + self._grain_s, next_at or math.inf)
        if next_at is not None and not self._is_closed:
            self._arm(next_at)
