"""A link to sessions that exist only in a test: each request is answered by a script.

It keeps the promises of the real one, and holds both sides to them: what is sent beyond the credit
waits, nothing is told after the end or a cancel, and frames out of order fail the test.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from opentela.core.pieces import Text
from opentela.stream.failures import failure
from opentela.wire.frames import PART_BYTES, WINDOW_BYTES, Fail, FailKind, Headers, Timings
from opentela.wire.subjects import SessionPath

JSON: Final[Headers] = (("content-type", "application/json"),)
EVENTS: Final[Headers] = (("content-type", "text/event-stream; charset=utf-8"),)


class Sink(Protocol):
    """Where the answer goes."""

    def on_ack(self) -> None:
        """The session has the request."""

    def on_answer(self, status: int, headers: Headers, body: bytes, timings: Timings) -> None:
        """The whole answer."""

    def on_head(self, status: int, headers: Headers) -> None:
        """The engine answers."""

    def on_data(self, data: bytes) -> None:
        """A part of the answer."""

    def on_end(self, timings: Timings) -> None:
        """The answer is whole."""

    def on_fail(self, fail: Fail) -> None:
        """The answer will not come."""


class FakeStream:
    """One request to one session; a script, or the test itself, answers through it.

    Attributes:
        cancelled: The reason given to `cancel`, or None.
        credited: Bytes that the router let the session send, beyond the first window.
        ended: The answer is over, for whichever reason.
    """

    def __init__(
        self,
        path: SessionPath,
        *,
        method: str,
        path_and_query: str,
        headers: Headers,
        body: Text,
        deadline_s: float,
        trace: str,
        sink: Sink,
    ) -> None:
        self.path = path
        self.method = method
        self.path_and_query = path_and_query
        self.headers = headers
        self.body = body[:]
        self.deadline_s = deadline_s
        self.trace = trace
        self.cancelled: str | None = None
        self.credited = 0
        self.ended = False
        self._sink = sink
        self._room = WINDOW_BYTES
        self._queue: deque[bytes] = deque()
        self._end_is_queued = False
        self._has_acked = False
        self._has_head = False

    # The router's side -------------------------------------------------------

    def cancel(self, reason: str) -> None:
        """Take the answer back."""
        if not self.ended:
            self.cancelled = reason
            self.ended = True

    def consumed(self, size: int) -> None:
        """Let the session send *size* bytes more."""
        assert size > 0, size
        if self.ended:
            return
        self.credited += size
        self._room += size
        assert self._room <= WINDOW_BYTES, "credit for what was never sent"
        self._pump()

    # The session's side ------------------------------------------------------

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait for credit."""
        return sum(map(len, self._queue))

    def ack(self) -> "FakeStream":
        """Say that the session has the request."""
        if not self.ended and not self._has_acked:
            self._has_acked = True
            self._sink.on_ack()
        return self

    def head(self, status: int = 200, headers: Headers = JSON) -> "FakeStream":
        """Begin the answer."""
        self.ack()
        assert not self._has_head, "a second head"
        if not self.ended:
            self._has_head = True
            self._sink.on_head(status, headers)
        return self

    def data(self, data: bytes) -> "FakeStream":
        """Send a part of the answer, as far as there is credit."""
        assert self.ended or (self._has_head and not self._end_is_queued), "data out of order"
        if not self.ended:
            parts = range(0, len(data), PART_BYTES)
            self._queue.extend(data[at : at + PART_BYTES] for at in parts)
            self._pump()
        return self

    def end(self) -> None:
        """End the answer, after what waits for credit."""
        assert self.ended or self._has_head, "an end without a head"
        self._end_is_queued = True
        self._pump()

    def fail(self, kind: FailKind, *, begun: bool = True, message: str = "scripted") -> None:
        """Fail, at once."""
        if not self.ended:
            self.ended = True
            self._queue.clear()
            self._sink.on_fail(failure(1, kind, message, may_have_begun=begun))

    def answer(self, body: bytes, *, status: int = 200, headers: Headers = JSON) -> None:
        """Give a whole answer, which goes as one when it fits one part."""
        if len(body) > PART_BYTES or self._has_head:
            self.head(status, headers).data(body).end()
            return
        if not self.ended:
            self.ended = self._has_head = self._end_is_queued = True
            self._sink.on_answer(status, headers, body, Timings())

    def _pump(self) -> None:
        while self._queue and not self.ended and len(self._queue[0]) <= self._room:
            part = self._queue.popleft()
            self._room -= len(part)
            self._sink.on_data(part)
        if self._end_is_queued and not self._queue and not self.ended:
            self.ended = True
            self._sink.on_end(Timings())


Script = Callable[[FakeStream], None]
"""Answers one request; called on the loop, in a turn of its own."""


def unanswered(_stream: FakeStream) -> None:
    """Leave the answer to the test."""


class FakeLink:
    """All sessions of a test.

    Attributes:
        streams: Every request that was opened, in order.
        script: Answers each; by default the test does, through `streams`.
    """

    def __init__(self, script: Script = unanswered) -> None:
        self.script = script
        self.streams: list[FakeStream] = []

    def open(
        self,
        path: SessionPath,
        *,
        method: str,
        path_and_query: str,
        headers: Headers,
        body: Text,
        deadline_s: float,
        trace: str,
        sink: Sink,
    ) -> FakeStream:
        """Begin a request."""
        stream = FakeStream(
            path,
            method=method,
            path_and_query=path_and_query,
            headers=headers,
            body=body,
            deadline_s=deadline_s,
            trace=trace,
            sink=sink,
        )
        self.streams.append(stream)
        asyncio.get_running_loop().call_soon(self.script, stream)
        return stream
