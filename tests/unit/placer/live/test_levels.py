"""At which rates requests came, lately and long ago."""

import pytest

from opentela.placer.live.levels import LISTENED_S, MINUTE_S, Levels, Rate

LONG_S = 1e6
"""Has listened for ever."""


def test_each_minute_of_the_window_has_its_rate() -> None:
    """Weights are requests a second over the whole window."""
    one = Levels(0.0, 600.0, 0.0)
    one.add(10.0, 30)
    one.add(20.0, 30)
    one.add(130.0, 6)
    assert list(one.recent(200.0, LONG_S)) == [Rate(1.0, 0.1), Rate(0.1, 0.01)]
    assert list(one.past(200.0, LONG_S)) == []


def test_what_is_told_late_counts_at_its_minute() -> None:
    """Not when it is heard of."""
    late, prompt = Levels(0.0, 600.0, 3600.0), Levels(0.0, 600.0, 3600.0)
    for one, order in ((prompt, (10.0, 70.0, 130.0)), (late, (130.0, 10.0, 70.0))):
        for at in order:
            one.add(at, 6)
    assert list(late.recent(200.0, LONG_S)) == list(prompt.recent(200.0, LONG_S))
    assert list(late.past(200.0, LONG_S)) == list(prompt.past(200.0, LONG_S))


def test_a_minute_that_has_just_begun_says_little() -> None:
    """Three requests in its first second are not three a second."""
    one = Levels(0.0, 600.0, 0.0)
    one.add(60.5, 3)
    (rate,) = one.recent(61.0, LONG_S)
    assert rate.rate_rps == pytest.approx(3 / (MINUTE_S / 2))


def test_who_has_listened_for_a_short_while_divides_by_that() -> None:
    """But not by nothing."""
    one = Levels(0.0, 600.0, 3600.0)
    one.add(1.0, 10)
    assert list(one.recent(2.0, 2.0)) == [Rate(10 / LISTENED_S, 10 / LISTENED_S)]
    (past,) = one.past(2.0, 2.0)
    assert past.weight == pytest.approx(10 / LISTENED_S, rel=0.01)


def test_what_leaves_the_window_is_remembered_and_fades() -> None:
    """Rates stay apart: who came in bursts is not taken for who came steadily."""
    one = Levels(0.0, 600.0, 3600.0)
    one.add(10.0, 240)
    one.add(70.0, 15)
    now = 1200.0
    assert list(one.recent(now, LONG_S)) == []
    slow, fast = one.past(now, LONG_S)
    assert (slow.rate_rps, fast.rate_rps) == pytest.approx((0.25, 4.0))
    assert fast.weight == pytest.approx(16 * slow.weight)
    later = list(one.past(now + 3600.0, LONG_S))
    assert later[1].weight == pytest.approx(fast.weight / 2.71828, rel=0.01)
    assert list(one.past(now + 1e6, LONG_S)) == []


def test_a_short_window_is_looked_at_in_shorter_parts() -> None:
    """What was asked before it is forgotten soon after."""
    one = Levels(0.0, 6.0, 0.0)
    one.add(1.0, 12)
    assert [rate.rate_rps for rate in one.recent(5.0, LONG_S)] == [4.0]
    assert list(one.recent(9.5, LONG_S)) == []
