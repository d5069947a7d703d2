"""Which commands have been said: a repeated one is answered as it was the first time.

The memory is bounded. What is forgotten is nothing that could be done again: ULIDs grow with time,
the oldest is forgotten first, and a command that is no younger than a forgotten one is not taken at
all. Age is what the ULID says: one of the future, by a placer whose clock was wrong, is kept, and
does not make the ordinary ones too old.
"""

import heapq
from typing import NamedTuple

from opentela.core import ids
from opentela.core.ids import SessionId


class Outcome(NamedTuple):
    """What became of a command; a *reason* says why it was refused."""

    accepted: bool = True
    reason: str = ""


class Memory:
    """The latest commands and what became of them."""

    def __init__(self, kept_max: int) -> None:
        self._kept_max = kept_max
        self._known: dict[str, Outcome] = {}
        self._by_age: list[str] = []  # a heap
        self._horizon = ""

    def of(self, command: str) -> Outcome | None:
        """Return what became of *command*; None when it was never said."""
        return self._known.get(command)

    def fault(self, command: str) -> str:
        """Return why *command*, which is not known, cannot be taken; nothing if it can."""
        try:
            ids.born_at_ms(SessionId(command))
        except ValueError:
            return f"command {command[:32]!r} is no ULID"
        if command <= self._horizon:
            return "it is too old to know whether it was done; say it as a new command"
        return ""

    def keep(self, command: str, outcome: Outcome) -> Outcome:
        """Remember *outcome* of *command*, and return it."""
        if command not in self._known:
            heapq.heappush(self._by_age, command)
        self._known[command] = outcome
        while len(self._known) > self._kept_max:
            forgotten = heapq.heappop(self._by_age)
            del self._known[forgotten]
            self._horizon = max(self._horizon, forgotten)
        return outcome
