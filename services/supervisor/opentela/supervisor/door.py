"""The door: where routers dial our sessions, on the same host or network.

It is no way in for anybody else. A router says over the mesh, where only routers can speak to
sessions, under which key it will come; at the door it proves that it holds that key, and we prove
with ours that we are the session. Its word may take longer than its call: the call waits for it.
"""

import asyncio
import secrets
from collections.abc import Callable
from typing import Final

from opentela.core.errors import WireError
from opentela.core.record import Door as DoorOffer
from opentela.mesh import channel_port, channel_tls, identity
from opentela.mesh.channel import Channel
from opentela.mesh.identity import Identity
from opentela.mesh.seldom import Seldom
from opentela.service import SystemClock
from opentela.stream.greeting import DialledSession
from opentela.supervisor.channels import Channels
from opentela.supervisor.config import DoorConfig
from opentela.telemetry import log as logs
from opentela.telemetry import metrics
from opentela.wire import channel as wire

log: Final = logs.get_logger()

GREETINGS_MAX: Final = 256
"""Connections that have not yet proved anything; further ones are closed at once."""

_refused: Final = metrics.counter(
    "otela_supervisor_door_refused_total", "Connections to the door that failed."
)

Find = Callable[[str], Channels | None]
"""Returns the channels of a session of ours that takes requests; None when there is none."""


class Door:
    """Lets routers in while it is open.

    Attributes:
        offer: Where it is, for the claims of our sessions; None until it is open.
        refused: Connections that came to nothing so far.
    """

    def __init__(self, config: DoorConfig, *, provider: Identity) -> None:
        self.offer: DoorOffer | None = None
        self.refused = 0
        self.find: Find = lambda _: None
        self._config = config
        self._identity = provider
        self._certificate = ""
        self._greetings: dict[Channel, DialledSession] = {}
        self._waiting: dict[Channel, bytes] = {}
        self._server: asyncio.Server | None = None
        self._logs_refusal = Seldom()

    async def open(self) -> None:
        """Listen.

        Raises:
            PortInUseError: Somebody else listens there.
            ConfigError: The address is not one of this host.
        """
        port = await channel_port.listen(
            self._accept,
            self._config,
            field="door.address",
            name="opentela session",
            wall=SystemClock().wall(),
        )
        self._server, addresses, self._certificate = port
        token = channel_tls.host_token(self._identity.key)
        self.offer = DoorOffer(addresses=addresses, certificate=self._certificate, host=token)
        log.info("door_opened", addresses=addresses, tls=bool(self._certificate))

    def close(self) -> None:
        """Let nobody in any more; channels that were made stay."""
        if self._server is not None:
            self._server.close()
        for channel in tuple(self._greetings):
            channel.close("the door is closed")

    def announced(self, instance: str) -> None:
        """Let in who waits at the door as the router process *instance*."""
        for channel, proof in tuple(self._waiting.items()):
            hello = self._greetings[channel].hello
            if hello is not None and hello.instance == instance:
                try:
                    self._let_in(channel, proof)
                except WireError as error:
                    channel.close(str(error))

    # What a channel calls.

    def on_greeting(self, channel: Channel, payload: bytes) -> None:
        """Take a part of a router's greeting."""
        greeting = self._greetings[channel]
        if greeting.hello is None:
            channel.say(greeting.welcome(payload))
        elif channel in self._waiting:
            raise WireError("more than the greeting")
        else:
            self._let_in(channel, payload)

    def on_frame(self, channel: Channel, payload: bytes) -> None:
        """Do nothing: frames are told to the session's channels."""

    def on_congested(self, channel: Channel, *, congested: bool) -> None:
        """Do nothing: greetings are short."""

    def on_lost(self, channel: Channel, reason: str) -> None:
        """Note the end of a connection that came to nothing."""
        self._waiting.pop(channel, None)
        if self._greetings.pop(channel, None) is not None:
            self.refused += 1
            _refused.inc()
            if self._logs_refusal.now():
                log.warning("door_refused", reason=reason)

    # The rest.

    def _accept(self) -> Channel:
        channel = Channel(self)
        self._greetings[channel] = DialledSession(
            certificate=self._certificate,
            nonce=secrets.token_bytes(wire.NONCE_BYTES),
            sign=self._identity.sign,
            verify=identity.verify,
        )
        if len(self._greetings) > GREETINGS_MAX:
            asyncio.get_running_loop().call_soon(channel.close, "too many greetings at once")
        return channel

    def _let_in(self, channel: Channel, proof: bytes) -> None:
        greeting = self._greetings[channel]
        assert greeting.hello is not None
        channels = self.find(greeting.hello.session)
        if channels is None:
            raise WireError(f"no session {greeting.hello.session} here")
        router = channels.announced(greeting.hello.instance)
        if router is None:
            self._waiting[channel] = proof
            return
        accepted = greeting.accept(proof, router.key)
        self._waiting.pop(channel, None)
        channels.adopt(channel, router.asker)
        del self._greetings[channel]
        channel.say(accepted)
