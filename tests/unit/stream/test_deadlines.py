"""Many deadlines behind one timer."""

from collections.abc import Callable

from opentela.stream.deadlines import REPRIEVE_S, STARVED_S, Deadlines


def told(**moments: float | None) -> Callable[[str], float | None]:
    return lambda key: moments[key]


def test_the_earliest_deadline_is_the_next() -> None:
    """An earlier one moves the wake-up, a later one does not."""
    deadlines: Deadlines[str] = Deadlines()
    deadlines.put("a", 5.0)
    deadlines.put("b", 3.0)
    deadlines.put("a", 9.0)
    assert deadlines.next_at == 3.0
    deadlines.put("a", 2.0)
    assert deadlines.next_at == 2.0
    assert len(deadlines) == 2


def test_what_has_moved_on_is_not_due() -> None:
    """A deadline that moved later is asked for when its first moment comes, and kept."""
    deadlines: Deadlines[str] = Deadlines()
    deadlines.put("a", 1.0)
    deadlines.put("b", 1.0)
    assert deadlines.due(0.5, told()) == []
    assert deadlines.due(1.0, told(a=4.0, b=1.0)) == ["b"]
    assert deadlines.next_at == 4.0


def test_what_was_dropped_is_never_due() -> None:
    """Neither while others wait nor as the last one."""
    deadlines: Deadlines[str] = Deadlines()
    deadlines.put("a", 1.0)
    deadlines.put("b", 1.0)
    deadlines.drop("a")
    assert deadlines.due(1.0, told(a=1.0, b=None)) == []
    deadlines.put("c", 2.0)
    deadlines.drop("c")
    assert deadlines.next_at is None
    assert deadlines.due(9.0, told()) == []


def test_a_late_wake_up_lets_waiting_input_speak_first() -> None:
    """A starved process judges nobody by what it could not hear, but only once."""
    deadlines: Deadlines[str] = Deadlines()
    deadlines.put("a", 1.0)
    woken = 1.1 + STARVED_S
    assert deadlines.due(woken, told(a=1.0)) == []
    assert deadlines.next_at == woken + REPRIEVE_S
    assert deadlines.due(woken + 9.0, told(a=1.0)) == ["a"]


def test_an_overtaken_note_is_passed_over() -> None:
    """A key that was noted twice is due once."""
    deadlines: Deadlines[str] = Deadlines()
    deadlines.put("a", 1.1)
    deadlines.put("a", 1.0)
    assert deadlines.due(1.1, told(a=1.0)) == ["a"]
    assert len(deadlines) == 0
