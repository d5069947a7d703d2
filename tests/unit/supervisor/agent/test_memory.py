"""A command is done at most once, however few of them are remembered."""

from opentela.supervisor.agent.memory import Memory, Outcome


def ulid(number: int) -> str:
    return f"01J{number:023d}"


def test_a_command_is_remembered_with_what_became_of_it() -> None:
    """A refusal, too: it is no other answer the second time."""
    memory = Memory(8)
    assert memory.of(ulid(1)) is None
    memory.keep(ulid(1), Outcome(accepted=False, reason="no room"))
    assert memory.of(ulid(1)) == Outcome(accepted=False, reason="no room")


def test_what_is_forgotten_is_never_done_again() -> None:
    """A command no younger than a forgotten one is not taken."""
    memory = Memory(2)
    for number in (5, 3, 6, 7):
        assert memory.fault(ulid(number)) == ""
        memory.keep(ulid(number), Outcome())
    assert memory.of(ulid(5)) is None
    assert "too old" in memory.fault(ulid(5))
    assert "too old" in memory.fault(ulid(3))
    assert memory.fault(ulid(8)) == ""


def test_a_command_of_the_future_makes_no_other_too_old() -> None:
    """The clock of one placer was wrong for a moment; the next one's is not."""
    memory = Memory(4)
    memory.keep("7" + "Z" * 25, Outcome())
    for number in range(1, 9):
        assert memory.fault(ulid(number)) == ""
        memory.keep(ulid(number), Outcome())
        assert memory.of(ulid(number)) == Outcome()
    assert memory.of("7" + "Z" * 25) == Outcome()
    assert "too old" in memory.fault(ulid(5))


def test_what_is_no_ulid_is_refused() -> None:
    """Its age could not be told."""
    memory = Memory(2)
    for wrong in ("", "x", "01j" + "0" * 23, "01J" + "0" * 22, "U" * 26):
        assert "no ULID" in memory.fault(wrong)
