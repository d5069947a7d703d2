"""A router's link and one session, and whatever carries the frames between them."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import msgspec
from tests.integration.data.fabric import PATH, Fabric
from tests.integration.data.raw_engine import RawEngine, RawRequest

from opentela.core.ids import NodeId
from opentela.core.record import Claim, Lifecycle, Offer
from opentela.core.record import Door as DoorOffer
from opentela.mesh import channel_tls
from opentela.mesh.channel import Channel
from opentela.mesh.identity import Identity
from opentela.router.config import DirectConfig, HomeConfig
from opentela.router.dialler import Dialler
from opentela.router.home_port import HomePort
from opentela.stream.caller import CallerSettings
from opentela.supervisor.config import DoorConfig
from opentela.supervisor.door import Door
from opentela.supervisor.gateway import GatewaySettings
from opentela.tasks import Tasks
from opentela.testing.mesh import TestMesh, until

CHANNELS: Final = ("home", "home, tls", "direct", "direct, tls")
LOANS: Final = ("home, lent", "direct, lent")
"""Where a channel stands and the engine is lent over it."""
WAYS: Final = ("mesh", *CHANNELS, "direct, lent")
"""All that carries requests: every contract of a stream holds over each."""

Work = Callable[[RawRequest], Awaitable[None]]


async def echo(request: RawRequest) -> None:
    """Answer with the body."""
    request.answer(request.body)


async def digest(request: RawRequest) -> None:
    """Answer with what is left of a large body."""
    request.answer(hashlib.sha256(request.body).hexdigest().encode())


async def hang(request: RawRequest) -> None:
    """Never answer."""
    await request.gone()


class Scene:
    """A router that dials or can be dialled, and one session.

    Attributes:
        port: Where the session dials the router.
        door: Where the router dials the session; None when it does not.
        dialler: What dials it.
        key: The session's own.
        router: The router's.
    """

    def __init__(
        self, fabric: Fabric, engine: RawEngine, tasks: Tasks, *, key: Identity, way: str
    ) -> None:
        self.fabric = fabric
        self.engine = engine
        self.tasks = tasks
        self.key = key
        self.way = way
        self.router = Identity.new()
        self.port: HomePort
        self.door: Door | None = None
        self.dialler: Dialler

    @property
    def channel(self) -> Channel | None:
        """The channel that the link uses, if there is one."""
        return self.fabric.link._channels.get(PATH)

    @property
    def address(self) -> tuple[str, int]:
        """Where the listening end of channels is dialled."""
        server = (self.door or self.port)._server
        assert server is not None
        host, port = server.sockets[0].getsockname()[:2]
        return host, port

    @property
    def refused(self) -> int:
        """Connections to the listening end that came to nothing."""
        return (self.door or self.port).refused

    async def _connected(self) -> Channel | None:
        """Wait for the channel, and for what is lent over it."""
        await until(lambda: self.channel is not None)
        if self.way in LOANS:
            await until(lambda: PATH in self.fabric.link.loans._open)
        return self.channel

    async def connect(self) -> Channel | None:
        """Wait for the channel if there is to be one, without a request; return it."""
        if self.way == "mesh":
            return None
        link = self.fabric.link
        link._seek_channel(PATH)
        return await self._connected()

    async def settle(self) -> Channel | None:
        """Ask once, and wait for the channel if there is to be one; return it."""
        await self.fabric.ask().wait()
        if self.way == "mesh":
            return None
        return await self._connected()

    async def open(self, stack: AsyncExitStack, *, known: str = "") -> None:
        """Open what listens for channels; the router takes *known* for the session's key."""
        known = known or self.key.key
        if self.way in LOANS:
            self.fabric.link.loans.start()
        if self.way.startswith("home"):
            await self.open_port(stack, known=known)
        elif self.way.startswith("direct"):
            await self.open_door(stack, known=known)

    async def open_port(self, stack: AsyncExitStack, *, known: str) -> None:
        """Let the session dial the router."""
        self.port = HomePort(
            HomeConfig(address="127.0.0.1:0", tls=_tls(self.way)),
            self.fabric.link,
            router=self.router,
            find=lambda name: (PATH, known) if name == PATH.session else None,
        )
        await self.port.start()
        stack.push_async_callback(self.port.close)

    async def open_door(self, stack: AsyncExitStack, *, known: str) -> None:
        """Let the router dial the session."""
        door = self.door = Door(
            DoorConfig(address="127.0.0.1:0", tls=_tls(self.way)), provider=self.key
        )
        await door.open()
        stack.callback(door.close)
        channels = self.fabric.gateway.channels
        assert channels is not None
        channels.on_announced = door.announced
        door.find = lambda name: channels if name == PATH.session else None
        assert door.offer is not None
        # As a provider of this host would say it that claims under the other key.
        token = channel_tls.host_token(known)
        self.dial(msgspec.structs.replace(door.offer, host=token), known=known)
        stack.callback(self.dialler.close)

    def dial(self, offer: DoorOffer | None, *, known: str, router: Identity | None = None) -> None:
        """Have the link's sessions dialled where *offer* says."""
        claim = Claim(
            session=PATH.session,
            provider=PATH.provider,
            site=PATH.site,
            node=NodeId("n"),
            key=known,
            nonce=b"",
            born_at_ms=0,
            incarnation=1,
            lifecycle=Lifecycle.SERVING,
            offer=Offer(door=offer),
        )
        self.dialler = Dialler(
            DirectConfig(),
            self.fabric.link,
            router=router or self.router,
            claim_of=lambda path: claim if path == PATH else None,
            spawn=self.tasks.spawn,
        )
        self.dialler.start()


def gateway_of(way: str, settings: GatewaySettings | None = None) -> GatewaySettings:
    """Return *settings* so that the engine is lent where *way* says so."""
    return msgspec.structs.replace(settings or GatewaySettings(), lends_engine=way in LOANS)


def _tls(way: str) -> Any:
    return "on" if way.endswith("tls") else "off"


@asynccontextmanager
async def scene(
    work: Work,
    way: str = "home",
    *,
    known: Identity | None = None,
    caller: CallerSettings | None = None,
    gateway: GatewaySettings | None = None,
    api_key: str = "",
) -> AsyncIterator[Scene]:
    """Yield everything between the router's link and an engine, over one kind of carrier.

    Args:
        work: The engine.
        way: One of `WAYS`.
        known: The key that the session's claim bears; its own when None.
        caller: Time-outs of the router's half.
        gateway: Limits of the session; those of *way* when None.
        api_key: What the engine asks for.
    """
    async with AsyncExitStack() as stack:
        mesh = await stack.enter_async_context(TestMesh(leaves=("a",)))
        engine = await stack.enter_async_context(RawEngine(work))
        tasks = await stack.enter_async_context(Tasks())
        key = Identity.new()
        fabric = await Fabric.open(
            mesh,
            engine.address,
            stack,
            caller=caller,
            gateway=gateway or gateway_of(way),
            api_key=api_key,
            provider=key,
            spawn=tasks.spawn,
        )
        made = Scene(fabric, engine, tasks, key=key, way=way)
        await made.open(stack, known=(known or key).key)
        yield made
