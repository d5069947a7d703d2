"""Pauses between dials: short first, never long, never the same for all."""

import random

from opentela.mesh.backoff import BACKOFF_FIRST_S, BACKOFF_MAX_S, backoff_s


def test_the_first_pause_starts_from_nothing() -> None:
    """A server that only restarted is back by then."""
    drawn = [backoff_s(0, random.Random(seed)) for seed in range(200)]
    assert min(drawn) < BACKOFF_FIRST_S / 10
    assert max(drawn) <= BACKOFF_FIRST_S


def test_later_pauses_double_up_to_a_limit_and_are_spread_over_half_of_it() -> None:
    """A thousand clients of one server do not come back at once; none waits for ever."""
    for attempt in range(1, 2000, 7):
        drawn = [backoff_s(attempt, random.Random(seed)) for seed in range(50)]
        ceiling = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2 ** min(attempt, 16))
        assert ceiling / 2 <= min(drawn) < max(drawn) <= ceiling
