"""Who sends what nobody asked for, and how much of it is too much.

A few frames that come late, or cannot be read, are normal: a cancelled stream has some under way,
and a peer may be of another version. Far more than that is a fault or an attack. The sender is then
cut off for a while: what it sends is thrown away unread, which costs next to nothing.
"""

from typing import Final

WINDOW_S: Final = 10.0
"""Within which frames are counted."""
LATE_MAX: Final = 20_000
"""Late frames of one sender in a window. A cancelled stream leaves a window of credit at most, some
hundred frames; reading as many as this costs a few hundredths of a core."""
STRANGE_WEIGHT: Final = 20
"""A frame that is none, or is another's, counts as so many late ones."""
CUT_S: Final = 60.0
"""For how long a sender is cut off; then it is counted anew."""
SENDERS_MAX: Final = 4096
"""Senders that are counted; the longest counted are forgotten first."""


class FloodGuard:
    """Counts what is useless, by sender.

    Attributes:
        has_cut: Somebody may be cut off: only then it is worth asking `is_cut`.
    """

    def __init__(self) -> None:
        self.has_cut = False
        self._counts: dict[str, tuple[float, int]] = {}
        self._cut_until: dict[str, float] = {}

    def late(self, now: float, sender: str) -> bool:
        """Count a frame that nobody waits for any more; True when *sender* is cut off by it."""
        return self._count(now, sender, 1)

    def strange(self, now: float, sender: str) -> bool:
        """Count a frame that is none, or not the sender's to send; True when it is cut off."""
        return self._count(now, sender, STRANGE_WEIGHT)

    def is_cut(self, now: float, sender: str) -> bool:
        """Return whether *sender* is cut off."""
        until = self._cut_until.get(sender)
        if until is None:
            return False
        if now < until:
            return True
        del self._cut_until[sender]
        self.has_cut = bool(self._cut_until)
        return False

    def _count(self, now: float, sender: str, weight: int) -> bool:
        began_at, count = self._counts.pop(sender, (now, 0))
        if now >= began_at + WINDOW_S:
            began_at, count = now, 0
        count += weight
        if count > LATE_MAX:
            self._cut_until[sender] = now + CUT_S
            if len(self._cut_until) > SENDERS_MAX:
                del self._cut_until[next(iter(self._cut_until))]
            self.has_cut = True
            return True
        self._counts[sender] = (began_at, count)
        if len(self._counts) > SENDERS_MAX:
            del self._counts[next(iter(self._counts))]
        return False
