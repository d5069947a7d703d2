"""Credit, counted from the start of a stream: what may be sent, and what has been promised.

Totals instead of increments make a lost, repeated or late `Credit` harmless: the greatest counts.
A receiver promises anew in steps of half a window, so that a window costs two messages, not one
for each part.
"""

from opentela.wire.frames import WINDOW_BYTES


class SendWindow:
    """What the other end still has room for."""

    __slots__ = ("granted", "sent")

    def __init__(self, granted: int = 0) -> None:
        self.granted = granted
        self.sent = 0

    @property
    def room(self) -> int:
        """Return the bytes that may be sent now."""
        return self.granted - self.sent

    def grant(self, total: int) -> None:
        """Take a promise of *total* bytes; one that is older than what is known is passed over."""
        self.granted = max(self.granted, total)

    def send(self, size: int) -> None:
        """Count *size* bytes as sent."""
        self.sent += size
        assert self.sent <= self.granted, (self.sent, self.granted)


class ReceiveWindow:
    """What this end has promised, got and passed on."""

    __slots__ = ("_step", "consumed", "granted", "received", "size")

    def __init__(self, size: int = WINDOW_BYTES, *, received: int = 0) -> None:
        self.size = size
        self.received = received
        # What came unasked was in the window of nobody, and counts as promised.
        self.granted = max(size, received)
        self.consumed = 0
        self._step = max(1, size // 2)

    def receive(self, size: int) -> bool:
        """Count *size* bytes as received; False when more came than was promised."""
        self.received += size
        return self.received <= self.granted

    def consume(self, size: int) -> bool:
        """Count *size* bytes as passed on; True when `granted` has grown and is worth sending."""
        self.consumed += size
        assert self.consumed <= self.received, (self.consumed, self.received)
        if self.consumed + self.size - self.granted < self._step:
            return False
        self.granted = self.consumed + self.size
        return True
