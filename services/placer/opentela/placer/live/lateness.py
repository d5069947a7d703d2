"""How late news come: what has waited on its way counts at its time, whatever clocks say."""

import math
from typing import Final

import msgspec

ROUTERS_MAX: Final = 1024
"""Routers whose clocks are known; of more than that no news is thought late."""
FORGOTTEN_S: Final = 120.0
"""A clock that was set is believed anew after this, or twice as long."""


class _Clock(msgspec.Struct):
    """The least lag of one router's news, of a while and of the while before."""

    since_s: float
    least_s: float
    before_s: float = math.inf


class Lateness:
    """Tells news that came late from news of a clock that is behind.

    What is on its way for longer than the quickest news of the same router is late; by how much
    clocks differ does not matter, as long as it stays the same.
    """

    def __init__(self) -> None:
        self._clocks: dict[str, _Clock] = {}

    def of(self, now: float, wall: float, router: str, at_ms: int) -> float:
        """Return by how many seconds this news is late.

        Args:
            now: Monotonic seconds at which it came.
            wall: Unix seconds at which it came.
            router: Who told it.
            at_ms: Unix milliseconds at which it happened; 0 if that is not said.
        """
        if not at_ms:
            return 0.0
        lag_s = wall - at_ms / 1000
        clock = self._clocks.get(router)
        if clock is None:
            if len(self._clocks) < ROUTERS_MAX:
                self._clocks[router] = _Clock(now, lag_s)
            return 0.0
        if now - clock.since_s >= FORGOTTEN_S:
            clock.since_s, clock.before_s, clock.least_s = now, clock.least_s, lag_s
        clock.least_s = min(clock.least_s, lag_s)
        return lag_s - min(clock.least_s, clock.before_s)
