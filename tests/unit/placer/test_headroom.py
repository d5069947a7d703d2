"""How much more than the mean a bursty demand needs."""

import pytest

from opentela.placer.headroom import with_headroom


def test_bursts_need_room_and_small_demands_relatively_more() -> None:
    """Twice the burstiness is twice the room; of a hundred times the rate it is a tenth."""
    assert with_headroom(100.0, cv=1.0, absorb_s=1.0, sure=2.0) == pytest.approx(120.0)
    assert with_headroom(100.0, cv=2.0, absorb_s=1.0, sure=2.0) == pytest.approx(140.0)
    assert with_headroom(1.0, cv=1.0, absorb_s=1.0, sure=2.0) == pytest.approx(3.0)
    assert with_headroom(1.0, cv=1.0, absorb_s=100.0, sure=2.0) == pytest.approx(1.2)


def test_a_clock_and_nothing_need_none() -> None:
    """There is nothing to be worked off."""
    assert with_headroom(5.0, cv=0.0, absorb_s=10.0) == 5.0
    assert with_headroom(0.0, cv=9.0, absorb_s=10.0) == 0.0
