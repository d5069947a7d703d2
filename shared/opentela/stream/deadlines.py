"""The next deadlines of many streams behind one timer, at next to no cost for short streams.

A stream that is new is looked at only at the next wake-up, when most have ended; and as deadlines
mostly move later, with each frame, the moment that was known when a stream was last looked at is
kept, and asked for again only when it comes. A wake-up that itself comes late means that this
process was starved: what waits in its sockets is read before anybody is judged by a deadline that
passed meanwhile.
"""

import heapq
from collections.abc import Callable
from typing import Final, Generic, TypeVar

STARVED_S: Final = 0.25
"""A wake-up that is later than this is our own doing; garbage collection alone stays far below."""
REPRIEVE_S: Final = 0.05
"""How long a late wake-up waits for input that came meanwhile."""

Key = TypeVar("Key")
DeadlineOf = Callable[[Key], float | None]


class Deadlines(Generic[Key]):
    """Which streams are due, and when to look again."""

    def __init__(self) -> None:
        self._fresh: list[Key] = []
        self._heap: list[tuple[float, int, Key]] = []
        self._order = 0
        self._not_before = 0.0
        self._is_reprieved = False
        self.add: Final = self._fresh.append
        """Watch a new stream: it is looked at when `due` is next called."""

    @property
    def has_fresh(self) -> bool:
        """Return whether streams were added since `due` was called."""
        return bool(self._fresh)

    @property
    def next_at(self) -> float | None:
        """Return when a stream that was looked at may be due; None for never."""
        return max(self._heap[0][0], self._not_before) if self._heap else None

    def due(self, now: float, woken_for: float, deadline_of: DeadlineOf[Key]) -> list[Key]:
        """Return the keys whose deadline, as *deadline_of* tells it, has passed.

        Each is watched no longer, until it is put back with `put`. A key without a deadline has
        ended, and is dropped. *woken_for* is the moment for which the wake-up was set.
        """
        # Once: a process that is always late must still come to a judgement.
        self._is_reprieved = now - woken_for > STARVED_S and not self._is_reprieved
        if self._is_reprieved:
            self._not_before = now + REPRIEVE_S
            return []
        looked_at = self._fresh.copy()
        self._fresh.clear()
        while self._heap and self._heap[0][0] <= now:
            looked_at.append(heapq.heappop(self._heap)[2])
        late: list[Key] = []
        for key in looked_at:
            at = deadline_of(key)
            if at is not None and at <= now:
                late.append(key)
            else:
                self.put(key, at)
        return late

    def put(self, key: Key, at: float | None) -> None:
        """Watch a stream that was returned by `due`, unless it has ended."""
        if at is not None:
            self._order += 1
            heapq.heappush(self._heap, (at, self._order, key))
