"""The end of our time is asked for at a bounded rate, and may move."""

import math

from opentela.supervisor.allotment import Allotment
from opentela.supervisor.config import WalltimeConfig
from opentela.supervisor.walltime import Walltime, replan

NOON = 1_800_000_000.0
CONFIG = WalltimeConfig(margin_s=100.0, reserve_s=20.0, look_s=60.0)


def allotment(ends_at: float = NOON + 3600, *, can_move: bool = True) -> Allotment:
    """Return one that began at noon, monotonic time 0."""
    return Allotment(CONFIG, replan(CONFIG, ends_at=ends_at, wall=NOON), 0.0, can_move=can_move)


def test_the_end_is_asked_for_again_and_again_but_no_oftener() -> None:
    """Slurm serves many."""
    one = allotment()
    assert not one.asks(59.9)
    assert one.asks(60.0)
    assert not one.asks(60.0)
    assert one.next_deadline(60.0, NOON + 60) == 120.0
    assert one.asks(500.0)
    assert one.next_deadline(500.0, NOON + 500) == 560.0


def test_what_cannot_move_is_not_asked_for() -> None:
    """Nor where nobody wants it."""
    assert not allotment(can_move=False).asks(1e9)
    assert allotment(can_move=False).next_deadline(0.0, NOON) == 3480.0
    never = Allotment(WalltimeConfig(look_s=0.0), None, 0.0, can_move=True)
    assert not never.asks(1e9)
    assert math.isinf(never.next_deadline(0.0, NOON))
    assert never.leave_at == 0.0


def test_a_prolonged_end_moves_everything() -> None:
    """Draining and leaving are planned from the new end."""
    one = allotment()
    assert one.hear(NOON + 3000, NOON + 7200)
    assert one.walltime == Walltime(NOON + 7080, NOON + 7180, NOON + 7200)
    assert not one.is_used_up(NOON + 7079)
    assert one.is_used_up(NOON + 7080)
    assert one.leave_at == NOON + 7180
    assert one.left_s(NOON + 7100) == 80.0
    assert one.left_s(NOON + 7200) == 0.0


def test_an_end_cut_short_may_be_now() -> None:
    """Then nothing new is taken from now on."""
    one = allotment()
    assert one.hear(NOON + 100, NOON + 110)
    assert one.is_used_up(NOON + 100)
    assert one.left_s(NOON + 100) == 0.0


def test_an_end_may_be_lifted_or_found_out_late() -> None:
    """From some time to for ever, and back."""
    one = allotment()
    assert one.hear(NOON, 0.0)
    assert one.walltime is None
    assert not one.is_used_up(NOON + 1e9)
    assert one.hear(NOON, NOON + 3600)
    assert one.leave_at == NOON + 3580


def test_the_same_end_is_no_news() -> None:
    """Nor one that differs by a rounding."""
    one = allotment()
    before = one.walltime
    assert not one.hear(NOON + 100, NOON + 3600.9)
    assert one.walltime is before


def test_a_warning_is_foreseen_near_the_end_and_once() -> None:
    """Who repeats it means it."""
    one = allotment()
    assert not one.is_warning_foreseen(NOON)
    assert one.is_warning_foreseen(NOON + 3500)
    assert not one.is_warning_foreseen(NOON + 3510)
