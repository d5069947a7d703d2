"""One channel: a TCP connection that carries the frames of one router and one session."""

import asyncio
import hashlib
import ssl
from collections.abc import Iterable
from typing import Final, Protocol, cast

from opentela.core.errors import WireError
from opentela.mesh.outbox import Outbox
from opentela.wire import channel as wire

ALIVE_EVERY_S: Final = 2.0
"""Between signs of life where nothing else is sent; as on the links of the mesh."""
SILENT_LOOKS_MAX: Final = 3
"""A channel that was silent at so many looks in a row, each `ALIVE_EVERY_S` apart, is lost. Counted
and not timed: who was itself frozen for a while has looked once."""
UNSENT_BYTES_HIGH: Final = 1024 * 1024
"""Unsent bytes above which engines are no longer read, and the router uses the mesh."""


class Owner(Protocol):
    """Who is told what happens on a channel; called on the loop."""

    def on_greeting(self, channel: "Channel", payload: bytes) -> None:
        """Take a part of the greeting.

        Raises:
            WireError: The other end is not who it should be; the channel is closed.
        """

    def on_frame(self, channel: "Channel", payload: bytes) -> None:
        """Take a frame; must not raise."""

    def on_congested(self, channel: "Channel", *, congested: bool) -> None:
        """Note that the other end takes less than is sent, or again as much."""

    def on_lost(self, channel: "Channel", reason: str) -> None:
        """Note the end of a channel, which was open or not; told once."""


class Channel(asyncio.Protocol):
    """Either end of a channel.

    Attributes:
        peer: Who the other end has proved to be; empty before.
        is_congested: The other end takes less than is sent.
    """

    def __init__(self, owner: Owner) -> None:
        self.peer = ""
        self.is_congested = False
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._parser = wire.Parser()
        self._outbox = Outbox(self._write)
        self._transport: asyncio.Transport | None = None
        self._is_over = False
        self._silent_looks = 0
        self._look = self._loop.call_later(ALIVE_EVERY_S, self._on_look)

    @property
    def certificate(self) -> str:
        """SHA-256 of the certificate that the other end showed, in hex; empty without TLS."""
        shown = self._transport.get_extra_info("ssl_object") if self._transport else None
        if not isinstance(shown, ssl.SSLObject | ssl.SSLSocket):
            return ""
        return hashlib.sha256(shown.getpeercert(binary_form=True) or b"").hexdigest()

    def open(self, peer: str) -> None:
        """Take and send frames from now on: the other end is *peer*."""
        self.peer = peer
        self._parser.bytes_max = wire.PAYLOAD_BYTES_MAX

    def say(self, payload: bytes) -> None:
        """Send a part of the greeting."""
        self._outbox.send(wire.length_of(payload), payload)

    def publish(self, payload: bytes) -> bool:
        """Send a frame; False when the channel is lost."""
        if self._is_over:
            return False
        self._outbox.send(wire.length_of(payload), payload)
        return True

    def close(self, reason: str) -> None:
        """End the channel."""
        if self._is_over:
            return
        self._is_over = True
        self._look.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._owner.on_lost(self, reason)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the socket."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES_HIGH)

    def data_received(self, data: bytes) -> None:
        """Take what came, frame by frame."""
        self._silent_looks = 0
        try:
            for payload in self._parser.feed(data):
                if not payload or self._is_over:
                    continue
                if self.peer:
                    self._owner.on_frame(self, payload)
                else:
                    self._owner.on_greeting(self, payload)
        except WireError as error:
            self.close(str(error))

    def pause_writing(self) -> None:
        """Note that the socket takes less than is sent."""
        self.is_congested = True
        self._owner.on_congested(self, congested=True)

    def resume_writing(self) -> None:
        """Note that the socket takes bytes again."""
        self.is_congested = False
        self._owner.on_congested(self, congested=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the socket is gone."""
        self._transport = None
        self.close(str(exc or "the other end closed it"))

    # The rest.

    def _write(self, pieces: Iterable[bytes]) -> None:
        if self._transport is not None and not self._is_over:
            self._transport.write(b"".join(pieces))

    def _on_look(self) -> None:
        self._silent_looks += 1
        if self._silent_looks > SILENT_LOOKS_MAX or not self.peer:
            self.close("the other end is silent" if self.peer else "the greeting takes too long")
            return
        self._look = self._loop.call_later(ALIVE_EVERY_S, self._on_look)
        self._outbox.send(wire.ALIVE)
