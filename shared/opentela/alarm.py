"""One timer of the loop for the next deadline of a machine."""

import asyncio
from collections.abc import Callable

from opentela.core.clock import Clock


class Alarm:
    """Rings at or before the deadline that was set last; the machine says what is due, and next.

    A ring that is set is never put off: were it moved with every event, a burst of events would
    keep it from ringing at all, and each of them would cost a timer.
    """

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None
        self._at = 0.0

    def set(self, deadline: float) -> None:
        """Ring at *deadline*, by the clock's `now`, or before."""
        if self._timer is not None:
            if self._at <= deadline:
                return
            self._timer.cancel()
        self._at = deadline
        delay_s = max(0.0, deadline - self._clock.now())
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_time)

    def close(self) -> None:
        """Ring no more until set again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self) -> None:
        self._timer = None
        self._ring()
