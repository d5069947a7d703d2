"""What may be asked, and the placement that serves most of it."""

import msgspec
import pytest
from tests.unit.placer.problems import problem

from opentela.placer.problem import (
    Demand,
    Group,
    InfeasibleError,
    Option,
    Pool,
    Problem,
    capacity,
    gpus,
    is_within,
    served,
)
from opentela.placer.solve.effort import Effort
from opentela.placer.solve.expected import Level, most_expected
from opentela.placer.solve.milp import Limits
from opentela.placer.solve.run import named

QUICK = Pool(name="h", gpu="h", nodes=1, gpus_per_node=1, usd_h=3.0)
SLOW = Pool(name="a", gpu="a", nodes=1, gpus_per_node=1, usd_h=2.0)


def effort() -> Effort:
    return Effort(named("highs"), Limits(time_s=20.0, gap=0.0))


def two(*, rate: float = 1.0) -> Problem:
    """Return two models that either GPU serves; a fast one six times a second, a slow one twice."""
    return Problem(
        pools=(QUICK, SLOW),
        demands=tuple(Demand(model=name, rate_rps=rate) for name in "ab"),
        options=tuple(
            Option(model=name, gpu=gpu, capacity_rps=rps)
            for name in "ab"
            for gpu, rps in (("h", 6.0), ("a", 2.0))
        ),
    )


@pytest.mark.parametrize("grows", ["a", "b"])
def test_the_quick_gpu_goes_to_who_may_ask_for_more(grows: str) -> None:
    """Although every demand of now is met either way, at the same price."""
    levels = {name: [Level(1.0, 100.0)] for name in "ab"}
    levels[grows].append(Level(5.0, 1.0))
    placed = most_expected(two(), levels, effort())
    other = "b" if grows == "a" else "a"
    assert placed == {Group(grows, "h", 1): 1, Group(other, "a", 1): 1}


def test_demands_are_met_whatever_is_expected_besides() -> None:
    """Nobody gives up what is asked now for what others may ask."""
    one = problem()
    levels = {"big": [Level(6.0, 1.0)], "small": [Level(40.0, 1e6)]}
    placed = most_expected(one, levels, effort())
    assert min(served(one, placed).values()) == 1.0
    assert is_within(one, placed)
    assert capacity(one, placed)["small"] >= 40.0


def test_what_serves_nobody_stays_free() -> None:
    """GPUs cost something."""
    levels = {name: [Level(1.0, 1.0)] for name in "ab"}
    wide = msgspec.structs.replace(
        two(), pools=(msgspec.structs.replace(QUICK, nodes=9), msgspec.structs.replace(SLOW))
    )
    assert gpus(most_expected(wide, levels, effort())) == 2


def test_demands_that_do_not_fit_are_told() -> None:
    """Who asks decides what is to be given up."""
    with pytest.raises(InfeasibleError, match="do not fit"):
        most_expected(two(rate=7.0), {name: [Level(7.0, 1.0)] for name in "ab"}, effort())


def test_a_model_that_runs_nowhere_takes_nothing_from_others() -> None:
    """It has no shape, and so no share."""
    some = msgspec.structs.replace(two(), demands=(*two().demands, Demand(model="c", rate_rps=0.0)))
    levels = {name: [Level(1.0, 1.0)] for name in "abc"}
    assert gpus(most_expected(some, levels, effort())) == 2
