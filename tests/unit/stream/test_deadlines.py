"""Many deadlines behind one timer."""

from collections.abc import Callable

from opentela.stream.deadlines import REPRIEVE_S, STARVED_S, Deadlines


def told(**moments: float | None) -> Callable[[str], float | None]:
    return lambda key: moments[key]


def watching(*keys: str) -> Deadlines[str]:
    deadlines: Deadlines[str] = Deadlines()
    for key in keys:
        deadlines.add(key)
    return deadlines


def test_nothing_is_due_where_nothing_is_watched() -> None:
    """Nor need anybody look."""
    assert watching().due(9.0, 9.0, told()) == []
    assert watching().next_at is None


def test_new_streams_are_looked_at_together() -> None:
    """Those that have ended by then cost nothing more."""
    deadlines = watching("a", "b", "c")
    assert deadlines.due(1.5, 1.5, told(a=None, b=4.0, c=1.2)) == ["c"]
    assert not deadlines.has_fresh
    assert deadlines.next_at == 4.0


def test_new_streams_are_known_before_they_are_looked_at() -> None:
    """So that the timer knows that there is something to do."""
    assert watching("a").has_fresh


def test_what_has_moved_on_is_not_due() -> None:
    """A deadline that moved later is asked for when its first moment comes, and kept."""
    deadlines = watching("a", "b")
    deadlines.due(1.5, 1.5, told(a=2.0, b=3.0))
    assert deadlines.due(1.9, 1.9, told()) == []
    assert deadlines.due(2.0, 2.0, told(a=5.0)) == []
    assert deadlines.next_at == 3.0
    assert deadlines.due(5.0, 5.0, told(a=5.1, b=None)) == []
    assert deadlines.due(5.1, 5.1, told(a=5.1)) == ["a"]
    assert deadlines.next_at is None


def test_what_was_due_is_watched_again_when_put_back() -> None:
    """Unless it ended by being due."""
    deadlines = watching("a")
    assert deadlines.due(1.5, 1.5, told(a=1.5)) == ["a"]
    deadlines.put("a", None)
    assert deadlines.next_at is None
    deadlines.put("a", 2.5)
    assert deadlines.next_at == 2.5


def test_a_late_wake_up_lets_waiting_input_speak_first() -> None:
    """A starved process judges nobody by what it could not hear, but only once."""
    deadlines = watching("a")
    deadlines.due(1.0, 1.0, told(a=1.5))
    woken = 1.6 + STARVED_S
    assert deadlines.due(woken, 1.5, told(a=1.5)) == []
    assert deadlines.next_at == woken + REPRIEVE_S
    assert deadlines.due(woken + 9.0, woken + REPRIEVE_S, told(a=1.5)) == ["a"]
