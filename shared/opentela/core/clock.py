"""Time is handed in: two clocks, because a lease and a timestamp are different things."""

from typing import Protocol


class Clock(Protocol):
    """What a shell reads and passes to a core as `now`."""

    def now(self) -> float:
        """Return monotonic seconds, for time-outs and leases; comparable on this process only."""

    def wall(self) -> float:
        """Return Unix seconds, for what other nodes will read."""
