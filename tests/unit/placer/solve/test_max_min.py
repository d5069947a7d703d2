"""The search for the greatest share that every model can be served."""

import random

import pytest

from opentela.placer.problem import Demand, Option, Pool, Problem, is_within, served
from opentela.placer.solve.effort import Effort
from opentela.placer.solve.max_min import max_min
from opentela.placer.solve.milp import Limits
from opentela.placer.solve.run import named


def crowded(seed: int, models: int = 40, load: float = 1.0) -> Problem:
    """Return many models of very different demand on four kinds of GPU."""
    draw = random.Random(seed)
    pools = tuple(
        Pool(name=f"p{i}", gpu=f"g{i}", nodes=draw.randrange(2, 6), gpus_per_node=8, usd_h=1.0 + i)
        for i in range(4)
    )
    options = tuple(
        Option(model=f"m{m}", gpu=f"g{g}", tp=tp, capacity_rps=(1 + g) * tp**0.9 * draw.random())
        for m in range(models)
        for g in range(4)
        for tp in (1, 2, 4)
        if draw.random() < 0.8
    )
    rates = [load * draw.paretovariate(1.2) for _ in range(models)]
    demands = tuple(Demand(model=f"m{m}", rate_rps=rate) for m, rate in enumerate(rates))
    return Problem(pools=pools, demands=demands, options=options)


@pytest.mark.parametrize("load", [0.3, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_share_is_reached_and_within_five_percent_of_the_bound(seed: int, load: float) -> None:
    """Whether GPUs are scarce or not; the share that is told is the one that is there."""
    one = crowded(seed, load=load)
    placed = max_min(one, Effort(named("highs"), Limits(time_s=20.0, gap=0.03)))
    worst = min(served(one, placed.counts).values())
    assert is_within(one, placed.counts)
    assert worst >= placed.value * (1 - 1e-6)
    assert placed.value <= placed.bound
    assert placed.gap <= 0.05


def test_a_start_is_no_worse_than_what_it_was() -> None:
    """What runs already is as good as it is, whatever the search finds in no time."""
    one = crowded(1)
    effort = Effort(named("highs"), Limits(time_s=20.0, gap=0.02))
    known = max_min(one, effort)
    hurried = max_min(one, Effort(named("highs"), Limits(time_s=0.0)), known.counts)
    assert hurried.value >= known.value * (1 - 1e-6)
    assert hurried.bound <= 1.0
