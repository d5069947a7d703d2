"""What is late, by clocks that differ."""

import pytest

from opentela.placer.live.lateness import FORGOTTEN_S, ROUTERS_MAX, Lateness

WALL = 1_800_000_000.0


def of(
    one: Lateness, now: float, happened: float, *, router: str = "r", ahead: float = 0.0
) -> float:
    """Return how late news of *happened* is at *now*, told by a clock that is ahead."""
    return one.of(now, WALL + now, router, round((WALL + happened + ahead) * 1000))


@pytest.mark.parametrize("ahead", [0.0, 600.0, -600.0])
def test_what_waited_is_late_whatever_the_clock_says(ahead: float) -> None:
    """The quickest news of a router tells what its clock is worth."""
    one = Lateness()
    assert of(one, 10.0, 9.9, ahead=ahead) == 0.0
    assert of(one, 100.0, 60.0, ahead=ahead) == pytest.approx(39.9)
    assert of(one, 100.0, 99.9, ahead=ahead) == pytest.approx(0.0, abs=1e-3)


def test_each_router_has_its_own_clock() -> None:
    """One that is behind does not make the others' news early."""
    one = Lateness()
    assert of(one, 1.0, 1.0, router="right") == 0.0
    assert of(one, 2.0, 2.0, router="behind", ahead=-300.0) == 0.0
    assert of(one, 50.0, 20.0, router="right") == pytest.approx(30.0)


def test_a_clock_that_was_set_back_is_believed_after_a_while() -> None:
    """Until then its news seem late."""
    one = Lateness()
    of(one, 0.0, 0.0)
    assert of(one, 10.0, 10.0, ahead=-120.0) == pytest.approx(120.0)
    turns = [at * FORGOTTEN_S for at in range(1, 4)]
    *_, last = (of(one, at, at, ahead=-120.0) for at in turns)
    assert last == pytest.approx(0.0, abs=1e-3)


def test_what_says_no_time_is_not_late() -> None:
    """Nor is what comes from more routers than anybody has."""
    one = Lateness()
    assert one.of(5.0, WALL, "r", 0) == 0.0
    for number in range(ROUTERS_MAX):
        of(one, 0.0, 0.0, router=f"r{number}")
    of(one, 0.0, 0.0, router="more")
    assert of(one, 100.0, 0.0, router="more") == 0.0
