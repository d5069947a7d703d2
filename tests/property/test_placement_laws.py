"""Laws that hold for every placement problem."""

from hypothesis import given, settings
from hypothesis import strategies as st

from opentela.placer import moves
from opentela.placer.baselines.greedy import greedy
from opentela.placer.baselines.memory_proportional import memory_proportional
from opentela.placer.problem import Demand, Option, Pool, Problem, capacity, is_within, served
from opentela.placer.solve.milp import Limits
from opentela.placer.solve.result import Objective
from opentela.placer.solve.run import solve

_LIMITS = Limits(time_s=2.0, gap=0.02)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Return a few models on a few pools, of nodes of any size."""
    kinds = draw(st.integers(1, 3))
    pools = tuple(
        Pool(
            name=f"p{i}",
            gpu=f"g{i}",
            nodes=draw(st.integers(1, 4)),
            gpus_per_node=draw(st.integers(1, 8)),
            usd_h=draw(st.floats(0.1, 5.0)),
        )
        for i in range(kinds)
    )
    models = draw(st.integers(1, 4))
    demands = tuple(
        Demand(model=f"m{m}", rate_rps=draw(st.floats(0.1, 50.0))) for m in range(models)
    )
    options = tuple(
        Option(model=f"m{m}", gpu=f"g{g}", tp=tp, capacity_rps=draw(st.floats(0.1, 10.0)))
        for m in range(models)
        for g in range(kinds)
        for tp in (1, 2, 4)
        if draw(st.booleans())
    )
    return Problem(pools=pools, demands=demands, options=options)


@settings(deadline=None, max_examples=25)
@given(problems())
def test_placements_fit_and_no_baseline_beats_the_bound(problem: Problem) -> None:
    """A bound is above everything: the placement itself, greedy, memory-proportional."""
    solved = solve(problem, Objective.MAX_MIN, limits=_LIMITS)
    others = (
        greedy(problem),
        memory_proportional(problem, {d.model: 1.0 for d in problem.demands}),
    )
    assert is_within(problem, solved.counts)
    for counts in (solved.counts, *others):
        assert is_within(problem, counts)
        assert min(served(problem, counts).values()) <= solved.bound * (1 + 1e-6) + 2e-6
    assert min(served(problem, solved.counts).values()) >= solved.value * (1 - 1e-6)


@settings(deadline=None, max_examples=25)
@given(problems())
def test_moves_reach_the_target_and_always_fit(problem: Problem) -> None:
    """From any placement to any other, each wave within the pools."""
    running = greedy(problem)
    target = solve(problem, Objective.SERVED, limits=_LIMITS).counts
    before = Problem(
        pools=problem.pools, demands=problem.demands, options=problem.options, running=running
    )
    steps = moves.moves(before, target)
    assert moves.apply(running, steps) == {group: n for group, n in target.items() if n}
    for wave in range(1 + max((step.wave for step in steps), default=0)):
        state = moves.apply(running, [step for step in steps if step.wave <= wave])
        assert is_within(problem, state)


@settings(deadline=None, max_examples=20)
@given(problems())
def test_served_is_at_least_what_greedy_serves(problem: Problem) -> None:
    """Within the gap that was asked for."""
    solved = solve(problem, Objective.SERVED, limits=_LIMITS)
    total = sum(demand.rate_rps for demand in problem.demands)
    have = capacity(problem, greedy(problem))
    worth = sum(min(have[d.model], d.rate_rps) for d in problem.demands) / total
    assert solved.bound >= worth - 1e-6
    assert solved.value >= worth - 0.02 * solved.bound - 1e-6
