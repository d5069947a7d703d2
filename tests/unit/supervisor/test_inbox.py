"""Events wait in order; what is said again anyway does not pile up."""

from structlog.testing import capture_logs

from opentela.service import SystemClock
from opentela.supervisor.events import EndTold, StopAsked, Tick, Warned
from opentela.supervisor.inbox import EVENTS_QUEUED_MAX, Inbox


def inbox() -> Inbox[EndTold | StopAsked | Warned]:
    """Return one that may drop warnings."""
    return Inbox(SystemClock(), (Warned,))


async def test_events_come_in_order_and_a_tick_when_there_is_none() -> None:
    """A deadline that has passed already still lets go first what waits."""
    one = inbox()
    one.put(Warned("a"))
    one.put(StopAsked("b"))
    later = SystemClock().now() + 60
    assert await one.next(0.0) == Warned("a")
    assert await one.next(later) == StopAsked("b")
    assert await one.next(SystemClock().now() + 0.001) == Tick()
    assert await one.next(0.0) == Tick()


async def test_of_a_flood_the_first_are_kept_and_nothing_that_is_said_once_is_lost() -> None:
    """The log tells of it, once."""
    one = inbox()
    with capture_logs() as logged:
        for number in range(EVENTS_QUEUED_MAX + 100):
            one.put(Warned(str(number)))
        one.put(StopAsked("stop"))
    assert [line["event"] for line in logged] == ["events_dropped"]
    later = SystemClock().now() + 60
    told = [await one.next(later) for _ in range(EVENTS_QUEUED_MAX + 1)]
    assert told[-2:] == [Warned(str(EVENTS_QUEUED_MAX - 1)), StopAsked("stop")]
    assert await one.next(0.0) == Tick()
