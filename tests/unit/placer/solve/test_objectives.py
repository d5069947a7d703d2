"""Placements are as good as they can be, and say how good that is."""

import math

import msgspec
import pytest
from tests.unit.placer.problems import A100, H100, problem

from opentela.placer.baselines.exhaustive import best_cost, best_max_min
from opentela.placer.problem import Demand, Group, InfeasibleError, Option, is_within, served
from opentela.placer.problem import usd_h as price
from opentela.placer.solve.cover import tangents
from opentela.placer.solve.infeasible import reasons, unplaceable
from opentela.placer.solve.milp import Limits, Verdict
from opentela.placer.solve.result import Objective, gap
from opentela.placer.solve.run import SOLVERS, named, solve

EXACT = Limits(time_s=20.0, gap=0.0)
BIG_A, BIG_H = Group("big", "a", 4), Group("big", "h", 4)
SMALL_A, SMALL_H = Group("small", "a", 1), Group("small", "h", 1)


@pytest.mark.parametrize("solver", sorted(SOLVERS))
def test_cost_is_what_trying_everything_finds(solver: str) -> None:
    """And every demand is met."""
    one = problem()
    solved = solve(one, Objective.COST, limits=EXACT, solver=solver)
    assert solved.value == pytest.approx(best_cost(one))
    assert solved.verdict is Verdict.OPTIMAL
    assert solved.gap == pytest.approx(0.0, abs=1e-6)
    assert min(served(one, solved.counts).values()) == 1.0
    assert is_within(one, solved.counts)


@pytest.mark.parametrize("solver", sorted(SOLVERS))
@pytest.mark.parametrize("rate", [1.0, 6.0, 30.0])
def test_max_min_is_what_trying_everything_finds(solver: str, rate: float) -> None:
    """Whether there is plenty or little."""
    demands = (Demand(model="big", rate_rps=rate), Demand(model="small", rate_rps=2 * rate))
    one = problem(demands=demands)
    solved = solve(one, Objective.MAX_MIN, limits=EXACT, solver=solver)
    value, _ = best_max_min(one)
    assert solved.value == pytest.approx(value, rel=1e-6)
    assert solved.bound >= solved.value
    assert solved.gap < 1e-4
    assert min(served(one, solved.counts).values()) == pytest.approx(value)
    assert is_within(one, solved.counts)


def test_max_min_serves_the_others_as_well_as_it_can() -> None:
    """The worst served has all it can get; what is left over is not left idle."""
    demands = (Demand(model="big", rate_rps=40.0), Demand(model="small", rate_rps=4.0))
    one = problem(demands=demands)
    solved = solve(one, Objective.MAX_MIN, limits=EXACT)
    shares = served(one, solved.counts)
    assert shares["big"] == pytest.approx(solved.value)
    assert shares["small"] == 1.0


def test_max_min_of_more_models_than_gpus_is_nothing() -> None:
    """It says so with a bound, and serves what it can."""
    demands = tuple(Demand(model=f"m{i}", rate_rps=1.0) for i in range(10))
    options = tuple(Option(model=f"m{i}", gpu="a100", tp=4, capacity_rps=1.0) for i in range(10))
    one = problem(demands=demands, options=options)
    solved = solve(one, Objective.MAX_MIN, limits=EXACT)
    assert solved.value == 0.0
    assert solved.bound <= 1e-5
    assert sum(served(one, solved.counts).values()) == pytest.approx(2.0)


def test_served_weighs_requests() -> None:
    """Eight GPUs serve 32 small requests a second or 4 big ones; weights decide."""
    demands = (Demand(model="big", rate_rps=50.0), Demand(model="small", rate_rps=50.0))
    one = problem(pools=(A100,), demands=demands)
    assert solve(one, Objective.SERVED, limits=EXACT).counts == {SMALL_A: 8}
    heavy = (msgspec.structs.replace(demands[0], weight=20.0), demands[1])
    dear = msgspec.structs.replace(one, demands=heavy)
    assert solve(dear, Objective.SLO, limits=EXACT).counts == {BIG_A: 2}


def test_latency_takes_the_fast_and_spreads_the_load() -> None:
    """Half-empty replicas answer sooner: all GPUs are used, as far as it helps."""
    curve = ((0.1, 1.0), (0.5, 1.5), (0.9, 4.0))
    options = (
        Option(model="small", gpu="a100", capacity_rps=4.0, latency_s=curve),
        Option(model="small", gpu="h100", capacity_rps=6.0, latency_s=((0.1, 0.5), (0.9, 2.0))),
    )
    one = problem(demands=(Demand(model="small", rate_rps=4.0),), options=options)
    solved = solve(one, Objective.LATENCY, limits=EXACT)
    assert solved.counts[SMALL_H] >= 7
    assert solved.value == pytest.approx(0.5, abs=0.01)
    assert solved.verdict is Verdict.OPTIMAL
    assert solve(one, Objective.LATENCY, limits=Limits(time_s=0.0)).value < 4.0


def test_tangents_lie_below_the_curve_and_touch_its_corners() -> None:
    """Time per second is rate times latency, at every corner."""
    option = Option(model="m", gpu="g", capacity_rps=10.0, latency_s=((0.2, 1.0), (0.8, 3.0)))
    lines = tangents(option, 10.0)
    for rate, latency in ((2.0, 1.0), (8.0, 3.0)):
        assert max(s * rate - o for s, o in lines) == pytest.approx(rate * latency)
    unknown = Option(model="m", gpu="g", capacity_rps=10.0)
    assert tangents(unknown, 10.0) == [(1.0, 0.0)]


