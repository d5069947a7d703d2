"""One channel: a TCP connection that carries the frames of one router and one session."""

import asyncio
import hashlib
import ssl
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
GREETING_S: Final = 2.0
"""From the connection to the last part of the greeting; for TLS alone as much once more."""
BACKLOG: Final = 1024
"""Connections that the kernel keeps until they are looked at: all routers or sessions at once."""
EMPTY_MAX: Final = 1000
"""Signs of life between two looks: they cost the sender next to nothing, and us a little."""
LINGER_S: Final = 2.0
"""How long the last frames may take to leave, once a channel is ended in order."""


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
        is_doubted: Something that was asked for over it did not come; until anything comes.
        heard_at: When anything last came, on the loop's clock.
    """

    def __init__(self, owner: Owner) -> None:
        self.peer = ""
        self.is_congested = False
        self.is_doubted = False
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self.heard_at = self._loop.time()
        self._empties = 0
        self._parser = wire.Parser()
        self._outbox = Outbox(self._write)
        self._transport: asyncio.Transport | None = None
        self._is_over = False
        self._silent_looks = 0
        self._look = self._loop.call_later(GREETING_S, self._on_look)

    @property
    def unsent_bytes(self) -> int:
        """Return what was published and has not left this process."""
        if self._transport is None:
            return 0
        return self._outbox.waiting_bytes + self._transport.get_write_buffer_size()

    @property
    def is_local(self) -> bool:
        """Whether both ends have one address: it is of one host's network, and nobody else's."""
        if self._transport is None:
            return False
        ends = [self._transport.get_extra_info(end) for end in ("sockname", "peername")]
        return all(ends) and ends[0][0] == ends[1][0]

    @property
    def certificate(self) -> str:
        """SHA-256 of the certificate that the other end showed, in hex; empty without TLS."""
        shown = self._transport.get_extra_info("ssl_object") if self._transport else None
        if not isinstance(shown, ssl.SSLObject | ssl.SSLSocket):
            return ""
        return hashlib.sha256(shown.getpeercert(binary_form=True) or b"").hexdigest()

    def check_certificate(self, expected: str) -> None:
        """Make sure that the other end showed the certificate whose hash we were told.

        Raises:
            WireError: It showed another, or none.
        """
        if self.certificate != expected:
            raise WireError("another certificate than was told over the mesh")

    def open(self, peer: str, owner: Owner | None = None) -> None:
        """Take and send frames from now on: the other end is *peer*; *owner* is told of them."""
        self.peer = peer
        self._owner = owner or self._owner
        self._parser.bytes_max = wire.PAYLOAD_BYTES_MAX

    def say(self, payload: bytes) -> None:
        """Send a part of the greeting."""
        self._outbox.send(wire.length_of(payload) + payload)

    def publish(self, payload: bytes) -> bool:
        """Send a frame; False when the channel is lost."""
        if self._is_over:
            return False
        self._outbox.send(wire.length_of(payload) + payload)
        return True

    def close(self, reason: str, *, flush: bool = False) -> None:
        """End the channel; with *flush* what was published still leaves, if it does so soon."""
        if self._is_over:
            return
        self._is_over = True
        self._look.cancel()
        if self._transport is not None:
            if flush:
                self._outbox.flush()
                self._transport.close()
                self._look = self._loop.call_later(LINGER_S, self._transport.abort)
            else:
                self._transport.abort()
        self._owner.on_lost(self, reason)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the socket."""
        self._transport = cast("asyncio.Transport", transport)
        if self._is_over:  # closed while it was connecting, or its TLS was agreed on
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES_HIGH)

    def data_received(self, data: bytes) -> None:
        """Take what came, frame by frame."""
        if self._is_over:
            return
        self._silent_looks = 0
        self.is_doubted = False
        self.heard_at = self._loop.time()
        try:
            self._take(data)
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
        if self._is_over:
            self._look.cancel()
        self.close(str(exc or "the other end closed it"))

    # The rest.

    def _write(self, words: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(words)

    def _take(self, data: bytes) -> None:
        for payload in self._parser.feed(data):
            if not payload:
                self._count_empty()
            elif self._is_over:
                return
            elif self.peer:
                self._owner.on_frame(self, payload)
            else:
                self._owner.on_greeting(self, payload)

    def _count_empty(self) -> None:
        self._empties += 1
        if self._empties > EMPTY_MAX:
            raise WireError("the other end floods us with signs of life")

    def _on_look(self) -> None:
        self._silent_looks += 1
        self._empties = 0
        if self._silent_looks > SILENT_LOOKS_MAX or not self.peer:
            self.close("the other end is silent" if self.peer else "the greeting takes too long")
            return
        self._look = self._loop.call_later(ALIVE_EVERY_S, self._on_look)
        self._outbox.send(wire.ALIVE)
