"""One connection of the data plane to one server, from its dial to its loss.

An `asyncio.Protocol` instead of tasks and queues: a message goes from the socket to its stream in
one call.
"""

import asyncio
import secrets
import ssl
from base64 import urlsafe_b64encode
from collections import deque
from typing import Final, Protocol, cast

from opentela.core.errors import CredentialError, MeshUnavailableError, WireError
from opentela.mesh import nats_wire
from opentela.mesh.access import Access, Server
from opentela.mesh.keepalive import PING_EVERY_S, Due, KeepAlive
from opentela.mesh.keeper import Fault
from opentela.mesh.nats_connection import DIAL_TIMEOUT_S, LEAVE_TIMEOUT_S
from opentela.mesh.nats_wire import Fine, Info, Message, Ping, Pong, Refusal
from opentela.mesh.outbox import Outbox
from opentela.mesh.websocket import KEY_BYTES, WebsocketClient

UNSENT_BYTES_HIGH: Final = 1024 * 1024
"""Unsent bytes above which engines are no longer read; four windows, 10 ms of a fast link."""
UNSENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Unsent bytes above which nothing more is taken; the servers' own limit for a connection."""

_REFUSALS: Final = ("authorization violation", "authentication expired", "authentication revoked")
_PERMISSION: Final = "permissions violation"


class Owner(Protocol):
    """Who is told what happens on a connection; called on the loop, must not raise."""

    def on_message(self, message: Message) -> None:
        """Take a message."""

    def on_congested(self, *, congested: bool) -> None:
        """Note that the link takes less than is published, or again as much."""

    def on_refusal(self, text: str) -> None:
        """Note that the server refuses something without ending the connection."""

    def on_lost(self, connection: "DataConnection", fault: Fault) -> None:
        """Note that the connection has ended against our will."""


