"""Simpler ways to place."""

import pytest
from tests.unit.placer.problems import problem

from opentela.core.errors import UsageError
from opentela.placer.baselines import exhaustive
from opentela.placer.baselines.exhaustive import best_cost, best_max_min
from opentela.placer.baselines.greedy import greedy
from opentela.placer.baselines.memory_proportional import memory_proportional
from opentela.placer.baselines.room import Room
from opentela.placer.problem import Demand, Group, Pool, is_within, served

SIZES = {"big": 140e9, "small": 16e9}


def test_memory_proportional_fills_the_pools() -> None:
    """140 GB at 6 a second against 16 GB at 20: 72 % and 28 % of 16 GPUs."""
    one = problem()
    counts = memory_proportional(one, SIZES)
    assert counts == {Group("big", "h", 4): 2, Group("big", "a", 4): 1, Group("small", "a", 1): 4}
    assert is_within(one, counts)


def test_memory_proportional_places_nothing_for_nobody() -> None:
    """Without requests nobody is entitled to anything."""
    assert memory_proportional(problem(demands=(Demand(model="big", rate_rps=0.0),)), SIZES) == {}


def test_greedy_helps_the_worst_served_until_nothing_fits() -> None:
    """Both models end up served alike, and the placement fits."""
    one = problem()
    counts = greedy(one)
    assert is_within(one, counts)
    assert min(served(one, counts).values()) == pytest.approx(1.0)


def test_greedy_stops_at_the_demand() -> None:
    """GPUs that nobody needs stay free."""
    little = problem(demands=(Demand(model="small", rate_rps=5.0), Demand(model="big", rate_rps=0)))
    assert greedy(little) == {Group("small", "h", 1): 1}


def test_exhaustive_finds_the_best() -> None:
    """One by hand: what one node of A100 serves of each model."""
    tight = problem(pools=(Pool(name="a", gpu="a100", nodes=2, gpus_per_node=4, usd_h=1.0),))
    value, placements = best_max_min(tight)
    assert placements == [{Group("big", "a", 4): 1, Group("small", "a", 1): 4}]
    assert value == pytest.approx(1 / 3)
    assert best_cost(tight) is None
    # Big takes four of each; small then needs two of each: 12 and 8 of its 20 a second.
    assert best_cost(problem()) == pytest.approx(6 * 3.0 + 6 * 2.0)


def test_exhaustive_gives_up_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """More placements than can be tried are not tried."""
    monkeypatch.setattr(exhaustive, "PLACEMENTS_MAX", 10)
    with pytest.raises(UsageError, match="more than 10 placements"):
        best_cost(problem())


def test_room_takes_the_fastest_that_fits() -> None:
    """H100 first, then A100, then nothing."""
    room = Room(problem(pools=(Pool(name="a", gpu="a100", nodes=1, gpus_per_node=1),)))
    groups = room.by_model["small"]
    assert room.take(groups) == Group("small", "a", 1)
    assert room.take(groups) is None
    assert room.counts == {Group("small", "a", 1): 1}
