"""When tombstones may go."""

from opentela.registry.compaction import own_cut_ms, shared_cut_ms
from opentela.registry.config import RetentionConfig

DAY_S, HOUR_S, MINUTE_S = 86_400.0, 3_600.0, 60.0
CONFIG = RetentionConfig(tombstone_s=DAY_S, clock_margin_s=HOUR_S)
NOW = 20 * DAY_S


def test_a_tombstone_is_kept_a_day_and_a_margin() -> None:
    """By this registry's own clock."""
    assert own_cut_ms(NOW, CONFIG) == (NOW - DAY_S - HOUR_S) * 1000


def test_a_clock_that_is_fast_by_minutes_drops_nothing_early() -> None:
    """What ended less than a day ago stays, even by a clock that is 10 minutes ahead."""
    assert own_cut_ms(NOW + 10 * MINUTE_S, CONFIG) <= (NOW - DAY_S) * 1000


def test_a_peers_cut_is_followed_unless_it_is_early() -> None:
    """So two registries agree, and one whose clock is wrong by years harms nobody."""
    for fast_s in (-10 * MINUTE_S, 0.0, 10 * MINUTE_S):
        theirs = own_cut_ms(NOW + fast_s, CONFIG)
        assert shared_cut_ms(theirs, NOW, CONFIG) == theirs
    assert shared_cut_ms(own_cut_ms(NOW + 365 * DAY_S, CONFIG), NOW, CONFIG) == 0


def test_a_clock_before_the_epoch_drops_nothing() -> None:
    """A machine that booted without a clock."""
    assert own_cut_ms(0.0, CONFIG) == 0
