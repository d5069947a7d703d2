"""The time that a supervisor was given: until when, and when to ask whether that has changed.

Whoever runs the scheduler can prolong a job or cut it short while it runs, so its end is asked for
again and again, at a bounded rate. A session that already drains for its end stays on its way: in
the mesh nothing comes back.
"""

import math
from typing import Final

from opentela.supervisor.config import WalltimeConfig
from opentela.supervisor.walltime import Walltime, is_foreseen, replan

MOVED_MIN_S: Final = 1.0
"""A smaller difference is one of rounding, or of clocks, and no news."""


class Allotment:
    """What is planned for the end of our time.

    Attributes:
        walltime: When we drain, leave and end; None for never.
    """

    def __init__(
        self, config: WalltimeConfig, walltime: Walltime | None, now: float, *, can_move: bool
    ) -> None:
        self.walltime = walltime
        self._config = config
        self._asks_at = now + config.look_s if can_move and config.look_s else math.inf
        self._warned_at = 0.0

    @property
    def leave_at(self) -> float:
        """When the sessions are gone, Unix seconds; 0 for never."""
        return self.walltime.leave_at if self.walltime else 0.0

    def left_s(self, wall: float) -> float:
        """Return how long running requests may take to finish."""
        return max(0.0, self.leave_at - wall)

    def is_used_up(self, wall: float) -> bool:
        """Return whether nothing new is to be taken."""
        return self.walltime is not None and wall >= self.walltime.drain_at

    def asks(self, now: float) -> bool:
        """Return whether the end is to be asked for now; then the next time is due later."""
        if now < self._asks_at:
            return False
        self._asks_at = now + self._config.look_s
        return True

    def next_deadline(self, now: float, wall: float) -> float:
        """Return when something is due."""
        if self.walltime is None:
            return self._asks_at
        return min(self._asks_at, now + max(0.0, self.walltime.drain_at - wall))

    def hear(self, wall: float, ends_at: float) -> bool:
        """Take in when the allocation ends, 0 for never; return whether that is news."""
        known = self.walltime.ends_at if self.walltime else 0.0
        if abs(ends_at - known) < MOVED_MIN_S:
            return False
        self.walltime = replan(self._config, ends_at=ends_at, wall=wall)
        return True

    def is_warning_foreseen(self, wall: float) -> bool:
        """Return whether a warning that comes now tells nothing new."""
        is_known = is_foreseen(self.walltime, wall, warned_at=self._warned_at)
        self._warned_at = wall
        return is_known
