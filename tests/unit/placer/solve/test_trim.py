"""Replicas that add nothing are taken out again."""

from tests.unit.placer.problems import problem

from opentela.placer.problem import Demand, Group
from opentela.placer.solve.trim import trimmed


def test_replicas_that_add_nothing_are_taken_out() -> None:
    """The dearest first, what is locked or to be kept never."""
    counts = {Group("small", "a", 1): 4, Group("small", "h", 1): 3, Group("big", "a", 4): 1}
    idle = problem(
        demands=(Demand(model="small", rate_rps=8.0), Demand(model="big", rate_rps=0.0)),
    )
    assert trimmed(idle, counts) == {Group("small", "a", 1): 2}
    kept = problem(
        demands=(Demand(model="small", rate_rps=8.0, replicas_min=5),),
        running={Group("small", "h", 1): 3},
        locked={Group("small", "h", 1): 2},
    )
    del counts[Group("big", "a", 4)]
    assert trimmed(kept, counts) == {Group("small", "a", 1): 3, Group("small", "h", 1): 2}
