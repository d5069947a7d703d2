"""Some useless frames are normal; a sender of far more is cut off for a while."""

from opentela.stream.flood import (
    CUT_S,
    LATE_MAX,
    SENDERS_MAX,
    STRANGE_WEIGHT,
    WINDOW_S,
    FloodGuard,
)


def test_what_is_normal_cuts_nobody_off() -> None:
    """As many as a window allows, in each of many windows."""
    guard = FloodGuard()
    for window in range(3):
        for _ in range(LATE_MAX):
            assert not guard.late(window * WINDOW_S, "s")
    assert not guard.has_cut


def test_one_more_cuts_its_sender_off_and_nobody_else() -> None:
    """And says so once."""
    guard = FloodGuard()
    told = [guard.late(0.0, "s") for _ in range(LATE_MAX + 1)]
    assert told.count(True) == 1
    assert guard.has_cut
    assert guard.is_cut(0.0, "s")
    assert not guard.is_cut(0.0, "t")


def test_who_was_cut_off_is_counted_anew_afterwards() -> None:
    """It may have been mended."""
    guard = FloodGuard()
    while not guard.strange(0.0, "s"):
        pass
    assert guard.is_cut(CUT_S - 0.1, "s")
    assert not guard.is_cut(CUT_S, "s")
    assert not guard.has_cut
    assert not guard.late(CUT_S, "s")


def test_frames_that_are_none_weigh_more() -> None:
    """No honest peer sends many."""
    guard = FloodGuard()
    told = [guard.strange(0.0, "s") for _ in range(LATE_MAX // STRANGE_WEIGHT + 1)]
    assert told[-1]


def test_however_many_senders_there_are_few_are_remembered() -> None:
    """Names cost an attacker nothing."""
    guard = FloodGuard()
    for number in range(SENDERS_MAX + 10):
        guard.late(0.0, f"s{number}")
    assert len(guard._counts) == SENDERS_MAX
