"""The next deadline of many streams behind one timer.

Deadlines of a stream mostly move later, with each frame; so the heap keeps the moment that was
known when it was last looked at, and asks again only when that comes. A wake-up that itself comes
late means that this process was starved: what waits in its sockets is read before anybody is
judged by a deadline that passed meanwhile.
"""

import heapq
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

STARVED_S: Final = 0.25
"""A wake-up that is later than this is our own doing; garbage collection alone stays far below."""
REPRIEVE_S: Final = 0.05
"""How long a late wake-up waits for input that came meanwhile."""

Key = TypeVar("Key", bound=Hashable)


class Deadlines(Generic[Key]):
    """Which streams are due, and when to look again."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Key]] = []
        self._known: dict[Key, float] = {}
        self._order = 0
        self._not_before = 0.0
        self._is_reprieved = False

    def __len__(self) -> int:
        return len(self._known)

    @property
    def next_at(self) -> float | None:
        """Return when to call `due` next; None for never."""
        return max(self._heap[0][0], self._not_before) if self._heap else None

    def put(self, key: Key, at: float) -> None:
        """Note the deadline of *key*.

        A later moment than the known one needs no note: it is asked for when that comes.
        """
        known = self._known.get(key)
        if known is None or at < known:
            self._push(key, at)

    def drop(self, key: Key) -> None:
        """Forget *key*."""
        self._known.pop(key, None)
        if not self._known:
            self._heap.clear()

    def due(self, now: float, deadline_of: Callable[[Key], float | None]) -> list[Key]:
        """Return the keys whose deadline, as *deadline_of* tells it, has passed."""
        next_at = self.next_at
        if next_at is None or now < next_at:
            return []
        # Once: a process that is always late must still come to a judgement.
        self._is_reprieved = now - next_at > STARVED_S and not self._is_reprieved
        if self._is_reprieved:
            self._not_before = now + REPRIEVE_S
            return []
        return self._collect(now, deadline_of)

    def _collect(self, now: float, deadline_of: Callable[[Key], float | None]) -> list[Key]:
        late: list[Key] = []
        while self._heap and self._heap[0][0] <= now:
            at, _, key = heapq.heappop(self._heap)
            if self._known.get(key) != at:
                continue
            del self._known[key]
            actual = deadline_of(key)
            if actual is None:
                continue
            if actual <= now:
                late.append(key)
            else:
                self._push(key, actual)
        return late

    def _push(self, key: Key, at: float) -> None:
        self._order += 1
        self._known[key] = at
        heapq.heappush(self._heap, (at, self._order, key))
