"""What a stream tells becomes events of its request, as long as the attempt lasts."""

from opentela.router.attempt_events import Data, End, Event, Failed, Head, Whole
from opentela.router.leg import SETTLED_BYTES, Leg
from opentela.wire.frames import WINDOW_BYTES, Fail, FailKind, Headers, Timings


class Request:
    """Takes events down."""

    def __init__(self) -> None:
        self.is_paused = False
        self.events: list[Event] = []

    def feed(self, event: Event) -> None:
        """Take one."""
        self.events.append(event)

    def pass_on(self, data: bytes) -> None:
        """Take one that is a part of an answer."""
        self.events.append(Data(data))

    def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Take one that is all of it."""
        self.events.append(Whole(status, headers, body))


class Stream:
    """Takes credit down."""

    def __init__(self) -> None:
        self.credit: list[int] = []

    def consumed(self, size: int) -> None:
        """Take some."""
        self.credit.append(size)

    def cancel(self, reason: str) -> None:
        """Nobody does that here."""
        raise AssertionError(reason)


FAIL = Fail(1, FailKind.SILENT, definite=False, retryable=True)


def running() -> tuple[Request, Stream, Leg]:
    """Return a leg with its request and its stream."""
    request, stream = Request(), Stream()
    leg = Leg(request)
    leg.stream = stream
    return request, stream, leg


def test_what_matters_to_the_request_is_told_in_order() -> None:
    """The acknowledgement is the stream's own affair."""
    request, _, leg = running()
    leg.on_ack()
    leg.on_head(200, ())
    leg.on_data(b"x")
    leg.on_fail(FAIL)
    leg.on_end(Timings())
    assert request.events == [Head(200, ()), Data(b"x"), Failed(FAIL), End()]


def test_a_whole_answer_is_one_event() -> None:
    """And owes no credit."""
    request, stream, leg = running()
    leg.on_answer(200, (), b"x", Timings(1.0))
    assert request.events == [Whole(200, (), b"x")]
    assert (leg.timings, stream.credit) == (Timings(1.0), [])


def test_nothing_is_told_after_the_attempt() -> None:
    """The request may be at another session by then."""
    request, stream, leg = running()
    leg.is_over = True
    leg.on_ack()
    leg.on_head(200, ())
    leg.on_data(b"x")
    leg.on_answer(200, (), b"x", Timings())
    leg.on_fail(FAIL)
    leg.on_end(Timings())
    leg.settle()
    assert request.events == []
    assert stream.credit == []


def test_what_was_taken_is_credited() -> None:
    """At once, when the client keeps up; small parts together, once they are worth a word."""
    _, stream, leg = running()
    leg.on_data(b"x" * SETTLED_BYTES)
    leg.on_data(b"12345")
    leg.on_data(b"678")
    assert stream.credit == [SETTLED_BYTES]
    leg.on_data(b"x" * (SETTLED_BYTES - 8))
    assert stream.credit == [SETTLED_BYTES, SETTLED_BYTES]


def test_what_is_not_credited_yet_is_a_small_part_of_the_window() -> None:
    """The session never waits for it."""
    assert SETTLED_BYTES * 8 <= WINDOW_BYTES


def test_a_slow_client_slows_the_session() -> None:
    """Credit waits until it has read."""
    request, stream, leg = running()
    request.is_paused = True
    leg.on_data(b"12345")
    leg.on_data(b"678")
    assert stream.credit == []
    request.is_paused = False
    leg.settle()
    leg.settle()
    assert stream.credit == [8]


def test_credit_waits_for_a_stream_that_is_only_being_opened() -> None:
    """A link may answer before it returns."""
    request = Request()
    leg = Leg(request)
    leg.on_data(b"1" * SETTLED_BYTES)
    stream = Stream()
    leg.stream = stream
    leg.on_data(b"3")
    assert stream.credit == [SETTLED_BYTES + 1]
