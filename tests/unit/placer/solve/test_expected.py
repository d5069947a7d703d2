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
from opentela.placer.solve.expected import Level, expected, levels, most_expected
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


def _running(**running: int) -> Problem:
    """Return four equal GPUs, some of which are held, and three models."""
    return Problem(
        pools=(Pool(name="h", gpu="h", nodes=4, gpus_per_node=1),),
        demands=tuple(Demand(model=name, rate_rps=0.0) for name in "abc"),
        options=tuple(Option(model=name, gpu="h", capacity_rps=2.0, load_s=60.0) for name in "abc"),
        running={Group(name, "h", 1): n for name, n in running.items()},
        horizon_s=3600.0,
    )


def test_what_runs_is_not_moved_for_less_than_a_start_must_be_worth() -> None:
    """A second replica of a model has to pay; the first one of another has not."""
    asked = {"a": [Level(2.0, 95.0), Level(4.0, 5.0)], "b": [Level(1.0, 1.0)], "c": []}
    for start_share, count in ((0.01, 2), (0.1, 1)):
        placed = most_expected(_running(a=1), asked, effort(), start_share=start_share)
        assert placed == {Group("a", "h", 1): count, Group("b", "h", 1): 1}


def test_a_model_that_stays_keeps_what_it_has_until_it_has_something_better() -> None:
    """It may go altogether, but is not stopped in order to load elsewhere."""
    slow, quick = Group("a", "a", 1), Group("a", "h", 1)
    one = msgspec.structs.replace(two(), running={slow: 1}, horizon_s=3600.0)
    one = msgspec.structs.replace(one, demands=tuple(Demand(model=m, rate_rps=0.0) for m in "ab"))
    asked = {"a": [Level(6.0, 1.0)], "b": [Level(2.0, 1.0)]}
    moved = most_expected(one, asked, effort())
    assert moved == {quick: 1, Group("b", "a", 1): 1}
    kept = most_expected(one, asked, effort(), stays=True)
    assert kept in ({slow: 1, Group("b", "h", 1): 1}, {slow: 1, quick: 1})


def test_levels_are_rates_with_headroom_and_growth() -> None:
    """Every request is in one of them."""
    made = levels([(1.0, 8.0), (0.1, 4.0)], 30.0)
    assert sum(one.requests for one in made) == pytest.approx(12.0)
    assert [one.rate_rps for one in made] == sorted(one.rate_rps for one in made)
    assert min(one.rate_rps for one in made) > 0.1
    assert levels([], 30.0) == []


def test_the_share_is_what_the_objective_says() -> None:
    """What is placed at most, judged by the same rule."""
    asked = {"a": [Level(2.0, 3.0), Level(4.0, 1.0)], "b": [Level(1.0, 1.0)]}
    one = _running(a=2, b=1)
    assert expected(one, asked, one.running) == 1.0
    assert expected(one, asked, {Group("a", "h", 1): 1}) == pytest.approx(3.5 / 5)
    assert expected(one, {}, {}) == 1.0
