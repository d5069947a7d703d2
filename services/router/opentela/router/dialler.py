"""The router dials sessions on its own host, or of sites that it was told to dial.

It is the other way round of a home port: the same greeting, the same frames. The session learns
over the mesh, where only routers can speak to it, under which key it is about to be dialled.
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from opentela.core.errors import OtelaError, WireError
from opentela.core.record import Claim
from opentela.mesh import channel_tls, identity
from opentela.mesh.channel import Channel
from opentela.mesh.identity import Identity
from opentela.mesh.seldom import Seldom
from opentela.router import reachable
from opentela.router.config import DirectConfig
from opentela.router.link import MeshLink
from opentela.stream.greeting import DiallingRouter
from opentela.telemetry import metrics
from opentela.telemetry.health import split_address
from opentela.telemetry.log import get_logger
from opentela.wire import channel as wire
from opentela.wire.channel import Hello
from opentela.wire.subjects import SessionPath

log: Final = get_logger()

DIAL_S: Final = 3.0
"""For one address and the greeting there."""
CHANNELS_MAX: Final = 4096
"""More sessions than a mesh has at one time; further ones are asked over the mesh."""
HOSTS_KEPT_MAX: Final = 1024
"""Providers' keys whose token of this host is remembered; another costs two small reads."""

CHANNELS: Final = metrics.gauge(
    "otela_router_channels_direct", "Sessions that the router has dialled."
)
_failed: Final = metrics.counter(
    "otela_router_dials_failed_total", "Attempts to dial a session that failed."
)

ClaimOf = Callable[[SessionPath], Claim | None]
"""Returns what a session claims; None when there is no such session."""
Spawn = Callable[[Coroutine[Any, Any, None]], object]


class _Dialled(NamedTuple):
    """A channel that we dialled, until the session has let us in; `made` ends the wait."""

    path: SessionPath
    greeting: DiallingRouter
    made: asyncio.Future[None]


class Dialler:
    """Dials while it is open, and gives the channels to the link."""

    def __init__(
        self,
        config: DirectConfig,
        link: MeshLink,
        *,
        router: Identity,
        claim_of: ClaimOf,
        spawn: Spawn,
    ) -> None:
        self._config = config
        self._link = link
        self.on_frame: Final = link.on_frame
        """What comes on a channel is the link's."""
        self._identity = router
        self._claim_of = claim_of
        self._spawn = spawn
        self._tokens: dict[str, str] = {}
        self._dialling: set[SessionPath] = set()
        self._greetings: dict[Channel, _Dialled] = {}
        self._open: dict[Channel, SessionPath] = {}
        self._logs_failure = Seldom()

    def start(self) -> None:
        """Let the link ask for channels from now on."""
        CHANNELS.set_function(lambda: len(self._open))
        self._link.dial_with(self.dial)

    def close(self) -> None:
        """End every channel."""
        for channel in (*self._greetings, *self._open):
            channel.close("the router ended")

    def dial(self, path: SessionPath) -> bool:
        """Begin to dial a session; False when it cannot be dialled."""
        if path in self._dialling:
            return True
        claim = self._claim_of(path)
        if claim is None or len(self._open) + len(self._dialling) >= CHANNELS_MAX:
            return False
        addresses = self._addresses(claim)
        if not addresses:
            return False
        self._dialling.add(path)
        self._spawn(self._dial(path, claim, addresses))
        return True

    # What a channel calls.

    def on_greeting(self, channel: Channel, payload: bytes) -> None:
        """Take a part of the session's greeting."""
        path, greeting, made = self._greetings[channel]
        answer = greeting.hear(payload)
        if answer:
            channel.say(answer)
            return
        # Now, and not when the one that waits goes on: more may come with this part, or the end.
        self._take(path, channel)
        if not made.done():
            made.set_result(None)

    def on_congested(self, channel: Channel, *, congested: bool) -> None:
        """Do nothing: the link looks when it chooses."""

    def on_lost(self, channel: Channel, reason: str) -> None:
        """Note the end of a channel."""
        dialled = self._greetings.pop(channel, None)
        if dialled is not None:
            if not dialled.made.done():
                dialled.made.set_exception(WireError(reason))
            return
        path = self._open.pop(channel, None)
        if path is not None:
            self._link.detach(path, channel)
            log.info("channel_lost", session=path.session, site=path.site, reason=reason)

    # The rest.

    def _addresses(self, claim: Claim) -> tuple[str, ...]:
        door = claim.offer.door
        if door is None:
            return ()
        return reachable.addresses(
            door,
            site=claim.site,
            sites=self._config.sites,
            is_same_host=self._config.same_host
            and bool(door.host)
            and door.host == self._token(claim.key),
        )

    def _token(self, key: str) -> str:
        token = self._tokens.get(key)
        if token is None:
            if len(self._tokens) >= HOSTS_KEPT_MAX:
                self._tokens.clear()
            token = self._tokens[key] = channel_tls.host_token(key)
        return token

    async def _dial(self, path: SessionPath, claim: Claim, addresses: tuple[str, ...]) -> None:
        try:
            self._link.tell_key(path, self._identity.key)
            for address in addresses:
                try:
                    async with asyncio.timeout(DIAL_S):
                        await self._dial_at(address, path, claim)
                except (OSError, OtelaError, ValueError) as error:
                    self._tell_failure(path, f"{address}: {str(error) or 'no answer'}")
                else:
                    return
            self._link.invite_home(path)
        finally:
            self._dialling.discard(path)

    async def _dial_at(self, address: str, path: SessionPath, claim: Claim) -> None:
        assert claim.offer.door is not None
        host, port = split_address(address, field="door.address")
        certificate = claim.offer.door.certificate
        channel = Channel(self)
        nonce = secrets.token_bytes(wire.NONCE_BYTES)
        greeting = DiallingRouter(
            Hello(wire.VERSION, self._link.instance, path.session, nonce),
            key=claim.key,
            certificate=certificate,
            sign=self._identity.sign,
            verify=identity.verify,
        )
        loop = asyncio.get_running_loop()
        made: asyncio.Future[None] = loop.create_future()
        self._greetings[channel] = _Dialled(path, greeting, made)
        context = channel_tls.dialling() if certificate else None
        try:
            await loop.create_connection(lambda: channel, host, port, ssl=context)
            channel.check_certificate(certificate)
            channel.say(greeting.hello)
            await made
        except BaseException as error:
            if not made.cancel() and not made.cancelled():
                made.exception()  # which says no more than what is raised
            channel.close(str(error) or "not connected")
            raise

    def _take(self, path: SessionPath, channel: Channel) -> None:
        del self._greetings[channel]
        channel.open(path.session)
        self._open[channel] = path
        self._link.attach(path, channel)
        log.info("channel_dialled", session=path.session, site=path.site)

    def _tell_failure(self, path: SessionPath, reason: str) -> None:
        _failed.inc()
        if self._logs_failure.now():
            log.info("channel_not_made", session=path.session, site=path.site, reason=reason)
