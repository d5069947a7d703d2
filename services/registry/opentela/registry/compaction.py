"""When a tombstone may be dropped.

Every registry decides by its own clock, with a margin for clocks that differ; what one has dropped
the others drop as well as soon as they hear of it, if their own clocks agree that it is old enough.
So two registries come to hold the same, and a registry whose clock is wrong by years harms nobody.
"""

from opentela.registry.config import RetentionConfig


def own_cut_ms(wall: float, config: RetentionConfig) -> int:
    """Return up to which end tombstones may be dropped, in Unix milliseconds."""
    return _ms(wall - config.tombstone_s - config.clock_margin_s)


def shared_cut_ms(theirs_ms: int, wall: float, config: RetentionConfig) -> int:
    """Return how much of a peer's cut to follow: all of it, or nothing if that would be early."""
    return theirs_ms if theirs_ms <= _ms(wall - config.tombstone_s) else 0


def _ms(seconds: float) -> int:
    return max(0, int(seconds * 1000))
