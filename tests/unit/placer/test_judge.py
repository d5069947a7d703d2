"""One judge for every placement."""

import math
import random

import pytest
from tests.unit.placer.problems import problem

from opentela.placer.judge import judge
from opentela.placer.problem import Demand, Group

BIG = Group("big", "h", 4)
SMALL = Group("small", "a", 1)


def test_an_overloaded_model_takes_as_long_as_its_capacity_says() -> None:
    """1800 requests at 4 a second take 450 s however they arrive."""
    judged = judge(problem(), {BIG: 1, SMALL: 5}, duration_s=300.0, rng=random.Random(1))
    assert judged.served == {"big": pytest.approx(4 / 6), "small": 1.0}
    assert judged.served_min == pytest.approx(4 / 6)
    assert judged.rate_rps["big"] == pytest.approx(4.0, rel=0.01)
    assert judged.makespan_s == pytest.approx(450.0, rel=0.01)
    assert judged.gpu_hours == pytest.approx(9 * 450 / 3600, rel=0.01)
    # The last to come waits 150 s, and of all requests (6000 and 1800) 99 % fare better.
    assert 100 < judged.p99_s < 150


def test_what_has_no_replica_never_ends() -> None:
    """Infinite times are not left out of the figures."""
    judged = judge(problem(), {BIG: 2}, duration_s=10.0, rng=random.Random(1))
    assert judged.served["small"] == 0.0
    assert judged.rate_rps["small"] == 0.0
    assert math.isinf(judged.p99_s)
    assert math.isinf(judged.makespan_s)


def test_a_router_that_sends_too_much_to_the_slow_is_seen() -> None:
    """The same placement serves less when requests are not sent by capacity."""
    demands = (Demand(model="big", rate_rps=6.0),)
    both = {Group("big", "a", 4): 1, BIG: 1}
    fair = judge(problem(demands=demands), both, duration_s=300.0, rng=random.Random(1))
    unfair = judge(
        problem(demands=demands),
        both,
        duration_s=300.0,
        rng=random.Random(1),
        shares={Group("big", "a", 4): 0.5, BIG: 0.5},
    )
    assert fair.served["big"] == 1.0
    assert unfair.served["big"] == pytest.approx(4 / 6)
    assert unfair.makespan_s > fair.makespan_s * 1.3


def test_nothing_asked_is_nothing_judged() -> None:
    """No demand, no time."""
    idle = problem(demands=(Demand(model="big", rate_rps=0.0),))
    judged = judge(idle, {}, duration_s=10.0, rng=random.Random(1))
    assert (judged.mean_s, judged.p99_s, judged.makespan_s) == (0.0, 0.0, 0.0)
    assert judged.served_min == 1.0
