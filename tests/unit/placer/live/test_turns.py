"""Who gives up a last replica, and for whom."""

import msgspec
import pytest

from opentela.placer.live.turns import HOLD, Gaps, Turn, gaps, turns
from opentela.placer.problem import Demand, Group, Option, Pool, Problem

H, A = (Pool(name=name, gpu=name, nodes=1, gpus_per_node=2) for name in "ha")


def group(model: str, pool: str = "h", tp: int = 1) -> Group:
    return Group(model, pool, tp)


def problem(running: dict[Group, int], **worth: float) -> Problem:
    """Return what is asked of four models, each on either GPU and in either size."""
    return Problem(
        pools=(H, A),
        demands=tuple(Demand(model=name, rate_rps=worth.get(name, 1.0)) for name in "abcd"),
        options=tuple(
            Option(model=name, gpu=pool, tp=tp, capacity_rps=10.0 * tp, load_s=36.0)
            for name in "abcd"
            for pool in "ha"
            for tp in (1, 2)
        ),
        running=running,
        horizon_s=3600.0,
    )


FULL = {group("a"): 1, group("b"): 1, group("c", "a", 2): 1}


def test_whoever_is_worth_least_makes_room_for_who_has_waited() -> None:
    """However little the one who waited is worth."""
    one = problem(FULL, a=3.0, b=2.0, c=9.0, d=0.01)
    assert turns(one, FULL, set(FULL), ["d"]) == [Turn("d", group("d"), ("b",))]


def test_who_has_not_waited_for_long_must_be_worth_more() -> None:
    """By so much that nobody changes places for noise."""
    for worth, found in ((2.0 * HOLD + 0.1, ["d"]), (2.0 * HOLD - 0.1, [])):
        one = problem(FULL, a=9.0, b=2.0, c=9.0, d=worth)
        assert [turn.model for turn in turns(one, FULL, set(FULL), [], ["d"])] == found


def test_who_has_had_its_turn_gives_way_to_who_is_worth_more_at_all() -> None:
    """It was not worth its place before either."""
    for worth, found in ((2.1, ["d"]), (1.9, [])):
        one = problem(FULL, a=9.0, b=2.0, c=9.0, d=worth)
        made = turns(one, FULL, set(FULL), [], ["d"], guests=["b"])
        assert [turn.model for turn in made] == found


def test_where_there_is_room_nobody_makes_any() -> None:
    """The one who waited has it; for others the solver decides."""
    kept = {group("a"): 1}
    assert turns(problem(kept), kept, set(kept), ["d"]) == [Turn("d", group("d", tp=2), ())] or (
        turns(problem(kept), kept, set(kept), ["d"])[0].losers == ()
    )
    assert turns(problem(kept), kept, set(kept), [], ["d"]) == []


def test_only_so_many_go_as_are_needed() -> None:
    """And none twice: the second who waited finds others."""
    one = problem(FULL, a=1.0, b=2.0, c=9.0, d=0.01)
    running = {group("a"): 1, group("b"): 1}
    kept = {**running, group("c", "a", 2): 1}
    made = turns(one, kept, set(running), ["d", "e"])
    assert [turn.losers for turn in made] == [("a",)]
    two = msgspec.structs.replace(
        one,
        demands=(*one.demands, Demand(model="e", rate_rps=1.0)),
        options=(*one.options, Option(model="e", gpu="h", capacity_rps=1.0)),
    )
    assert [turn.losers for turn in turns(two, kept, set(running), ["d", "e"])] == [("a",), ("b",)]


def test_what_may_not_be_given_up_is_not() -> None:
    """Young replicas, and those of models with others."""
    assert turns(problem(FULL), FULL, set(), ["d"]) == []


def test_two_that_change_places_need_one_gap() -> None:
    """Of whoever loses least; the other starts in the room that this leaves."""
    running = {group("a", "h", 2): 1, group("b", "a", 2): 1}
    target = {group("a", "a", 2): 1, group("b", "h", 2): 1}
    for a, b, who in ((2.0, 1.0, "b"), (1.0, 2.0, "a")):
        found = gaps(problem(running, a=a, b=b, c=0.0, d=0.0), target, "ab")
        assert found.models == (who,)
        assert found.longest_s == 36.0
        assert found.share == pytest.approx(0.01 / 3)


def test_three_in_a_ring_need_one_gap() -> None:
    """Each follows the one before it."""
    third = Pool(name="z", gpu="z", nodes=1, gpus_per_node=2)
    places = ("h", "a", "z")
    one = problem({group(m, p, 2): 1 for m, p in zip("abc", places, strict=True)})
    one = msgspec.structs.replace(
        one,
        pools=(H, A, third),
        options=(
            *one.options,
            *(Option(model=m, gpu="z", tp=2, capacity_rps=1.0, load_s=36.0) for m in "abc"),
        ),
    )
    target = {group(m, p, 2): 1 for m, p in zip("bca", places, strict=True)}
    assert len(gaps(one, target, "abc").models) == 1


def test_with_room_nobody_is_gone() -> None:
    """What has room starts first; nor is anybody missed whom nobody asks for."""
    running = {group("a"): 1, group("b", "a"): 1}
    target = {group("a", "a"): 1, group("b"): 1}
    assert gaps(problem(running), target, "ab") == Gaps()
    full = {group("a", "h", 2): 1, group("b", "a", 2): 1}
    swapped = {group("a", "a", 2): 1, group("b", "h", 2): 1}
    assert gaps(problem(full), swapped, "a").models == ()


def test_who_does_not_come_back_is_gone_and_loses_nothing_on_the_way() -> None:
    """What is lost by that is counted where plans are compared."""
    running = {group("a", "h", 2): 1, group("b", "a", 2): 1}
    found = gaps(problem(running), {group("d", "h", 2): 1, group("b", "a", 2): 1}, "ab")
    assert found == Gaps(models=("a",))
