"""What failed is tried elsewhere, then later, and blamed on whom it was the fault of."""

import pytest

from opentela.core.ids import SessionId
from opentela.placer.live.blame import FAILURES_MAX, Blame

AGENTS = [SessionId(f"agent{number}") for number in range(4)]


def blame() -> Blame:
    """Return one that waits for four seconds at first."""
    return Blame(4.0, 10.0)


def fail(one: Blame, *places: tuple[int, str], now: float = 0.0, was_tried: bool = True) -> None:
    """Have models fail at agents."""
    for place, model in places:
        one.failed(now, AGENTS[place], model, "it broke", was_tried=was_tried)


def test_the_place_waits_and_others_do_not() -> None:
    """Longer with each failure in a row, up to the greatest wait."""
    one = blame()
    waits = []
    for _ in range(3):
        fail(one, (0, "a"))
        waits.append(next(t for t in range(20) if one.may_start(t, AGENTS[0], "a")))
    assert waits == [4, 8, 10]
    assert one.may_start(0.0, AGENTS[1], "a")
    assert one.may_start(0.0, AGENTS[0], "b")
    assert [one.count(agent, "a") for agent in AGENTS[:2]] == [3, 0]


def test_a_model_that_fails_everywhere_waits_everywhere() -> None:
    """Each further agent would load it in vain."""
    one = blame()
    fail(one, (0, "a"), (1, "a"), (0, "a"))
    assert one.may_start(0.0, AGENTS[3], "a")
    fail(one, (2, "a"))
    assert not one.may_start(3.9, AGENTS[3], "a")
    assert one.may_start(4.0, AGENTS[3], "a")
    assert one.may_start(0.0, AGENTS[3], "b")


def test_an_agent_at_which_everything_fails_waits_for_everything() -> None:
    """Its GPU may be broken."""
    one = blame()
    fail(one, (0, "a"), (0, "b"), (0, "c"))
    assert not one.may_start(3.9, AGENTS[0], "d")
    assert one.may_start(4.0, AGENTS[0], "d")
    assert one.may_start(0.0, AGENTS[1], "d")
    assert one.count(AGENTS[0], "d") == 1


def test_what_serves_is_to_blame_for_nothing() -> None:
    """Failures of before count no more."""
    one = blame()
    fail(one, (0, "a"), (1, "a"))
    one.served(AGENTS[2], "a")
    fail(one, (2, "a"))
    assert one.may_start(0.0, AGENTS[3], "a")
    one.served(AGENTS[0], "a")
    assert one.may_start(0.0, AGENTS[0], "a")


def test_what_was_refused_says_nothing_of_other_places() -> None:
    """An agent may have its reasons."""
    one = blame()
    fail(one, (0, "a"), (1, "a"), (2, "a"), was_tried=False)
    assert one.may_start(0.0, AGENTS[3], "a")
    assert not one.may_start(0.0, AGENTS[0], "a")


def test_it_is_told_what_failed_and_when_it_is_tried_again() -> None:
    """The longest wait first; what is only counted is not told."""
    one = blame()
    fail(one, (0, "a"), (1, "b"), (1, "b"))
    told = [(row.agent, row.model, row.times, row.wait_s) for row in one.told(1.0)]
    assert told == [(AGENTS[1], "b", 2, 7.0), (AGENTS[0], "a", 1, 3.0)]
    assert {row.reason for row in one.told(1.0)} == {"it broke"}


@pytest.mark.parametrize("many", [FAILURES_MAX + 10])
def test_what_is_remembered_is_bounded(many: int) -> None:
    """The oldest goes."""
    one = blame()
    for number in range(many):
        one.failed(0.0, AGENTS[0], f"m{number}", "it broke", was_tried=True)
    assert one.may_start(0.0, AGENTS[0], "m0") is False  # the agent itself waits
    assert len(one.told(0.0)) == FAILURES_MAX + 1
