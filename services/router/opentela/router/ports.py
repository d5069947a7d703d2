"""What the router asks of its surroundings: the mesh below, the client above, the books beside."""

from typing import Protocol

from opentela.core.pieces import Text
from opentela.wire.frames import Fail, Headers, Timings
from opentela.wire.subjects import SessionPath


class StreamSink(Protocol):
    """Takes what comes back on one stream: head, data in order, then exactly one of end and fail.

    A short answer comes as one `on_answer` instead, mostly with nothing before it. Called on the
    event loop; nothing is called after `on_answer`, `on_end`, `on_fail` or a `cancel`.
    """

    def on_ack(self) -> None:
        """The session has the request; not told where the answer itself shows it."""

    def on_answer(self, status: int, headers: Headers, body: bytes, timings: Timings) -> None:
        """The whole answer; its size is not credited, for nothing follows."""

    def on_head(self, status: int, headers: Headers) -> None:
        """The engine answers."""

    def on_data(self, data: bytes) -> None:
        """A part of the answer; its size is credited back with `Stream.consumed`."""

    def on_end(self, timings: Timings) -> None:
        """The answer is whole."""

    def on_fail(self, fail: Fail) -> None:
        """The answer will not come, or not wholly."""


class Stream(Protocol):
    """One request under way to one session."""

    def cancel(self, reason: str) -> None:
        """Stop the engine; the sink hears nothing more. Does nothing when the stream has ended."""

    def consumed(self, size: int) -> None:
        """Let the session send *size* bytes more."""


class Link(Protocol):
    """The way to all sessions."""

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
        sink: StreamSink,
    ) -> Stream:
        """Send a request; everything that follows is told to *sink*, also that it failed."""


class Client(Protocol):
    """The connection on which the answer to one request is written.

    `reply`, `finish`, `say_last` and `cut` each end the answer, and one of them is called.
    """

    @property
    def is_paused(self) -> bool:
        """Whether the client takes its answer more slowly than it comes."""

    def reply(self, status: int, fields: bytes, body: bytes) -> None:
        """Send a whole answer; *fields* are header lines, without those of the framing."""

    def begin(self, status: int, fields: bytes, data: bytes) -> None:
        """Send the head and the first bytes of an answer."""

    def send(self, data: bytes) -> None:
        """Send further bytes."""

    def finish(self) -> None:
        """End the answer well."""

    def say_last(self, data: bytes) -> None:
        """Send *data* and end the answer."""

    def cut(self) -> None:
        """Break the connection, so that the answer cannot be taken for whole."""
