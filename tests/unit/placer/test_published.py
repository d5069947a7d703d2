"""The published case: 24 A100, 32 GH200, three models."""

import random

import pytest

from opentela.placer.baselines.exhaustive import best_max_min
from opentela.placer.baselines.memory_proportional import memory_proportional
from opentela.placer.judge import judge
from opentela.placer.problem import capacity, is_within, served
from opentela.placer.published import published
from opentela.placer.solve.milp import Limits, Verdict
from opentela.placer.solve.result import Objective
from opentela.placer.solve.run import solve

CASE = published()
PROBLEM = CASE.problem()
BEST, MEMORY, STRAW = CASE.placements


def test_every_published_placement_fits() -> None:
    """Six nodes of four A100 and eight of four GH200 hold each of them."""
    assert all(is_within(PROBLEM, CASE.counts(one)) for one in CASE.placements)


def test_the_rates_of_the_placement_come_out() -> None:
    """Replicas times what one does: within 7 % of what was measured, model by model."""
    rates = capacity(PROBLEM, CASE.counts(BEST))
    assert rates == pytest.approx(
        {"llama-2-13b": 30.28, "codellama-34b": 45.77, "llama-3.3-70b": 53.55}, abs=0.01
    )
    assert BEST.published_rps is not None
    assert rates == pytest.approx(BEST.published_rps, rel=0.07)


def test_the_rates_of_the_baseline_come_out_under_its_own_router() -> None:
    """11 of 100 requests for the 70B model went to its one replica on A100, which limits it."""
    judged = judge(
        PROBLEM,
        CASE.counts(MEMORY),
        duration_s=CASE.duration_s,
        rng=random.Random(1),
        shares=CASE.shares(MEMORY),
    )
    assert MEMORY.published_rps is not None
    assert judged.rate_rps == pytest.approx(MEMORY.published_rps, rel=0.03)


def test_under_one_router_the_sum_of_rates_says_little() -> None:
    """With requests sent by capacity the sums are alike; the worst served model is not."""
    best, memory = (
        judge(PROBLEM, CASE.counts(one), duration_s=CASE.duration_s, rng=random.Random(1))
        for one in (BEST, MEMORY)
    )
    assert sum(best.rate_rps.values()) == pytest.approx(129.5, abs=0.5)
    assert sum(memory.rate_rps.values()) == pytest.approx(125.9, abs=0.5)
    assert best.served_min / memory.served_min == pytest.approx(3.76, abs=0.02)
    assert best.makespan_s == pytest.approx(1238, abs=2)
    assert memory.makespan_s == pytest.approx(4654, abs=5)
    assert best.p99_s < memory.p99_s / 4


@pytest.mark.parametrize("solver", ["highs", "cp-sat"])
def test_the_solver_finds_the_published_placement_and_proves_it(solver: str) -> None:
    """No placement serves the worst served model better, to a hundred-thousandth."""
    solved = solve(PROBLEM, Objective.MAX_MIN, limits=Limits(time_s=30, gap=0.0), solver=solver)
    assert solved.counts == CASE.counts(BEST)
    assert solved.verdict is Verdict.OPTIMAL
    assert solved.value == pytest.approx(0.242312, abs=1e-6)
    assert solved.gap < 2e-5


def test_trying_every_placement_agrees() -> None:
    """There is one best placement, and no solver is needed to see it."""
    value, placements = best_max_min(PROBLEM)
    assert placements == [CASE.counts(BEST)]
    assert value == min(served(PROBLEM, CASE.counts(BEST)).values())


def test_the_baseline_is_memory_times_requests() -> None:
    """The published baseline comes out of the rule, replica by replica."""
    assert memory_proportional(PROBLEM, CASE.weights_bytes()) == CASE.counts(MEMORY)


def test_shares_of_a_placement_alone_on_one_gpu_are_whole() -> None:
    """Where a model has replicas in one pool only, all its requests go there."""
    shares = CASE.shares(STRAW)
    by_model = {model.model: 0.0 for model in CASE.models}
    for group, share in shares.items():
        by_model[group.model] += share
    assert by_model == pytest.approx(dict.fromkeys(by_model, 1.0))
