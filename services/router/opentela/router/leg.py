"""One attempt as its stream sees it: everything it tells becomes an event of the request."""

from typing import Final, Protocol

from opentela.router.attempt_events import End, Event, Failed, Head
from opentela.router.ports import Stream
from opentela.wire.frames import Fail, Headers, Timings

SETTLED_BYTES: Final = 16 * 1024
"""Less is not credited by itself: the session holds a window of many times as much."""
_END: Final = End()


class Feed(Protocol):
    """The request that the attempt is for."""

    @property
    def is_paused(self) -> bool:
        """Whether the client takes its answer more slowly than it comes."""

    def feed(self, event: Event) -> None:
        """Take what happened."""

    def pass_on(self, data: bytes) -> None:
        """Take a part of the answer."""

    def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Take a whole answer."""


class Leg:
    """One attempt: what its stream tells goes to the exchange until the attempt is over.

    Attributes:
        is_counted: The policy has been told that it began, and must be told that it ended.
        began_at: When.
    """

    __slots__ = ("_exchange", "began_at", "is_counted", "is_over", "owed", "stream", "timings")

    def __init__(self, exchange: Feed) -> None:
        self._exchange = exchange
        self.stream: Stream | None = None
        self.is_over = False
        self.is_counted = False
        self.began_at = 0.0
        self.owed = 0
        self.timings: Timings | None = None

    def on_ack(self) -> None:
        """The session has the request: that ends a time-out of the stream's, none of ours."""

    def on_answer(self, status: int, headers: Headers, body: bytes, timings: Timings) -> None:
        """The whole answer came at once."""
        self.timings = timings
        if not self.is_over:
            self._exchange.answer(status, headers, body)

    def on_head(self, status: int, headers: Headers) -> None:
        """The engine answers."""
        if not self.is_over:
            self._exchange.feed(Head(status, headers))

    def on_data(self, data: bytes) -> None:
        """A part of the answer came; the session may send as much again once it is on its way."""
        if self.is_over:
            return
        self.owed += len(data)
        self._exchange.pass_on(data)
        if self.owed >= SETTLED_BYTES:
            self.settle()

    def on_end(self, timings: Timings) -> None:
        """The answer is whole."""
        self.timings = timings
        if not self.is_over:
            self._exchange.feed(_END)

    def on_fail(self, fail: Fail) -> None:
        """The attempt failed."""
        if not self.is_over:
            self._exchange.feed(Failed(fail))

    def settle(self) -> None:
        """Give the session credit for what the client's connection took."""
        if self.owed and not self.is_over and self.stream and not self._exchange.is_paused:
            # More may come before `consumed` returns.
            taken, self.owed = self.owed, 0
            self.stream.consumed(taken)
