"""A plan says what, why, how good, and how to get there."""

import random

import pytest
from tests.unit.placer.problems import problem

from opentela.placer import plan as subject
from opentela.placer.problem import Demand, Group, Problem
from opentela.placer.solve.milp import Limits
from opentela.placer.solve.result import Objective, Solved
from opentela.placer.solve.run import solve

EXACT = Limits(time_s=20.0, gap=0.0)


def _solved(one: Problem, objective: Objective = Objective.MAX_MIN) -> Solved:
    return solve(one, objective, limits=EXACT)


def test_a_plan_adds_up() -> None:
    """Groups, models and pools tell the same GPUs and the same price."""
    one = problem()
    made = subject.plan(one, _solved(one, Objective.COST))
    assert made.gpus == sum(group.gpus for group in made.groups)
    assert made.gpus == sum(model.gpus for model in made.models)
    assert made.gpus == sum(pool.used for pool in made.pools)
    assert made.usd_h == pytest.approx(sum(group.usd_h for group in made.groups))
    assert made.unit == "USD/h"
    assert subject.is_whole(made)
    assert [move.wave for move in made.moves] == [0] * len(made.moves)


def test_an_explanation_names_what_limits_and_what_would_be_faster() -> None:
    """One sentence for the whole, for pools, and for each model."""
    scarce = problem(
        demands=(Demand(model="big", rate_rps=9.0), Demand(model="small", rate_rps=90))
    )
    made = subject.plan(scarce, _solved(scarce))
    said = subject.explanation(scarce, made)
    assert said[0].startswith("max-min: ")
    assert "no placement is better than" in said[0]
    assert said[1] == "what limits: every GPU is taken in a, h"
    assert said[2].startswith("big: ")
    assert not subject.is_whole(made)
    cheap = subject.plan(problem(), _solved(problem(), Objective.COST))
    assert any(line.startswith("GPUs left over") for line in subject.explanation(problem(), cheap))


def test_what_is_not_placed_is_explained_too() -> None:
    """A model without a replica, and one that no shape can run."""
    one = problem(demands=(Demand(model="big", rate_rps=0.0), Demand(model="none", rate_rps=0.0)))
    made = subject.plan(one, _solved(one))
    said = subject.explanation(one, made)
    assert "big: 100.0% of 0 requests/s; no replica" in said[-2]
    assert said[-1].endswith("no shape of it can run here")


def test_comparisons_meet_the_same_requests() -> None:
    """Equal placements come to equal figures; baselines are those that there are."""
    one = problem(running={Group("small", "a", 1): 2})
    counts = _solved(one).counts
    others = subject.baselines(one, {"big": 140e9, "small": 16e9})
    assert set(others) == {"greedy", "memory-proportional", "running now"}
    assert set(subject.baselines(problem(), {})) == {"greedy"}
    first, second = subject.compared(
        one, {"x": counts, "y": counts}, lambda: random.Random(3), duration_s=20.0
    )
    assert first.judgement == second.judgement
