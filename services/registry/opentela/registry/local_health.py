"""How far a registry trusts its own ears: whoever is slow waits longer before it blames others.

Each sign that this registry itself is slow widens lease and probe time-out by one more of what they
are, and each round without one takes that back. Signs are: it woke up later than it had asked for,
and it could not reach a session that its peers could, whose owner then refuted. The local health
multiplier is Lifeguard's (Dadgar et al., 2018), and so is counting up by events and down by calm.
"""

from opentela.registry.config import RestraintConfig


class LocalHealth:
    """Counts signs of being slow.

    Attributes:
        widening: What time-outs are multiplied by; 1 when all is well.
    """

    def __init__(self, config: RestraintConfig) -> None:
        self._config = config
        self._signs = 0
        self._is_calm = True
        self.widening = 1.0

    def woke(self, late_s: float) -> None:
        """Take note of how much later than asked for this registry got to do something."""
        if late_s > self._config.lag_s:
            self._sign()

    def was_wrong(self) -> None:
        """Take note that it alone could not reach a session that lives."""
        self._sign()

    def rounded(self) -> None:
        """Take note that a round has passed; a calm one takes a sign back."""
        if self._is_calm:
            self._set(self._signs - 1)
        self._is_calm = True

    def _sign(self) -> None:
        self._is_calm = False
        self._set(self._signs + 1)

    def _set(self, signs: int) -> None:
        self._signs = max(0, min(signs, int(self._config.widen_max) - 1))
        self.widening = 1.0 + self._signs
