"""`hardware_weighted` gives each session as much as it can do, and no more at once."""

import random
from collections import Counter

import pytest
from tests.unit.router.parts import Dice, candidate

from opentela.router.outcomes import Result
from opentela.router.policies import hardware_weighted as module
from opentela.router.policies.base import Call, Observed
from opentela.router.policies.hardware_weighted import HardwareWeighted

CALL = Call("m", "r")
FAST = [candidate(f"f{n}", hardware="NVIDIA H100 80GB HBM3") for n in range(4)]
SLOW = [candidate(f"s{n}", hardware="NVIDIA L4") for n in range(4)]
ALL = [*FAST, *SLOW]


def test_one_candidate_needs_no_draw() -> None:
    """Nothing is to be decided."""
    assert HardwareWeighted(Dice()).pick(CALL, ALL[:1]) is ALL[0]


def test_draws_are_in_proportion_to_speed() -> None:
    """The first slow one begins behind four fast ones of 3350 among eight."""
    edge, rest = 4 * 3350 / (4 * 3650), 3 * 3350 / (4 * 3650 - 3350)
    for draws, numbers in {
        (0.0, 0.0): (0, 1),
        (edge - 1e-6, 0.0): (3, 0),
        (edge - 1e-6, rest - 1e-6): (3, 2),
        (edge - 1e-6, rest + 1e-6): (3, 4),
        (edge + 1e-6, 0.0): (4, 0),
        (1 - 1e-16, 1 - 1e-16): (7, 6),
    }.items():
        policy = HardwareWeighted(Dice(*draws))
        assert policy._draw_two(policy._shares_of("m", ALL)) == numbers


def test_two_different_ones_are_drawn() -> None:
    """Each pair as often as their speeds would have it."""
    policy = HardwareWeighted(random.Random(1))
    shares = policy._shares_of("m", ALL)
    pairs = [policy._draw_two(shares) for _ in range(20_000)]
    assert all(first != second for first, second in pairs)
    both_fast = sum(first < 4 and second < 4 for first, second in pairs) / len(pairs)
    assert both_fast == pytest.approx(3350 / 3650 * 3 * 3350 / (4 * 3650 - 3350), abs=0.01)


def test_of_two_the_one_that_is_done_sooner_wins() -> None:
    """Eleven at a session that is eleven times as fast are about one at the other."""
    policy = HardwareWeighted(Dice(*[0.0, 0.9999] * 3))
    assert policy.pick(CALL, ALL) is FAST[0]
    for _ in range(12):
        policy.on_request_start(CALL, FAST[0])
    assert policy.pick(CALL, ALL) is SLOW[3]
    policy.on_request_start(CALL, SLOW[3])
    assert policy.pick(CALL, ALL) is FAST[0]


def test_a_session_that_disappoints_gets_less() -> None:
    """Whatever its hardware promised."""
    policy = HardwareWeighted(random.Random(3))
    picked: Counter[str] = Counter()
    for index in range(4000):
        chosen = policy.pick(CALL, FAST)
        policy.on_request_start(CALL, chosen)
        took = 40.0 if chosen is FAST[0] else 1.0
        policy.on_request_end(CALL, chosen, Observed(Result.ANSWERED, took, tokens_out=100))
        picked[chosen.session] += index >= 1000
    assert picked["f0"] < 100
    assert min(picked[one.session] for one in FAST[1:]) > 300


def test_counts_return_to_nothing() -> None:
    """However an attempt ends."""
    policy = HardwareWeighted(Dice())
    policy.on_request_start(CALL, FAST[0])
    policy.on_request_end(CALL, FAST[0], Observed(Result.FAILED))
    assert len(policy._in_flight) == 0


def test_shares_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is not asked for any more is forgotten."""
    monkeypatch.setattr(module, "MODELS_MAX", 2)
    policy = HardwareWeighted(random.Random(1))
    for model in "xyz":
        policy.pick(Call(model, "r"), ALL)
    assert list(policy._shares) == ["y", "z"]
