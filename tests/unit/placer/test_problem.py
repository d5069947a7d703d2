"""What a problem is, and which make no sense."""

import math

import pytest
from tests.unit.placer.problems import A100, problem

from opentela.core.errors import UsageError
from opentela.placer import problem as subject
from opentela.placer.problem import Demand, Group, Option, Pool


def test_candidates_are_where_the_gpu_is_and_the_node_is_large_enough() -> None:
    """Tensor parallelism stays within a node; a model stays at its sites."""
    wide = Option(model="big", gpu="a100", tp=8, capacity_rps=9.0)
    staged = Option(model="big", gpu="a100", tp=4, pp=2, capacity_rps=4.0)
    deep = Option(model="big", gpu="a100", tp=4, pp=4, capacity_rps=4.0)
    idle = Option(model="big", gpu="h100", tp=2, capacity_rps=0.0)
    one = problem(options=(wide, staged, deep, idle))
    assert list(one.candidates()) == [Group("big", "a", 4, 2)]
    south = problem(demands=(Demand(model="small", rate_rps=1.0, sites=("south",)),))
    assert list(south.candidates()) == [Group("small", "h", 1)]


def test_groups_say_how_they_are_divided() -> None:
    """As people write it."""
    assert Group("m", "p", 4).label() == "TP4"
    assert Group("m", "p", 4, 2).label() == "TP4·PP2"
    assert Group("m", "p", 4, 2).gpus == 8


def test_sums_are_over_what_is_placed() -> None:
    """GPUs, price, capacity and shares of a placement."""
    one = problem()
    counts = {Group("big", "h", 4): 1, Group("small", "a", 1): 3}
    assert subject.gpus(counts) == 7
    assert subject.usd_h(one, counts) == 4 * 3.0 + 3 * 2.0
    assert subject.capacity(one, counts) == {"big": 4.0, "small": 12.0}
    assert subject.served(one, counts) == {"big": 4 / 6, "small": 0.6}
    nothing = problem(demands=(Demand(model="big", rate_rps=0.0),))
    assert subject.served(nothing, {}) == {"big": 1.0}


@pytest.mark.parametrize(
    ("counts", "fits"),
    [
        ({Group("big", "a", 4): 2}, True),
        ({Group("big", "a", 4): 2, Group("small", "a", 1): 1}, False),
        ({Group("big", "a", 4): 1, Group("small", "a", 1): 4}, True),
        ({Group("big", "a", 4): 1, Group("small", "a", 1): 5}, False),
        ({Group("small", "nowhere", 1): 1}, False),
    ],
)
def test_placements_fit_node_by_node(counts: dict[Group, int], *, fits: bool) -> None:
    """GPUs are counted, and blocks of each size."""
    assert subject.is_within(problem(), counts) is fits


def test_nodes_that_sizes_do_not_divide_hold_fewer_large_ones() -> None:
    """A node of 6 holds one replica of 4 and one of 2; two nodes hold no third of 4."""
    six = Pool(name="a", gpu="a100", nodes=2, gpus_per_node=6)
    options = tuple(Option(model="big", gpu="a100", tp=tp, capacity_rps=1.0) for tp in (2, 4))
    one = problem(pools=(six,), options=options)
    assert subject.is_within(one, {Group("big", "a", 4): 2, Group("big", "a", 2): 2})
    assert not subject.is_within(one, {Group("big", "a", 4): 3})


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"pools": (A100, A100)}, "pool a is named 2 times; give each name once"),
        ({"pools": (Pool(name="a", gpu="x", nodes=-1, gpus_per_node=1),)}, "pool a: nodes = -1"),
        ({"pools": (Pool(name="a", gpu="x", nodes=1, gpus_per_node=0),)}, "gpus_per_node = 0"),
        (
            {"pools": (Pool(name="a", gpu="x", nodes=1, gpus_per_node=1, usd_h=math.nan),)},
            "usd_h = nan is wrong",
        ),
        ({"demands": (Demand(model="m", rate_rps=math.inf),)}, "demand for m: rate_rps = inf"),
        ({"demands": (Demand(model="m", rate_rps=1.0, weight=-1.0),)}, "weight = -1"),
        ({"options": (Option(model="m", gpu="g", tp=3, capacity_rps=1.0),)}, "m on g: tp = 3"),
        ({"options": (Option(model="m", gpu="g", pp=0, capacity_rps=1.0),)}, "pp = 0"),
        ({"options": (Option(model="m", gpu="g", capacity_rps=-1.0),)}, "capacity_rps = -1"),
        ({"running": {Group("big", "a", 2): 1}}, "big runs in a as TP2, which is no known shape"),
        ({"running": {Group("big", "a", 4): -1}}, "big in a: -1 run"),
        ({"running": {Group("x", "a", 4): 1}}, "x runs in a, and no demand is called so; give its"),
        (
            {"running": {Group("big", "x", 4): 1}},
            "big runs in x, and no pool is called so; give one",
        ),
        (
            {"running": {Group("big", "a", 4): 1}, "locked": {Group("big", "a", 4): 2}},
            "big in a: 2 are locked; give at most as many as run",
        ),
    ],
)
def test_what_makes_no_sense_is_named(changes: dict[str, object], fault: str) -> None:
    """The message names the pool, the demand or the shape, and the field."""
    with pytest.raises(UsageError) as raised:
        subject.check(problem(**changes))
    assert fault in raised.value.line()


def test_a_sensible_problem_passes() -> None:
    """Nothing is said of it."""
    subject.check(problem(running={Group("big", "a", 4): 1}, locked={Group("big", "a", 4): 1}))
