"""Channels to routers, for one session's gateway: those that it dialled, and those that dialled it.

Only routers can publish to a session, so that an invitation is a router's word, and so is what one
says before it dials. Who is at the other end must still prove that it is that router, and we that
we are the session.
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple, Protocol

from opentela.core.errors import OtelaError, WireError
from opentela.core.ids import SessionId
from opentela.mesh import channel_tls, identity
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
"""For one address and the greeting there: firewalls mostly drop what they do not let pass."""
ROUTERS_MAX: Final = 64
"""Channels of one session; routers beyond that are answered over the mesh."""
ADDRESSES_MAX: Final = 8
"""Of one invitation that are tried."""
ANNOUNCED_S: Final = 30.0
"""How long a router that said that it would dial may take."""

Spawn = Callable[[Coroutine[Any, Any, None]], None]


class Taker(Protocol):
    """The gateway, as its channels see it."""

    def on_frame(self, channel: Channel, payload: bytes) -> None:
        """Take a frame of the router process `channel.peer`."""

    def on_channel_opened(self, channel: Channel) -> None:
        """Note that a router can be told something."""

    def on_channel_congested(self, channel: Channel) -> None:
        """Look whether a router takes less than is sent."""

    def on_channel_lost(self, channel: Channel) -> None:
        """Note that what came over a channel can be answered there no more."""


class Announced(NamedTuple):
    """A router process that will dial: how it is answered, its key, until when that holds."""

    asker: str
    key: str
    until: float


class _Dialled(NamedTuple):
    """A channel that we dialled, until the router has proved itself; `made` ends the wait."""

    asker: str
    greeting: SessionGreeting
    made: asyncio.Future[None]


class Channels:
    """The channels of one session.

    Attributes:
        on_announced: Told which router process said that it would dial.
    """

    def __init__(
        self, session: SessionId, taker: Taker, *, provider: Identity, spawn: Spawn, dials: bool
    ) -> None:
        self.on_announced: Callable[[str], None] | None = None
        self._session = session
        self._taker = taker
        self._identity = provider
        self._spawn = spawn
        self._dials = dials
        self._open: dict[str, Channel] = {}
        self._greetings: dict[Channel, _Dialled] = {}
        self._dialling: set[str] = set()
        self._announced: dict[str, Announced] = {}
        self._is_closed = False
        self._logs_failure = Seldom()

    @property
    def unsent_bytes(self) -> int:
        """Return what was published and has not left this process."""
        return sum(channel.unsent_bytes for channel in self._open.values())

    def invited(self, asker: str, invite: Invite) -> None:
        """Dial the router process that *asker* stands for, unless that is done already.

        One that names no address will dial by itself.
        """
        if self._is_closed:
            return
        if not invite.addresses:
            self._announce(asker, invite.key)
            return
        known = len(self._open) + len(self._dialling)
        is_known = asker in self._open or asker in self._dialling
        if self._dials and not is_known and known < ROUTERS_MAX:
            self._dialling.add(asker)
            self._spawn(self._dial(asker, invite))

    def announced(self, instance: str) -> Announced | None:
        """Return who a router process is that dials, if it has said over the mesh that it would."""
        known = self._announced.get(instance)
        now = asyncio.get_running_loop().time()
        return known if known is not None and now < known.until else None

    def adopt(self, channel: Channel, asker: str) -> None:
        """Take a channel on which a router that dialled has proved itself; it replaces an older.

        Raises:
            WireError: There are too many already, or the session has ended.
        """
        self._make_room(asker)
        channel.open(asker, self)
        self._opened(asker, channel)

    def close(self) -> None:
        """End every channel, and make no more."""
        self._is_closed = True
        for channel in (*self._greetings, *self._open.values()):
            channel.close("the session ended", flush=True)

    # What a channel calls.

    def on_greeting(self, channel: Channel, payload: bytes) -> None:
        """Take the router's proof, and give ours."""
        asker, greeting, made = self._greetings[channel]
        proof = greeting.hear(payload)
        self._make_room(asker)
        del self._greetings[channel]
        channel.say(proof)
        channel.open(asker)
        self._opened(asker, channel)
        if not made.done():
            made.set_result(None)

    def on_frame(self, channel: Channel, payload: bytes) -> None:
        """Take a frame."""
        self._taker.on_frame(channel, payload)

    def on_congested(self, channel: Channel, *, congested: bool) -> None:  # noqa: ARG002 - it says
        """Hold the engine's answers, or let them come."""
        self._taker.on_channel_congested(channel)

    def on_lost(self, channel: Channel, reason: str) -> None:
        """Note the end of a channel; the router invites again."""
        dialled = self._greetings.pop(channel, None)
        if dialled is not None:
            if not dialled.made.done():
                dialled.made.set_exception(WireError(reason))
        elif self._open.get(channel.peer) is channel:
            del self._open[channel.peer]
            self._taker.on_channel_lost(channel)
            log.info("channel_lost", session=self._session, router=channel.peer, reason=reason)

    # The rest.

    def _announce(self, asker: str, key: str) -> None:
        instance = instance_of(asker)
        self._announced.pop(instance, None)
        until = asyncio.get_running_loop().time() + ANNOUNCED_S
        self._announced[instance] = Announced(asker, key, until)
        if len(self._announced) > ROUTERS_MAX:
            del self._announced[next(iter(self._announced))]
        if self.on_announced is not None:
            self.on_announced(instance)

    def _make_room(self, asker: str) -> None:
        before = self._open.get(asker)
        if self._is_closed or (before is None and len(self._open) >= ROUTERS_MAX):
            raise WireError("the session takes no more channels")
        if before is not None:
            # Each of the two may have dialled the other.
            before.close("another channel takes its place")

    def _opened(self, asker: str, channel: Channel) -> None:
        self._open[asker] = channel
        log.info("channel_opened", session=self._session, router=asker)
        self._taker.on_channel_opened(channel)

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
        context = channel_tls.dialling() if invite.certificate else None
        channel = Channel(self)
        nonce = secrets.token_bytes(wire.NONCE_BYTES)
        greeting = SessionGreeting(
            Hello(wire.VERSION, instance_of(asker), self._session, nonce),
            key=invite.key,
            certificate=invite.certificate,
            sign=self._identity.sign,
            verify=identity.verify,
        )
        loop = asyncio.get_running_loop()
        made: asyncio.Future[None] = loop.create_future()
        self._greetings[channel] = _Dialled(asker, greeting, made)
        try:
            await loop.create_connection(lambda: channel, host, port, ssl=context)
            channel.check_certificate(invite.certificate)
            channel.say(greeting.hello)
            await made
        except BaseException as error:
            if not made.cancel() and not made.cancelled():
                made.exception()  # which says no more than what is raised
            channel.close(str(error) or "not connected")
            raise

    def _tell_failure(self, reason: str) -> None:
        if self._logs_failure.now():
            log.info("channel_not_made", session=self._session, reason=reason)


def instance_of(asker: str) -> str:
    """Return the process in what stands for it: `….reply.<name>.<instance>.<provider>`."""
    return asker.split(".")[-2]