class DataConnection(asyncio.Protocol):
    """An open connection; made by `dial`, ended by `leave` or `abandon`, or lost."""

    def __init__(self, access: Access, server: Server, owner: Owner) -> None:
        self.server: Final = server
        self._access = access
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._parser = nats_wire.Parser()
        self._transport: asyncio.Transport | None = None
        self._websocket: WebsocketClient | None = None
        self._outbox = Outbox(self._send)
        self._is_paused = False
        self._is_over = False
        self._said = ""
        self._max_payload = nats_wire.PAYLOAD_BYTES_MAX
        self._info: asyncio.Future[Info] = self._loop.create_future()
        self._pongs: deque[asyncio.Future[None] | None] = deque()
        self._alive = KeepAlive(self._loop.time(), every_s=PING_EVERY_S)
        self._alive_timer: asyncio.TimerHandle | None = None
        self._has_published = False
        self._closed: asyncio.Future[None] = self._loop.create_future()

    @classmethod
    async def dial(
        cls, access: Access, server: Server, owner: Owner, *, name: str
    ) -> "DataConnection":
        """Return a connection to *server* that it has accepted.

        Raises:
            CredentialError: It refuses the credentials, or its certificate cannot be trusted.
            MeshUnavailableError: It does not answer, or not as a server of the mesh.
        """
        self = cls(access, server, owner)
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_S):
                await self._open()
                self._outbox.send(nats_wire.connect(self._introduction(name, await self._info)))
                await self._round_trip()
        except BaseException as error:
            self.abandon()
            if isinstance(error, OSError | WireError):
                raise self._fault(error) from error
            raise
        self._watch()
        return self

    async def _open(self) -> None:
        server, loop = self.server, self._loop
        context = self._access.tls() if server.is_encrypted else None
        await loop.create_connection(lambda: self, server.host, server.port, ssl=context)
        if server.is_websocket:
            self._websocket = WebsocketClient(
                f"{server.host}:{server.port}", secrets.token_bytes(KEY_BYTES), secrets.token_bytes
            )
            self._write(self._websocket.request())
        info = await self._info
        self._max_payload = info.max_payload
        if info.tls_required and not server.is_encrypted:
            assert self._transport is not None
            encrypted = await loop.start_tls(
                self._transport, self, self._access.tls(), server_hostname=server.host
            )
            assert encrypted is not None
            self._adopt(encrypted)

    def _introduction(self, name: str, info: Info) -> dict[str, object]:
        signature = self._access.identity.sign(info.nonce.encode())
        return {
            "verbose": False,
            "pedantic": False,
            "name": name,
            "lang": "python",
            "version": "opentela",
            "protocol": 1,
            "headers": True,
            "no_responders": True,
            "jwt": self._access.jwt,
            "sig": urlsafe_b64encode(signature).rstrip(b"=").decode(),
        }

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return not self._is_over

    @property
    def is_congested(self) -> bool:
        """Whether the link takes less than is published."""
        return self._is_paused

    def publish(self, subject: str, payload: bytes, reply: str) -> bool:
        """Send a message, at the latest when this turn of the loop ends; False if not taken."""
        size = len(payload)
        if self._is_over or size > self._max_payload:
            return False
        if (self._is_paused or self._outbox.waiting_bytes) and self._is_full():
            return False
        self._has_published = True
        self._outbox.send(nats_wire.publish(subject, reply, payload))
        return True

    def carry(self, subject: str, payload: bytes) -> bool:
        """Send a message in one piece with a ping, if one is due soon and nothing else is sent.

        False means that it was not sent: what must not wait behind others goes elsewhere then.
        """
        was_busy, self._has_published = self._has_published, False
        if was_busy or self._is_over or self._unsent_bytes or self._alive.is_waiting:
            return False
        if not self._alive.rides(self._loop.time()):
            return False
        self._ask(nats_wire.publish(subject, "", payload))
        return True

    def subscribe(self, subject: str, sid: int) -> None:
        """Ask for every message on *subject*."""
        self._outbox.send(nats_wire.subscribe(subject, sid))

    def unsubscribe(self, sid: int) -> None:
        """Ask for no more of it."""
        self._outbox.send(nats_wire.unsubscribe(sid))

    async def round_trip(self) -> None:
        """Return when the server has taken all that was sent.

        Raises:
            MeshUnavailableError: The connection was lost meanwhile, or takes too long.
        """
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_S):
                await self._round_trip()
        except TimeoutError as error:
            raise self._fault(error) from error

    async def _round_trip(self) -> None:
        pong: asyncio.Future[None] = self._loop.create_future()
        self._pongs.append(pong)
        self._outbox.send(nats_wire.PING)
        await pong

    async def leave(self) -> None:
        """Send what is left and close."""
        self._outbox.flush()
        self._is_over = True
        if self._transport is None:
            return
        self._transport.close()
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                await self._closed
        except TimeoutError:
            pass  # the link takes nothing more; now it is cut
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Cut the socket."""
        self._is_over = True
        if self._alive_timer is not None:
            self._alive_timer.cancel()
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the socket."""
        self._adopt(cast("asyncio.Transport", transport))

    def data_received(self, data: bytes) -> None:
        """Take bytes from the server."""
        self._alive.heard(self._loop.time())
        try:
            if self._websocket is not None:
                data, answer = self._websocket.feed(data)
                if answer:
                    self._write(answer)
            for event in self._parser.feed(data):
                if isinstance(event, Message):
                    self._owner.on_message(event)
                else:
                    self._handle(event)
        except WireError as error:
            self._end(str(error))

    def pause_writing(self) -> None:
        """Note that the socket takes less than is written."""
        self._is_paused = True
        self._owner.on_congested(congested=True)

    def resume_writing(self) -> None:
        """Note that the socket takes bytes again."""
        self._is_paused = False
        self._owner.on_congested(congested=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the socket is gone."""
        if not self._closed.done():
            self._closed.set_result(None)
        self._end(str(exc or "the server closed the connection"))

    # The rest.

    def _adopt(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=UNSENT_BYTES_HIGH)

    def _handle(self, event: Info | Ping | Pong | Fine | Refusal) -> None:
        match event:
            case Fine():
                pass
            case Ping():
                self._outbox.send(nats_wire.PONG)
            case Pong():
                waiting = self._pongs.popleft() if self._pongs else None
                if waiting is not None and not waiting.done():
                    waiting.set_result(None)
            case Info():
                if not self._info.done():
                    self._info.set_result(event)
            case Refusal(text=text):
                if _PERMISSION in text.lower():
                    self._owner.on_refusal(text)
                else:
                    self._said = text

    def _send(self, words: bytes) -> None:
        if self._is_over:
            return
        self._write(words if self._websocket is None else self._websocket.send(words))

    def _write(self, words: bytes) -> None:
        assert self._transport is not None
        self._transport.write(words)

    def _is_full(self) -> bool:
        return self._unsent_bytes > UNSENT_BYTES_MAX

    @property
    def _unsent_bytes(self) -> int:
        assert self._transport is not None
        return self._outbox.waiting_bytes + self._transport.get_write_buffer_size()

    def _watch(self) -> None:
        delay_s = self._alive.wake_at - self._loop.time()
        self._alive_timer = self._loop.call_later(delay_s, self._look)

    def _look(self) -> None:
        match self._alive.step(self._loop.time()):
            case Due.NOTHING:
                pass
            case Due.PING:
                self._ask()
            case Due.END:
                self._end("the server no longer answers")
                return
        self._watch()

    def _ask(self, before: bytes = b"") -> None:
        """Send *before* and a ping."""
        self._pongs.append(None)
        self._outbox.send(before + nats_wire.PING)

    def _end(self, reason: str) -> None:
        """End it for *reason*; whoever waits for the server waits in vain."""
        if self._is_over:
            return
        self.abandon()
        fault = self._fault(self._said or reason)
        if not self._info.done():
            self._info.set_exception(fault)
        for pong in self._pongs:
            if pong is not None and not pong.done():
                pong.set_exception(fault)
        self._owner.on_lost(self, fault)

    def _fault(self, error: Exception | str) -> Fault:
        access, url = self._access, self.server.url
        if isinstance(error, ssl.SSLCertVerificationError):
            return CredentialError(
                f"the certificate of {url} cannot be trusted: {error.verify_message}",
                remedy="use a server name that it holds, or get an access file with the right ca",
            )
        reason = str(error) or type(error).__name__
        if any(refusal in reason.lower() for refusal in _REFUSALS):
            return CredentialError(
                f"{url} refuses {access.role} {access.name}: {reason.lower()}",
                remedy="it may have expired or been revoked: ask the operator for a new one",
            )
        return MeshUnavailableError(f"{url} does not answer: {reason}")
