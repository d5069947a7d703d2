"""Whether a service that died is started again: at once, then slower, then not."""

from collections import deque
from typing import Final

DEATHS_MAX: Final = 5
"""So many deaths within `WINDOW_S`, and starting it again helps nobody."""
WINDOW_S: Final = 60.0
DELAY_S: Final = 0.2
"""Before the first new start; doubled with each death in the window."""


class Restarts:
    """Remembers deaths of one service."""

    def __init__(self) -> None:
        self._deaths: deque[float] = deque(maxlen=DEATHS_MAX)

    def after_death(self, now: float) -> float | None:
        """Return how long to wait before a new start; None to give up."""
        while self._deaths and now - self._deaths[0] > WINDOW_S:
            self._deaths.popleft()
        self._deaths.append(now)
        if len(self._deaths) == DEATHS_MAX:
            return None
        return DELAY_S * (1 << len(self._deaths) - 1)
