"""Once in a while for each session, and so often for all, however often there is a reason."""

from collections import OrderedDict
from typing import Final

from opentela.core.ids import SessionId

KEYS_MAX: Final = 10_000
"""Sessions remembered; the longest untouched is forgotten first and may come again too early."""


class Throttle:
    """Says yes at most once every *every_s* for a session."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._at: OrderedDict[SessionId, float] = OrderedDict()

    def may(self, session: SessionId, now: float) -> bool:
        """Return whether it is time again, and if so take it as done."""
        at = self._at.get(session)
        if at is not None and now < at + self._every_s:
            return False
        self._at[session] = now
        self._at.move_to_end(session)
        if len(self._at) > KEYS_MAX:
            self._at.popitem(last=False)
        return True


class Budget:
    """Says yes at most *per_s* times a second, as many at once after a second without."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._left = per_s
        self._at = 0.0

    def may(self, now: float) -> bool:
        """Return whether one more may be, and if so take it as done."""
        self._left = min(self._per_s, self._left + max(0.0, now - self._at) * self._per_s)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
