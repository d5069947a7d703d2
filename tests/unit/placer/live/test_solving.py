"""What the solver is asked: enough for all, or the best for some."""

import msgspec
import pytest

from opentela.placer.live.config import PlanConfig
from opentela.placer.live.demand import Asked
from opentela.placer.live.solving import Found, overdue, solutions
from opentela.placer.problem import Demand, Group, Option, Pool, Problem
from opentela.placer.solve.result import Objective

POOL = Pool(name="p", gpu="g", nodes=2, gpus_per_node=1)


def group(model: str) -> Group:
    return Group(model, "p", 1)


def problem(*running: str, nodes: int = 2, **rates: float) -> Problem:
    """Return what is demanded of three models that serve two requests a second each."""
    return Problem(
        pools=(msgspec.structs.replace(POOL, nodes=nodes),),
        demands=tuple(Demand(model=name, rate_rps=rates.get(name, 0.0)) for name in "abc"),
        options=tuple(Option(model=name, gpu="g", capacity_rps=2.0) for name in "abc"),
        running={group(name): 1 for name in running},
        horizon_s=3600.0,
    )


def asked(**waits_s: float) -> tuple[Asked, ...]:
    return tuple(Asked(model=name, rate_rps=1.0, waits_s=waits_s.get(name, 0.0)) for name in "abc")


def found(
    one: Problem, late: tuple[str, ...] = (), **plan: object
) -> tuple[list[Found], list[str]]:
    notes: list[str] = []
    config = msgspec.convert({"wait_max_s": 0.0, **plan}, PlanConfig)
    return list(solutions(one, asked(), late, config, notes)), notes


def test_what_is_enough_for_all_is_the_only_answer() -> None:
    """As cheaply as possible, or each at least one."""
    for scarce, objective in (("fair", Objective.COST), ("most", Objective.SERVED)):
        (one,), notes = found(problem(a=1.0, b=1.0), scarce=scarce)
        assert (one.counts, one.objective, notes) == (
            {group("a"): 1, group("b"): 1},
            objective,
            [],
        )


def test_nothing_asked_of_nothing_is_nothing() -> None:
    """A mesh may be empty."""
    empty = msgspec.structs.replace(problem(), pools=(), options=())
    assert found(empty)[0] == [Found({}, Objective.COST)]


@pytest.mark.parametrize(("scarce", "objective"), [("most", "served"), ("fair", "max-min")])
def test_where_it_is_not_enough_last_replicas_stay(scarce: str, objective: str) -> None:
    """Whoever waits, and however much it is worth; but not for ever where all have turns."""
    one = problem("a", "b", a=1.0, b=1.0, c=9.0)
    (kept,), notes = found(one, scarce=scarce)
    assert (kept.counts, kept.objective) == ({group("a"): 1, group("b"): 1}, objective)
    assert "too few GPUs" in notes[0]
    (turn,), _ = found(one, ("c",), scarce=scarce, wait_max_s=1.0)
    assert turn.counts.get(group("c")) == 1
    assert [one.model for one in turn.turns] == ["c"]


def test_where_replicas_may_change_places_there_is_a_second_answer() -> None:
    """In which everybody who had one has one somewhere."""
    first, second = found(problem("a", "b", a=1.0, b=1.0, c=9.0), swap="pays")[0]
    assert {*first.counts} == {*second.counts} == {group("a"), group("b")}


def test_who_waits_no_more_is_known_by_what_runs_and_how_long_it_waited() -> None:
    """Who is owed a replica first, then who has waited longest."""
    one = problem("a", a=1.0, b=1.0, c=1.0)
    waits = asked(a=99.0, b=50.0, c=80.0)
    assert overdue(one, waits, (), 40.0) == ("c", "b")
    assert overdue(one, waits, (), 60.0) == ("c",)
    assert overdue(one, waits, ("b", "a"), 60.0) == ("b", "c")
    assert overdue(one, waits, (), 0.0) == ()
