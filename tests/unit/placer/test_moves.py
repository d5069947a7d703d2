"""From what runs to what is to run."""

from tests.unit.placer.problems import problem

from opentela.placer import moves as subject
from opentela.placer.moves import Verb
from opentela.placer.problem import Group

BIG_A, BIG_H = Group("big", "a", 4), Group("big", "h", 4)
SMALL_A, SMALL_H = Group("small", "a", 1), Group("small", "h", 1)


def test_what_has_room_starts_before_anything_stops() -> None:
    """As little as possible is missing while models move."""
    one = problem(running={SMALL_A: 8}, drain_s=30.0)
    made = subject.moves(one, {BIG_A: 1, SMALL_A: 4, BIG_H: 1})
    assert [(m.verb, m.group, m.count, m.wave, m.takes_s) for m in made] == [
        (Verb.START, BIG_H, 1, 0, 100.0),
        (Verb.STOP, SMALL_A, 4, 1, 30.0),
        (Verb.START, BIG_A, 1, 2, 100.0),
    ]


def test_no_more_stops_than_the_next_start_needs() -> None:
    """Two replicas swap places one after the other, not both at once."""
    one = problem(running={BIG_A: 2})
    made = subject.moves(one, {SMALL_A: 8})
    assert [(m.verb, m.group, m.count) for m in made] == [
        (Verb.STOP, BIG_A, 1),
        (Verb.START, SMALL_A, 4),
        (Verb.STOP, BIG_A, 1),
        (Verb.START, SMALL_A, 4),
    ]


def test_what_is_too_much_stops_at_the_end() -> None:
    """Nothing waits for it, so it goes last and at once."""
    one = problem(running={SMALL_A: 3, SMALL_H: 2})
    made = subject.moves(one, {SMALL_A: 1})
    assert {(m.verb, m.group, m.count) for m in made} == {
        (Verb.STOP, SMALL_A, 2),
        (Verb.STOP, SMALL_H, 2),
    }
    assert {m.wave for m in made} == {0}


def test_moves_lead_to_the_target() -> None:
    """And nothing is left of what was stopped."""
    running = {BIG_A: 1, SMALL_A: 4, SMALL_H: 8}
    target = {SMALL_A: 2, BIG_H: 2}
    made = subject.moves(problem(running=running), target)
    assert subject.apply(running, made) == target
    assert subject.moves(problem(running=target), target) == []
