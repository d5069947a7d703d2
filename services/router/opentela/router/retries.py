"""When a request is tried again: how long after, and how often all requests together.

A retry that may repeat an engine's work is paid from a budget that requests fill: when everything
fails, a mesh under load is not asked for several times as much. As in Finagle's retry budgets.
"""

from opentela.core.rng import Rng
from opentela.router.config import AttemptConfig


class RetryBudget:
    """What all requests of a router may repeat."""

    def __init__(self, config: AttemptConfig) -> None:
        self._share, self._most = config.retry_share, config.retry_reserve
        self._left = float(self._most)

    def deposit(self) -> None:
        """Let one more request have begun."""
        if self._left < self._most:
            self._left = min(self._left + self._share, self._most)

    def take(self) -> bool:
        """Return whether one more attempt may repeat what another began."""
        if self._left < 1:
            return False
        self._left -= 1
        return True


def backoff(config: AttemptConfig, rng: Rng, *, tried: int, definite: bool) -> float:
    """Return seconds before the next attempt, after *tried* of them."""
    if definite and tried == 1:
        return 0.0
    longer = 2.0 ** max(tried - 2, 0) * (0.5 + rng.random())
    return min(config.backoff_s * longer, config.backoff_max_s)
