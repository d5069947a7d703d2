"""When to ask a server for a sign of life, and when its silence means that it is gone.

A ping costs a packet of its own, unless it rides with a message that leaves anyhow. So it may leave
a little before it is due with such a message, and is sent alone only if none comes in time.
"""

from enum import Enum, auto
from typing import Final

PING_EVERY_S: Final = 2.0
"""Between two signs of life that a server is asked for, while it says nothing by itself."""
RIDES_AFTER: Final = 0.75
"""Intervals of silence after which a ping rides with the next message. Beats come every half
interval, so each second one takes a ping along, and none takes one too early."""
ALONE_AFTER: Final = 1.125
"""Intervals of silence after which it is sent alone; two beats, late by jitter, are sooner."""
LOST_AFTER: Final = 3.0
"""Intervals of silence after which a server is given up: 6 s, as servers do with clients. What was
asked in them has been unanswered for nearly two."""
LATE_AFTER: Final = 0.25
"""Intervals by which a wake-up is late when it is we who stood still, not the server."""


class Due(Enum):
    """What the time that has passed asks for."""

    NOTHING = auto()
    PING = auto()
    END = auto()


class KeepAlive:
    """Watches over one connection; whoever has it tells what is heard and sent.

    Whatever arrives is a sign of life. After a ping that travelled alone the next message takes one
    along early, to be in step with beats from then on. Time in which we stood still ourselves, and
    so heard nothing, does not count as the server's silence.

    Attributes:
        wake_at: `step` has something to say then, unless the server is heard before.
    """

    def __init__(self, now: float, *, every_s: float = PING_EVERY_S) -> None:
        self._every_s = every_s
        self._heard_at = now
        self._asked_at = now
        self._was_alone = False
        self.wake_at = now + ALONE_AFTER * every_s

    @property
    def is_waiting(self) -> bool:
        """Whether the server was asked and nothing has been heard since."""
        return self._asked_at > self._heard_at

    def heard(self, now: float) -> None:
        """Note that something arrived."""
        self._heard_at = now

    def rides(self, now: float) -> bool:
        """Return whether a ping shall ride with what is sent now; if so, it counts as sent."""
        since_s = now - max(self._heard_at, self._asked_at)
        if since_s < RIDES_AFTER * self._every_s and not self._was_alone:
            return False
        self._asked_at = now
        self._was_alone = False
        return True

    def step(self, now: float) -> Due:
        """Return what is to be done now, and say by `wake_at` when to come again."""
        late_s = now - self.wake_at
        if late_s > LATE_AFTER * self._every_s:
            self._heard_at = min(now, self._heard_at + late_s)
            self._asked_at = min(now, self._asked_at + late_s)
        due = self._due(now)
        if due is Due.PING:
            self._asked_at = now
            self._was_alone = True
        self.wake_at = max(now, min(self._alone_at, self._lost_at))
        return due

    def _due(self, now: float) -> Due:
        if now >= self._lost_at:
            return Due.END
        return Due.PING if now >= self._alone_at else Due.NOTHING

    @property
    def _alone_at(self) -> float:
        return max(self._heard_at, self._asked_at) + ALONE_AFTER * self._every_s

    @property
    def _lost_at(self) -> float:
        return self._heard_at + LOST_AFTER * self._every_s
