"""The one timer that a shell arms."""

import asyncio

from opentela.alarm import Alarm
from opentela.testing.virtual_loop import elapse, virtual_time


class LoopClock:
    """The virtual loop's time as a clock."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return self.now()


def rings(set_at: list[tuple[float, float]], *, close_at: float | None = None) -> list[float]:
    """Return when an alarm rings that is set at each first moment to each second one."""

    async def main() -> list[float]:
        rang: list[float] = []
        clock = LoopClock()
        alarm = Alarm(clock, lambda: rang.append(clock.now()))
        for moment, deadline in set_at:
            await elapse(moment - clock.now())
            alarm.set(deadline)
        if close_at is not None:
            await elapse(close_at - clock.now())
            alarm.close()
        await elapse(100.0)
        return rang

    with virtual_time() as runner:
        return runner.run(main())


def test_it_rings_at_the_deadline() -> None:
    """Once, and at that moment."""
    assert rings([(0.0, 3.0)]) == [3.0]


def test_a_burst_does_not_put_off_what_is_due() -> None:
    """Each event sets it to later; it rings all the same at what was set first."""
    assert rings([(0.0, 1.0), (0.4, 1.4), (0.8, 1.8)]) == [1.0]


def test_an_earlier_deadline_counts() -> None:
    """It does not wait for the later one, and does not ring for it as well."""
    assert rings([(0.0, 5.0), (1.0, 2.0)]) == [2.0]


def test_a_deadline_that_has_passed_rings_at_once() -> None:
    """A machine that is late is not made later."""
    assert rings([(4.0, 1.0)]) == [4.0]


def test_it_can_be_set_again_after_it_rang() -> None:
    """The machine says what is next."""
    assert rings([(0.0, 1.0), (2.0, 3.0)]) == [1.0, 3.0]


def test_closed_it_is_silent() -> None:
    """Nothing is called into a shell that has ended."""
    assert rings([(0.0, 3.0)], close_at=1.0) == []
