"""Engines that others started are in pools of their own."""

from opentela.placer.live import by_hand
from opentela.placer.problem import Demand, Group, Option, Pool, Problem


def test_each_kind_fills_a_pool() -> None:
    """In blocks of a power of two; of models that nobody lists nothing is known."""
    found = {("a", "north", "H100", 3): 2, ("b", "north", "H100", 1): 1, ("x", "y", "z", 1): 9}
    (first, n, pool), (second, _, _) = by_hand.engines(found, ("a", "b"))
    assert (first.model, first.tp, n) == ("a", 4, 2)
    assert (pool.name, pool.nodes, pool.gpus_per_node, pool.usd_h) == (first.pool, 2, 4, 0.0)
    assert second.pool != first.pool


def test_they_are_told_from_what_was_placed() -> None:
    """By their pools, whatever sites and GPUs are called."""
    (group, n, pool), *_ = by_hand.engines({("a", "s", "h", 1): 1}, ("a",))
    ours = Group("a", "s/h/1", 1)
    problem = Problem(
        pools=(pool, Pool(name=ours.pool, gpu="h", nodes=1, gpus_per_node=1)),
        demands=(Demand(model="a", rate_rps=1.0),),
        options=(Option(model="a", gpu="h", capacity_rps=1.0),),
        running={group: n, ours: 1},
    )
    assert by_hand.of(problem) == {group: n}
    assert (by_hand.is_one(group), by_hand.is_one(ours)) == (True, False)
    assert (by_hand.is_pool(pool.name), by_hand.is_pool(ours.pool)) == (True, False)
