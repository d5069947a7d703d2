"""What a router tells registries of sessions to which its requests fail: look at them.

It is a hint. A registry probes the session at once, instead of when its next beat is late; what
becomes of it, registries decide.
"""

from collections import deque
from typing import Final

from opentela.core.ids import SessionId
from opentela.router.outcomes import Result
from opentela.wire.subjects import SessionPath

TELL_EVERY_S: Final = 1.0
"""Seconds between two words on one session: registries look no more often."""
WAITING_MAX: Final = 256
"""Words that wait to be sent; when more fail at once, the hub is likelier the reason."""
SESSIONS_MAX: Final = 10_000
"""Sessions remembered; the longest untold is forgotten first."""

_TELLING: Final = frozenset((Result.FAILED, Result.TIMED_OUT))
"""An engine that answers, with whatever, is there."""


class Sightings:
    """Collects what is to be told, each session once in a while."""

    def __init__(self) -> None:
        self._told_at: dict[SessionId, float] = {}
        self._waiting: deque[SessionPath] = deque(maxlen=WAITING_MAX)

    def saw(self, now: float, path: SessionPath, result: Result) -> bool:
        """Take note of how an attempt ended; return whether there is something to tell."""
        if result not in _TELLING:
            return False
        told_at = self._told_at.pop(path.session, None)
        is_due = told_at is None or now >= told_at + TELL_EVERY_S
        self._told_at[path.session] = now if is_due or told_at is None else told_at
        if len(self._told_at) > SESSIONS_MAX:
            del self._told_at[next(iter(self._told_at))]
        if is_due:
            self._waiting.append(path)
        return is_due

    def taken(self) -> list[SessionPath]:
        """Return what is to be told, and forget it."""
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting
