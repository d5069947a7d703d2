"""When a request is tried again: how long after, and how often all requests together.

A retry that may repeat an engine's work is paid from a budget that requests fill: when everything
fails, a mesh under load is not asked for several times as much. As in Finagle's retry budgets.
"""

from typing import Final

from opentela.core.rng import Rng
from opentela.router.config import AttemptConfig

ABSENT_MAX: Final = 32
"""Sessions that are not there any more, of those that one request asks; each costs a message there
and one back. With every registry gone a router may know of many such."""


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


def has_left(config: AttemptConfig, tried: int, absent: int) -> bool:
    """Return whether a request may be tried once more.

    Args:
        config: What the operator allows.
        tried: Sessions that were there.
        absent: Those that were not; who asks them repeats nothing.
    """
    return tried < config.attempts_max and absent < ABSENT_MAX


def backoff(config: AttemptConfig, rng: Rng, *, tried: int, definite: bool) -> float:
    """Return seconds before the next attempt, after *tried* of them at sessions that were there."""
    if definite and tried <= 1:
        return 0.0
    longer = 2.0 ** max(tried - 2, 0) * (0.5 + rng.random())
    return min(config.backoff_s * longer, config.backoff_max_s)
