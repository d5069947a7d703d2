"""Doubt in itself, and the limit of evictions."""

import pytest

from opentela.registry.config import RestraintConfig
from opentela.registry.restraint import Restraint

CONFIG = RestraintConfig(
    doubt_share=0.5,
    doubt_sessions_min=4,
    doubt_max_s=100.0,
    evictions_share=0.2,
    evictions_min=3,
    evictions_window_s=10.0,
)


@pytest.fixture
def restraint() -> Restraint:
    return Restraint(CONFIG)


@pytest.mark.parametrize(
    ("watched", "failing", "doubts"),
    [(8, 4, True), (8, 3, False), (100, 49, False), (100, 50, True), (3, 3, False), (0, 0, False)],
)
def test_many_silent_at_once_cause_doubt(
    restraint: Restraint, watched: int, failing: int, *, doubts: bool
) -> None:
    """A large share, and not just a few: two dead of three are two dead."""
    assert restraint.observe(1.0, watched=watched, failing=failing) is doubts
    assert (restraint.doubting_since is not None) is doubts


def test_doubt_ends_when_the_sessions_are_heard_again(restraint: Restraint) -> None:
    """And keeps its beginning while it lasts."""
    assert restraint.observe(1.0, watched=8, failing=8)
    assert not restraint.observe(2.0, watched=8, failing=7)
    assert restraint.doubting_since == 1.0
    assert restraint.observe(3.0, watched=8, failing=1)
    assert restraint.doubting_since is None


def test_nobody_is_evicted_in_doubt_until_it_has_lasted(restraint: Restraint) -> None:
    """Sites do die; nobody mourns for ever."""
    restraint.observe(1.0, watched=8, failing=8)
    assert restraint.allowance(100.9, living=8) == 0
    assert restraint.allowance(101.0, living=8) == 3


def test_evictions_are_limited_in_a_window(restraint: Restraint) -> None:
    """By number when few live, by share when many do; old ones no longer count."""
    assert restraint.allowance(0.0, living=100) == 20
    for _ in range(3):
        restraint.evicted(1.0)
    assert restraint.allowance(10.9, living=1) == 0
    assert restraint.allowance(10.9, living=100) == 17
    assert restraint.allowance(11.0, living=1) == 3
