"""What one attempt has brought of its answer: a head, and what is held back until it is whole."""

from opentela.router.answers import BODILESS, Answer, is_event_stream, value_of
from opentela.wire.frames import Headers


class Holding:
    """The answer of one attempt, from its head on.

    Attributes:
        size: Bytes that are held.
        is_stream: Its parts are events.
    """

    __slots__ = ("_parts", "headers", "is_stream", "size", "status")

    def __init__(self, status: int, headers: Headers) -> None:
        self.status = status
        self.headers = headers
        self.is_stream = is_event_stream(status, headers)
        self.size = 0
        self._parts: list[bytes] = []

    @property
    def is_readable(self) -> bool:
        """Whether its parts are events that can be read: nobody compressed them."""
        return self.is_stream and not value_of(self.headers, "content-encoding")

    @property
    def is_bodiless(self) -> bool:
        """Whether the head is all: what follows it would be read as the next answer."""
        return self.status in BODILESS

    def add(self, data: bytes) -> None:
        """Hold a part of the body, if there can be one."""
        if not self.is_bodiless:
            self._parts.append(data)
            self.size += len(data)

    def taken(self) -> bytes:
        """Return what is held, and hold it no more."""
        parts, self._parts, self.size = self._parts, [], 0
        return b"".join(parts)

    def answer(self) -> Answer:
        """Return the answer, which is whole."""
        return Answer(self.status, self.headers, self.taken())
