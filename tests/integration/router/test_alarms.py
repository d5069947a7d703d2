"""Time is told to requests that run, and those that ended are not kept for it."""

import gc
import time
import weakref

from opentela.router.alarms import Alarms
from opentela.testing.waiting import until


class Request:
    """One with a deadline."""

    def __init__(self, in_s: float) -> None:
        self.deadline: float | None = time.monotonic() + in_s
        self.told: list[float] = []
        self.looks = 0

    def next_deadline(self) -> float | None:
        """Return it."""
        self.looks += 1
        return self.deadline

    def on_deadline(self) -> None:
        """Note that it was told."""
        self.told.append(time.monotonic())
        self.deadline = None


def _looks(one: weakref.ref[Request]) -> int:
    request = one()
    return 0 if request is None else request.looks


async def test_a_request_is_told_once_its_time_has_come() -> None:
    """Not before, and not again."""
    alarms, request = Alarms(), Request(0.05)
    due = request.deadline
    assert due is not None
    alarms.watch(request, request.deadline or 0.0)
    await until(lambda: bool(request.told), "time is told")
    assert request.told[0] >= due
    alarms.close()


async def test_an_earlier_deadline_counts() -> None:
    """A request that waits to try again is told then, not when its first attempt would end."""
    alarms, request = Alarms(), Request(600)
    number = alarms.watch(request, request.deadline or 0.0)
    await until(lambda: request.looks == 1, "it is looked at")
    request.deadline = time.monotonic() + 0.01
    assert alarms.watch(request, request.deadline, number) == number
    await until(lambda: bool(request.told), "time is told")
    alarms.close()


async def test_a_request_that_ended_is_let_go_at_once() -> None:
    """However late its deadline is."""
    alarms, request = Alarms(), Request(600)
    number = alarms.watch(request, request.deadline or 0.0)
    gone = weakref.ref(request)
    await until(lambda: _looks(gone) == 1, "it is looked at")
    alarms.forget(number)
    del request
    gc.collect()
    assert gone() is None
    assert len(alarms) == 0
    alarms.close()