def test_moving_must_pay_within_the_horizon() -> None:
    """A replica that would load for longer than the plan holds is not started."""
    running = {BIG_A: 2, SMALL_H: 4}
    soon = problem(running=running, horizon_s=60.0)
    later = problem(running=running, horizon_s=36_000.0)
    assert solve(soon, Objective.MAX_MIN, limits=EXACT).counts[BIG_A] == 2
    assert BIG_H in solve(later, Objective.MAX_MIN, limits=EXACT).counts


def test_what_is_locked_stays() -> None:
    """A replica within its cool-down is kept although it costs."""
    idle = (Demand(model="small", rate_rps=1.0), Demand(model="big", rate_rps=0.0))
    one = problem(demands=idle, running={BIG_H: 2}, locked={BIG_H: 1})
    assert solve(one, Objective.COST, limits=EXACT).counts == {BIG_H: 1, SMALL_A: 1}


def test_what_is_kept_in_any_case_is_kept() -> None:
    """`replicas_min` without any request."""
    one = problem(demands=(Demand(model="small", rate_rps=0.0, replicas_min=3),))
    assert solve(one, Objective.COST, limits=EXACT).counts == {SMALL_A: 3}
    assert sum(solve(one, Objective.MAX_MIN, limits=EXACT).counts.values()) >= 3


def test_a_budget_binds() -> None:
    """No plan costs more than may be spent."""
    one = problem(usd_h_max=20.0)
    for objective in (Objective.MAX_MIN, Objective.SERVED):
        counts = solve(one, objective, limits=EXACT).counts
        assert price(one, counts) <= 20.0
    with pytest.raises(InfeasibleError):
        solve(one, Objective.COST, limits=EXACT)


def test_no_time_at_all_keeps_what_runs() -> None:
    """Without an answer nothing is touched, and the bound says what could be had."""
    one = problem(running={SMALL_A: 4})
    solved = solve(one, Objective.MAX_MIN, limits=Limits(time_s=0.0))
    assert solved.value >= 0.0
    assert solved.bound <= 1.0


@pytest.mark.parametrize(
    ("objective", "value", "bound", "apart"),
    [
        (Objective.COST, 110.0, 100.0, 1 / 11),
        (Objective.MAX_MIN, 0.9, 1.0, 0.1),
        (Objective.SERVED, 0.0, 0.0, 0.0),
        (Objective.LATENCY, 2.0, 2.0, 0.0),
    ],
)
def test_gap_is_a_share_of_the_greater(
    objective: Objective, value: float, bound: float, apart: float
) -> None:
    """So that 5 % means the same for all objectives."""
    assert gap(objective, value, bound) == pytest.approx(apart)


def _why(**changes: object) -> list[str]:
    one = problem(**changes)
    return reasons(one, named("highs"), {"huge": "weights do not fit (a100, h100)"})


def test_infeasible_says_which_model_and_which_limit() -> None:
    """One sentence for each model that fails for itself."""
    demands = (
        Demand(model="huge", rate_rps=1.0),
        Demand(model="big", rate_rps=1.0, sites=("west",)),
        Demand(model="small", rate_rps=500.0, sites=("north",)),
    )
    assert _why(demands=demands) == [
        "huge runs on no GPU of a (8 a100), h (8 h100): weights do not fit (a100, h100)",
        "big may run at west only; sites with GPUs: north, south",
        "small: 500 requests/s are asked, at most 32 can be served with all of a (8 a100)",
    ]


def test_infeasible_says_what_is_full_when_each_alone_would_fit() -> None:
    """Then it is the sum that does not fit."""
    demands = (Demand(model="big", rate_rps=10.0), Demand(model="small", rate_rps=60.0))
    said = _why(demands=demands)
    assert said[0].startswith("all demands together do not fit: no placement serves more than")
    assert said[1] == "full by then: a (8 a100), h (8 h100) (16 GPUs in all)"
    assert said[2].startswith("most GPUs go to big (")


def test_infeasible_speaks_of_nodes_minima_and_money() -> None:
    """Each limit in its own words."""
    wide = (Option(model="big", gpu="a100", tp=8, capacity_rps=9.0),)
    demands = (Demand(model="big", rate_rps=1.0),)
    assert _why(options=wide, demands=demands) == [
        "big needs 8 GPUs or more of a100 in one node; a (8 a100), h (8 h100) offer at most 8 h100"
    ]
    many = (Demand(model="big", rate_rps=1.0, replicas_min=9),)
    assert _why(demands=many) == ["big: replicas_min = 9 do not fit into a (8 a100), h (8 h100)"]
    assert "can be served for 10 USD/h" in _why(usd_h_max=10.0)[0]
    together = _why(usd_h_max=25.0)
    assert together[1].startswith("without the limit of 25 USD/h 100.0% can be had, for ")


def test_models_without_a_place_are_known_before_anything_is_solved() -> None:
    """A plan for the others can still be made."""
    one = problem(demands=(Demand(model="huge", rate_rps=1.0), Demand(model="big", rate_rps=1.0)))
    assert list(unplaceable(one, {})) == ["huge"]
    assert unplaceable(problem(pools=(A100, H100)), {}) == {}
    assert math.isfinite(len(unplaceable(one, {})["huge"]))
