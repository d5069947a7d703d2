"""Once in a while for each session, however often there is a reason."""

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
