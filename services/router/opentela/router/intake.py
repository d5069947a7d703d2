"""What one connection brings in: bytes become requests, within the limits of their parts."""

from collections import deque
from typing import Protocol

import httptools

from opentela.router import plain
from opentela.router.config import ListenConfig
from opentela.router.fault import Fault
from opentela.router.paths import Paths
from opentela.router.reading import HEAD_TOO_LARGE, NO_ROOM, NOT_HTTP, Reading


class Room(Protocol):
    """What the connections of a router share.

    Attributes:
        held_bytes: Request bodies in memory.
    """

    config: ListenConfig
    paths: Paths
    held_bytes: int


class Intake:
    """Reads the requests of one connection.

    Attributes:
        reading: The request of which a part has come.
        waiting: Those that are whole, in order.
        refusal: Why nothing more is read.
        origin: The page that sent what is refused.
        is_head: Only the head of an answer to it is wanted.
    """

    def __init__(self, room: Room) -> None:
        self.reading: Reading | None = None
        self.waiting: deque[Reading] = deque()
        self.refusal: Fault | None = None
        self.origin = b""
        self.is_head = False
        self._room = room
        self._parser = httptools.HttpRequestParser(self)
        self._heads = plain.Heads(
            room.paths,
            head_bytes_max=room.config.head_bytes_max,
            body_bytes_max=room.config.body_bytes_max,
        )
        self._held_bytes = 0
        self._progress = 0  # heads and body pieces that were read
        self._stray_bytes = 0  # bytes since then: a head or trailer that does not end

    def whole(self, data: bytes) -> Reading | None:
        """Return the request that *data* is, from its first byte to its last, as nearly always.

        None changes nothing: *data* is for `feed`.
        """
        if self.reading is not None or self.waiting or self.refusal is not None:
            return None
        reading = self._heads.whole(data)
        if reading is None:
            return None
        room, held_bytes = self._room, self._room.held_bytes + reading.size
        if held_bytes > room.config.bodies_bytes_max:
            return None
        room.held_bytes = held_bytes
        self._held_bytes += reading.size
        self._stray_bytes = 0
        return reading

    @property
    def is_quiet(self) -> bool:
        """Whether nothing has come that is not taken, and more may come."""
        return self.reading is None and not self.waiting and self.refusal is None

    def feed(self, data: bytes) -> None:
        """Read on."""
        progress = self._progress
        size = len(data)
        data = self._read_plain(data)
        if data:
            self._parse(data)
        if self._progress != progress:
            self._stray_bytes = 0
        else:
            self._stray_bytes += size
            if self._stray_bytes > self._room.config.head_bytes_max:
                self.refuse(HEAD_TOO_LARGE)

    def refuse(self, fault: Fault) -> None:
        """Read nothing more; the fault is told when its turn comes."""
        if self.refusal is None:
            self.refusal = fault
            self.origin = self.reading.value_of(b"origin") if self.reading else b""
            self.is_head = self.reading is not None and self.reading.head.method == b"HEAD"

    def let_go(self, reading: Reading | None = None) -> None:
        """Count the body of *reading*, or all that is held, as held no more."""
        size = reading.size if reading else self._held_bytes
        self._held_bytes -= size
        self._room.held_bytes -= size

    # Plain requests ----------------------------------------------------------

    def _read_plain(self, data: bytes) -> bytes:
        """Read what is plain; return the rest, which is for the parser."""
        while data and self.refusal is None:
            reading = self.reading
            if reading is None:
                found = self._heads.read(data)
                if found is None:
                    return data
                reading, body_at = found
                self.reading = reading
                self._progress += 1
                data = data[body_at:]
            if reading.missing is None:
                return data
            if data:
                piece, data = data[: reading.missing], data[reading.missing :]
                reading.missing -= len(piece)
                self.on_body(piece)
            if not reading.missing:
                self.on_message_complete()
        return data

    # Parser ------------------------------------------------------------------

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # The parser stops behind the head. RFC 9110 section 7.8: what a server does not upgrade
            # to it ignores; Java's client offers HTTP/2 with each first request.
            if self.waiting:
                head = self.waiting.pop().head_without_upgrade()
                self._parser = httptools.HttpRequestParser(self)
                self._parse(head + data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self.refuse(NOT_HTTP)

    def on_message_begin(self) -> None:
        """A request begins."""
        self.reading = Reading()

    def on_url(self, url: bytes) -> None:
        """A piece of the target came."""
        if self.reading is not None:
            self.reading.head.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header came."""
        reading = self.reading
        if reading is not None and not reading.has_head:
            reading.add_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is whole: refuse early what cannot be taken."""
        self._progress += 1
        reading = self.reading
        if reading is None or self.refusal is not None:
            return
        fault = reading.end_head(self._parser, self._room.config, self._room.paths)
        if fault is not None:
            self.refuse(fault)

    def on_body(self, body: bytes) -> None:
        """A piece of the body came."""
        self._progress += 1
        reading, room = self.reading, self._room
        if reading is None or self.refusal is not None:
            return
        size = len(body)
        reading.size += size
        self._held_bytes += size
        room.held_bytes += size
        if reading.size > reading.head.body_bytes_max:
            self.refuse(reading.too_large())
        elif room.held_bytes > room.config.bodies_bytes_max:
            self.refuse(NO_ROOM)
        else:
            reading.add(body)

    def on_message_complete(self) -> None:
        """The request is whole; it gets its turn."""
        reading, self.reading = self.reading, None
        if reading is not None and self.refusal is None:
            self.waiting.append(reading)
