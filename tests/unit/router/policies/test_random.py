"""`random` is fair and leaves nobody out."""

import random
from collections import Counter

from tests.unit.router.parts import Dice, candidate

from opentela.router.outcomes import Result
from opentela.router.policies.base import Call, Observed
from opentela.router.policies.random import Random

CALL = Call("m", "r")
ALL = [candidate(name) for name in "abcd"]


def test_the_draw_decides() -> None:
    """And nothing else."""
    policy = Random(Dice(2, 0))
    assert [policy.pick(CALL, ALL).session for _ in range(2)] == ["c", "a"]


def test_every_session_is_as_likely() -> None:
    """Within what chance allows, for a fixed seed."""
    policy = Random(random.Random(7))
    counts = Counter(policy.pick(CALL, ALL).session for _ in range(4000))
    assert all(900 < counts[one.session] < 1100 for one in ALL)


def test_nothing_is_counted() -> None:
    """Starts and ends leave no trace."""
    policy = Random(Dice(1))
    policy.on_request_start(CALL, ALL[0])
    policy.on_request_end(CALL, ALL[0], Observed(Result.ANSWERED))
    assert policy.pick(CALL, ALL).session == "b"
