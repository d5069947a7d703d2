"""`least_load` takes the better of two, and its counts cannot drift."""

import random

import pytest
from tests.unit.router.parts import Dice, candidate

from opentela.router.outcomes import Result
from opentela.router.policies.base import Call, Observed
from opentela.router.policies.least_load import LeastLoad

CALL = Call("m", "r")
ENDED = Observed(Result.ANSWERED)
A, B, C = (candidate(name) for name in "abc")


def loaded(*draws: float, **load: int) -> LeastLoad:
    """Return a policy with *load* in flight that will draw *draws*."""
    policy = LeastLoad(Dice(*draws))
    for name, count in load.items():
        for _ in range(count):
            policy.on_request_start(CALL, candidate(name))
    return policy


def test_one_candidate_needs_no_draw() -> None:
    """Nothing is to be decided."""
    assert LeastLoad(Dice()).pick(CALL, [A]) is A


@pytest.mark.parametrize(
    ("draws", "two"),
    [((0, 0), "ab"), ((0, 1), "ac"), ((1, 0), "ba"), ((1, 1), "bc"), ((2, 1), "cb")],
)
def test_two_different_ones_are_drawn(draws: tuple[int, int], two: str) -> None:
    """Either of them wins when it alone is idle."""
    for winner in two:
        policy = loaded(*draws, a=1, b=1, c=1)
        policy.on_request_end(CALL, candidate(winner), ENDED)
        assert policy.pick(CALL, [A, B, C]).session == winner


def test_the_first_drawn_wins_when_equal() -> None:
    """Chance has chosen it already."""
    assert loaded(2, 0).pick(CALL, [A, B, C]) is C
    assert loaded(0, 1, a=1, c=1).pick(CALL, [A, B, C]) is A


def test_counts_return_to_nothing() -> None:
    """Whatever started has ended: nothing is remembered."""
    policy = loaded(a=2, b=1)
    for one in (A, B, A):
        policy.on_request_end(CALL, one, ENDED)
    assert len(policy._in_flight) == 0


def test_an_end_without_a_start_is_a_bug() -> None:
    """It must not go by as a negative load that draws all requests."""
    with pytest.raises(AssertionError, match="without a start"):
        LeastLoad(Dice()).on_request_end(CALL, A, ENDED)


def test_load_stays_even() -> None:
    """Two choices keep the fullest of many sessions close to the mean."""
    policy = LeastLoad(random.Random(5))
    sessions = [candidate(f"s{number:03}") for number in range(100)]
    for _ in range(2000):
        policy.on_request_start(CALL, policy.pick(CALL, sessions))
    assert max(policy._in_flight.of(one.session) for one in sessions) <= 20 + 4
