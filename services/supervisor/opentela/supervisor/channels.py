"""Channels to the routers that can be dialled, made on invitation, for one session's gateway.

Only routers can publish to a session, so that an invitation is a router's word. What answers at the
address must still prove that it is that router, and we that we are the session.
"""

import asyncio
import secrets
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from opentela.core.errors import OtelaError, WireError
from opentela.core.ids import SessionId
from opentela.mesh import identity
from opentela.mesh.channel import Channel
from opentela.mesh.identity import Identity
from opentela.mesh.seldom import Seldom
from opentela.stream.greeting import SessionGreeting
from opentela.telemetry import log as logs
from opentela.telemetry.health import split_address
from opentela.wire import channel as wire
from opentela.wire.channel import Hello
from opentela.wire.frames import Invite

log: Final = logs.get_logger()

DIAL_S: Final = 3.0
"""For one address: firewalls mostly drop what they do not let pass."""
ROUTERS_MAX: Final = 64
"""Channels of one session; routers beyond that are answered over the mesh."""
ADDRESSES_MAX: Final = 8
"""Of one invitation that are tried."""

Spawn = Callable[[Coroutine[Any, Any, None]], None]


class Taker(Protocol):
    """The gateway, as its channels see it."""

    def on_frame(self, channel: Channel, payload: bytes) -> None:
        """Take a frame of the router process `channel.peer`."""

    def on_channel_congested(self, channel: Channel) -> None:
        """Look whether a router takes less than is sent."""

    def on_channel_lost(self, channel: Channel) -> None:
        """Note that what came over a channel can be answered there no more."""


class Channels:
    """The channels of one session."""

    def __init__(
        self, session: SessionId, taker: Taker, *, provider: Identity, spawn: Spawn
    ) -> None:
        self._session = session
        self._taker = taker
        self._identity = provider
        self._spawn = spawn
        self._open: dict[str, Channel] = {}
        self._greetings: dict[Channel, tuple[str, SessionGreeting]] = {}
        self._dialling: set[str] = set()
        self._is_closed = False
        self._logs_failure = Seldom()

    def invited(self, asker: str, invite: Invite) -> None:
        """Dial the router process that *asker* stands for, unless that is done already."""
        known = len(self._open) + len(self._dialling)
        if asker in self._open or asker in self._dialling or known >= ROUTERS_MAX:
            return
        if not self._is_closed:
            self._dialling.add(asker)
            self._spawn(self._dial(asker, invite))

    def close(self) -> None:
        """End every channel, and make no more."""
        self._is_closed = True
        for channel in (*self._greetings, *self._open.values()):
            channel.close("the session ended")

    # What a channel calls.

    def on_greeting(self, channel: Channel, payload: bytes) -> None:
        """Take the router's proof, and give ours."""
        asker, greeting = self._greetings[channel]
        proof = greeting.hear(payload)
        del self._greetings[channel]
        channel.say(proof)
        channel.open(asker)
        self._open[asker] = channel
        log.info("channel_opened", session=self._session, router=asker)

    def on_frame(self, channel: Channel, payload: bytes) -> None:
        """Take a frame."""
        self._taker.on_frame(channel, payload)

    def on_congested(self, channel: Channel, *, congested: bool) -> None:  # noqa: ARG002 - it says
        """Hold the engine's answers, or let them come."""
        self._taker.on_channel_congested(channel)

    def on_lost(self, channel: Channel, reason: str) -> None:
        """Note the end of a channel; the router invites again."""
        if self._greetings.pop(channel, None) is not None:
            self._tell_failure(reason)
        elif self._open.get(channel.peer) is channel:
            del self._open[channel.peer]
            self._taker.on_channel_lost(channel)
            log.info("channel_lost", session=self._session, router=channel.peer, reason=reason)

    # The rest.

    async def _dial(self, asker: str, invite: Invite) -> None:
        try:
            for address in invite.addresses[:ADDRESSES_MAX]:
                try:
                    async with asyncio.timeout(DIAL_S):
                        await self._dial_at(address, asker, invite)
                except (OSError, OtelaError, ValueError) as error:
                    self._tell_failure(f"{address}: {str(error) or 'no answer'}")
                else:
                    return
        finally:
            self._dialling.discard(asker)

    async def _dial_at(self, address: str, asker: str, invite: Invite) -> None:
        host, port = split_address(address, field="address")
        context = _context() if invite.certificate else None
        channel = Channel(self)
        hello = Hello(
            wire.VERSION,
            asker.split(".")[_INSTANCE_AT],
            self._session,
            secrets.token_bytes(wire.NONCE_BYTES),
        )
        greeting = SessionGreeting(
            hello,
            key=invite.key,
            certificate=invite.certificate,
            sign=self._identity.sign,
            verify=identity.verify,
        )
        self._greetings[channel] = (asker, greeting)
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: channel, host, port, ssl=context
            )
        except BaseException:
            channel.close("not connected")
            raise
        if channel.certificate != invite.certificate:
            channel.close("another certificate than the router's")
            raise WireError("another certificate than the router's")
        channel.say(greeting.hello)

    def _tell_failure(self, reason: str) -> None:
        if self._logs_failure.now():
            log.info("channel_not_made", session=self._session, reason=reason)


def _context() -> ssl.SSLContext:
    """Return a context that believes any certificate: the one that was shown is compared after."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


_INSTANCE_AT: Final = -2
"""In what stands for a router process: `….reply.<name>.<instance>.<provider>`."""
