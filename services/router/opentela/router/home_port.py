"""Where sessions call home: they dial this port, and their requests then take no detour.

A session behind NAT can dial out. Over a connection of its own a request passes one process less
for each server of the mesh that lay on its way, and large bodies stay off the mesh's links.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Final

from opentela.core.errors import WireError
from opentela.core.ids import SessionId
from opentela.core.record import Lifecycle, SessionRecord, claim_of, lifecycle_of
from opentela.mesh import channel_port, identity
from opentela.mesh.channel import Channel
from opentela.mesh.identity import Identity
from opentela.mesh.seldom import Seldom
from opentela.router.config import HomeConfig
from opentela.router.link import MeshLink
from opentela.service import SystemClock
from opentela.stream.greeting import RouterGreeting
from opentela.telemetry import metrics
from opentela.telemetry.log import get_logger
from opentela.wire import channel as wire
from opentela.wire.frames import Invite
from opentela.wire.subjects import SessionPath

log: Final = get_logger()

GREETINGS_MAX: Final = 256
"""Connections that have not yet proved anything; further ones are closed at once."""
CHANNELS_MAX: Final = 4096
"""More sessions than a mesh has at one time; further ones are answered over the mesh."""

CHANNELS: Final = metrics.gauge("otela_router_channels", "Sessions that have called home.")
_refused: Final = metrics.counter(
    "otela_router_channels_refused_total", "Connections to the home port that failed."
)

FindSession = Callable[[str], tuple[SessionPath, str] | None]
"""Returns where a session is reached and its public key; None when there is no such session."""


def finder(records: Callable[[], Mapping[SessionId, SessionRecord]]) -> FindSession:
    """Return what finds, among the *records* of that moment, a session that has not ended."""

    def find(session: str) -> tuple[SessionPath, str] | None:
        record = records().get(SessionId(session))
        if record is None or lifecycle_of(record) >= Lifecycle.DOWN:
            return None
        claim = claim_of(record)
        return SessionPath(claim.provider, claim.site, claim.session), claim.key

    return find


class HomePort:
    """Listens for sessions while it is open, and gives their channels to the link.

    Attributes:
        refused: Connections that came to nothing so far.
    """

    def __init__(
        self, config: HomeConfig, link: MeshLink, *, router: Identity, find: FindSession
    ) -> None:
        self.refused = 0
        self._config = config
        self._link = link
        self.on_frame: Final = link.on_frame
        """What comes on a channel is the link's."""
        self._identity = router
        self._find = find
        self._certificate = ""
        self._greetings: dict[Channel, RouterGreeting] = {}
        self._open: dict[Channel, SessionPath] = {}
        self._server: asyncio.Server | None = None
        self._logs_refusal = Seldom()

    async def start(self) -> None:
        """Listen, and let the link invite.

        Raises:
            PortInUseError: Somebody else listens there.
            ConfigError: The address is not one of this host.
        """
        port = await channel_port.listen(
            self._accept,
            self._config,
            field="home.address",
            name="opentela router",
            wall=SystemClock().wall(),
        )
        self._server, addresses, self._certificate = port
        self._link.invite(Invite(0, addresses, self._identity.key, self._certificate))
        CHANNELS.set_function(lambda: len(self._open))
        log.info("home_port_opened", addresses=addresses, tls=bool(self._certificate))

    async def close(self) -> None:
        """Let nobody in, and end every channel."""
        self._link.invite(None)
        if self._server is not None:
            self._server.close()
        for channel in (*self._greetings, *self._open):
            channel.close("the router ended")

    # What a channel calls.

    def on_greeting(self, channel: Channel, payload: bytes) -> None:
        """Take a part of a session's greeting."""
        greeting = self._greetings[channel]
        answer = greeting.hear(payload)
        if answer:
            channel.say(answer)
            return
        del self._greetings[channel]
        found = self._find(greeting.session)
        if found is None:
            raise WireError(f"session {greeting.session} has left")
        if len(self._open) >= CHANNELS_MAX:
            raise WireError(f"{CHANNELS_MAX} sessions have called already")
        channel.open(greeting.session)
        self._open[channel] = found[0]
        self._link.attach(found[0], channel)

    def on_congested(self, channel: Channel, *, congested: bool) -> None:
        """Do nothing: the link looks when it chooses."""

    def on_lost(self, channel: Channel, reason: str) -> None:
        """Note the end of a channel."""
        if self._greetings.pop(channel, None) is not None:
            self.refused += 1
            _refused.inc()
            if self._logs_refusal.now():
                log.warning("channel_refused", reason=reason)
            return
        path = self._open.pop(channel, None)
        if path is not None:
            self._link.detach(path, channel)
            log.info("channel_lost", session=path.session, site=path.site, reason=reason)

    # The rest.

    def _accept(self) -> Channel:
        channel = Channel(self)
        self._greetings[channel] = RouterGreeting(
            instance=self._link.instance,
            certificate=self._certificate,
            nonce=secrets.token_bytes(wire.NONCE_BYTES),
            sign=self._identity.sign,
            verify=identity.verify,
            key_of=self._key_of,
        )
        if len(self._greetings) > GREETINGS_MAX:
            asyncio.get_running_loop().call_soon(channel.close, "too many greetings at once")
        return channel

    def _key_of(self, session: str) -> str:
        found = self._find(session)
        return found[1] if found else ""
