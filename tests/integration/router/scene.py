"""A router and sessions on a real mesh: hub, leaf, registry, gateways, engines made of bytes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

from tests.integration.data.raw_engine import RawEngine, Script
from tests.integration.registry.field import Field, new_owner
from tests.integration.router.raw import Raw

from opentela.core.record import Lifecycle
from opentela.engine.pool import EngineHttp
from opentela.mesh import data_client
from opentela.router.config import AttemptConfig, ListenConfig, RouterConfig
from opentela.router.shell import RouterShell
from opentela.service import Lifecycle as Process
from opentela.supervisor.gateway import Gateway
from opentela.testing.fake_session import FakeSession
from opentela.testing.mesh import TestMesh, until
from opentela.testing.owner import Owner
from opentela.view.config import ViewConfig

LEAF = "a"


class Session:
    """One session at the leaf: a voice, a gateway, an engine."""

    def __init__(
        self, owner: Owner, voice: FakeSession, gateway: Gateway, engine: RawEngine
    ) -> None:
        self.owner = owner
        self.voice = voice
        self.gateway = gateway
        self.engine = engine

    @property
    def id(self) -> str:
        """Its id."""
        return self.owner.claim.session

    async def leave(self) -> None:
        """Tell the mesh that it is over."""
        await self.voice.publish(self.owner.say(Lifecycle.LEFT))


class Scene:
    """What a test puts on the mesh; everything ends with its stack."""

    def __init__(self, field: Field, stack: AsyncExitStack) -> None:
        self.field = field
        self.stack = stack
        self.process = Process("router")
        self.router: RouterShell

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator["Scene"]:
        """Start a hub and a leaf."""
        async with AsyncExitStack() as stack:
            mesh = await stack.enter_async_context(TestMesh(leaves=(LEAF,)))
            yield cls(Field(mesh), stack)

    async def run_registry(self) -> None:
        """Run one beside the hub."""
        await self.stack.enter_async_context(self.field.registry())

    async def run_router(self, attempts: AttemptConfig | None = None) -> None:
        """Run one beside the hub."""
        config = RouterConfig(
            access="",
            policy="round_robin",
            listen=ListenConfig(address="127.0.0.1:0"),
            attempts=attempts or AttemptConfig(backoff_s=0.01),
            view=ViewConfig(repair_s=0.5, retry_s=0.05),
        )
        access = self.field.mesh.access(role="router")
        self.router = await self.stack.enter_async_context(
            RouterShell.open(self.process, config, access)
        )

    async def run_session(self, script: Script, *, models: tuple[str, ...] = ("m",)) -> Session:
        """Run one at the leaf; its owner speaks, and its engine does as *script* says."""
        owner = new_owner(site=LEAF, models=models)
        engine = await self.stack.enter_async_context(RawEngine(script))
        gateway, voice = await self.run_gateway(owner, EngineHttp(engine.address))
        return Session(owner, voice, gateway, engine)

    async def run_gateway(self, owner: Owner, http: EngineHttp) -> tuple[Gateway, FakeSession]:
        """Run what a supervisor runs beside any engine, and speak for it."""
        access = self.field.mesh.access(role="provider", provider="p", at=LEAF)
        client = await self.stack.enter_async_context(
            await data_client.connect(access, name="session")
        )
        self.stack.callback(http.close)
        gateway = Gateway(client, owner.path, http)
        await gateway.start()
        self.stack.callback(gateway.stop)
        voice = await self.stack.enter_async_context(self.field.session(owner, at=LEAF))
        return gateway, voice

    async def serving(self, *sessions: Session) -> None:
        """Return once the router would route to exactly these."""
        expected = sorted(session.id for session in sessions)
        await until(lambda: sorted(self.live()) == expected)

    def live(self) -> list[str]:
        """Return the sessions that the router would route the model `m` to."""
        front = self.router._front
        assert front is not None
        return [one.session for one in front.directory.pool("m").candidates]

    async def client(self) -> Raw:
        """Return a new connection to the router."""
        where = urlsplit(self.router.url)
        raw = Raw(*await asyncio.open_connection(where.hostname, where.port, limit=1 << 20))
        self.stack.push_async_callback(raw.close)
        return raw
