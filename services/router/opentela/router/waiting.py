"""Requests that wait for a session: until one has loaded their model, or has room for them.

A session that was full and has room again is kept for those who wait, first come first served, and
is anybody's only when none of them takes it.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from opentela.core.ids import SessionId
from opentela.router.config import WaitConfig
from opentela.router.policies.counts import Counts

ASKED_MAX: Final = 64
"""Different wishes of waiting requests for which a session that has room again is of no use, until
nobody else is asked: constraints may keep many from it."""


class Waiter(Protocol):
    """A request that waits."""

    @property
    def wants(self) -> tuple[object, ...]:
        """What for; a session that is of no use to it is of none to another that wants the same."""

    def recheck(self) -> None:
        """Look again for a session: go there, or wait on."""


class Waiting:
    """Who waits for which model, and which sessions have as much as they may."""

    def __init__(self, config: WaitConfig) -> None:
        self.config = config
        self._lines: dict[str, dict[Waiter, None]] = {}
        self._counts = Counts()
        self._full: dict[SessionId, None] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    # Sessions ----------------------------------------------------------------

    @property
    def full(self) -> Mapping[SessionId, None]:
        """Sessions that take no more for now."""
        return self._full

    def started(self, session: SessionId) -> None:
        """Count an attempt there."""
        if self._counts.started(session) >= self.config.session_requests_max:
            self._full[session] = None

    def ended(self, session: SessionId) -> bool:
        """Count it out; return whether those who wait must be asked before the session is free."""
        self._counts.ended(session)
        if session not in self._full:
            return False
        if self._lines:
            return True
        del self._full[session]
        return False

    def free(self, session: SessionId) -> bool:
        """Give a session free if it has room; return whether it has."""
        has_room = self._counts.of(session) < self.config.session_requests_max
        if has_room:
            self._full.pop(session, None)
        return has_room

    # Requests ----------------------------------------------------------------

    def has_room(self, model: str) -> bool:
        """Return whether one more request may wait for *model*."""
        return len(self._lines.get(model, ())) < self.config.depth_max

    def depth(self, model: str) -> int:
        """Return how many wait for *model*."""
        return len(self._lines.get(model, ()))

    def join(self, model: str, waiter: Waiter) -> None:
        """Let *waiter* wait; one that does so already keeps its place."""
        line = self._lines.setdefault(model, {})
        self._count += waiter not in line
        line[waiter] = None

    def leave(self, model: str, waiter: Waiter) -> None:
        """Let *waiter* wait no longer; nothing happens if it did not."""
        line = self._lines.get(model, {})
        if waiter in line:
            del line[waiter]
            self._count -= 1
            if not line:
                del self._lines[model]

    def models(self) -> Sequence[str]:
        """Return the models that somebody waits for."""
        return list(self._lines)

    def waits(self, model: str, waiter: Waiter) -> bool:
        """Return whether *waiter* still waits."""
        return waiter in self._lines.get(model, ())

    def line(self, model: str) -> Sequence[Waiter]:
        """Return who waits for *model*, the longest first."""
        return list(self._lines.get(model, ()))
