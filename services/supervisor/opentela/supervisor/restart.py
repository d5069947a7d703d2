"""Whether a failed engine is started again, and how long to wait first."""

from collections import deque

from opentela.core.rng import Rng
from opentela.supervisor.config import RestartConfig


class Backoff:
    """Waits that double from one in a row to the next."""

    def __init__(self, config: RestartConfig, rng: Rng) -> None:
        self._config = config
        self._rng = rng
        self.in_a_row = 0

    def next(self) -> float:
        """Return the seconds to wait this time."""
        config = self._config
        longest = min(config.delay_max_s, config.delay_s * 2.0 ** min(self.in_a_row, 32))
        self.in_a_row += 1
        return longest * (1 - self._rng.random() / 2)

    def reset(self) -> None:
        """Start over: what went wrong has gone well since."""
        self.in_a_row = 0


class RestartRule:
    """Back-off between starts, and a count after which more of the same is no use."""

    def __init__(self, config: RestartConfig, rng: Rng) -> None:
        self._config = config
        self._backoff = Backoff(config, rng)
        self._failures: deque[float] = deque(maxlen=max(1, config.failures_max))
        self._has_served = False
        self._served_at: float | None = None

    def served(self, now: float) -> None:
        """Take note that the engine became ready."""
        self._has_served = True
        self._served_at = now

    def failed(self, now: float) -> float | None:
        """Return the seconds to wait before the next start, or None to give up."""
        config = self._config
        if self._served_at is not None and now - self._served_at >= config.steady_s:
            self._backoff.reset()
        self._served_at = None
        self._failures.append(now)
        recent = sum(now - at < config.window_s for at in self._failures)
        delay_s = self._backoff.next()
        is_wrong = not self._has_served and self._backoff.in_a_row >= config.unserved_max
        return None if is_wrong or recent >= config.failures_max else delay_s
