"""A router's link, a mesh of real servers, a session's gateway, and an engine made of bytes."""

import asyncio
import contextlib
import random
from typing import Self, cast

from opentela.core.ids import ProviderId, SessionId, SiteId
from opentela.engine.pool import EngineAddress, EngineHttp
from opentela.mesh import data_client
from opentela.mesh.access import Access
from opentela.mesh.data_client import DataClient
from opentela.mesh.identity import Identity
from opentela.mesh.nats_wire import Message
from opentela.router.link import MeshLink
from opentela.router.link_stream import MeshStream
from opentela.stream.caller import CallerSettings
from opentela.supervisor.channels import Spawn
from opentela.supervisor.gateway import Gateway, GatewaySettings
from opentela.testing.mesh import HUB, TestMesh, until
from opentela.wire import subjects
from opentela.wire.frames import Fail, Headers, Timings
from opentela.wire.subjects import SessionPath

PATH = SessionPath(ProviderId("p"), SiteId("a"), SessionId("01JDSESSION"))
DONE_TIMEOUT_S = 60.0


class Recorder:
    """A sink that keeps what it is told; it takes data at once unless told to be slow."""

    def __init__(self, *, is_slow: bool = False) -> None:
        self.stream: MeshStream | None = None
        self.is_slow = is_slow
        self.told: list[str] = []
        self.status = 0
        self.headers: Headers = ()
        self.parts: list[bytes] = []
        self.timings: Timings | None = None
        self.failure: Fail | None = None
        self.done = asyncio.Event()

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)

    def on_ack(self) -> None:
        self.told.append("ack")

    def on_answer(self, status: int, headers: Headers, body: bytes, timings: Timings) -> None:
        self.told.append("answer")
        self.status, self.headers, self.timings = status, headers, timings
        self.parts.append(body)
        self.done.set()

    def on_head(self, status: int, headers: Headers) -> None:
        self.told.append("head")
        self.status, self.headers = status, headers

    def on_data(self, data: bytes) -> None:
        self.told.append("data")
        self.parts.append(data)
        if not self.is_slow and self.stream is not None:
            self.stream.consumed(len(data))

    def on_end(self, timings: Timings) -> None:
        self.told.append("end")
        self.timings = timings
        self.done.set()

    def on_fail(self, fail: Fail) -> None:
        self.told.append("fail")
        self.failure = fail
        self.done.set()

    async def wait(self) -> Self:
        async with asyncio.timeout(DONE_TIMEOUT_S):
            await self.done.wait()
        return self


class Fabric:
    """Everything between a router's link and an engine; closed in order."""

    def __init__(
        self, mesh: TestMesh, *, session_at: str, stack: contextlib.AsyncExitStack
    ) -> None:
        self.mesh = mesh
        self.session_at = session_at
        self.stack = stack
        self.link: MeshLink
        self.router_client: DataClient
        self.gateway: Gateway
        self.session_client: DataClient
        self.engine: EngineHttp

    @classmethod
    async def open(
        cls,
        mesh: TestMesh,
        engine: EngineAddress,
        stack: contextlib.AsyncExitStack,
        *,
        session_at: str = "a",
        router_at: str = HUB,
        caller: CallerSettings | None = None,
        gateway: GatewaySettings | None = None,
        api_key: str = "",
        provider: Identity | None = None,
        spawn: Spawn | None = None,
    ) -> "Fabric":
        self = cls(mesh, session_at=session_at, stack=stack)
        await self.open_link(caller, at=router_at)
        self.session_client = await self.client(
            mesh.access(role="provider", provider="p", at=session_at)
        )
        self.engine = EngineHttp(engine, api_key=api_key)
        stack.callback(self.engine.close)
        self.gateway = Gateway(
            self.session_client,
            PATH,
            self.engine,
            settings=gateway,
            provider=provider,
            spawn=spawn,
        )
        await self.gateway.start()
        stack.callback(self.gateway.stop)
        await self.reachable()
        return self

    async def open_link(
        self, settings: CallerSettings | None = None, *, at: str = HUB, seed: int = 1
    ) -> None:
        self.router_client = await self.client(self.mesh.access(role="router", at=at))
        self.link = MeshLink(
            self.router_client, role="router1", rng=random.Random(seed), settings=settings
        )
        await self.link.start()
        self.stack.callback(self.link.close)

    async def client(self, access: Access) -> DataClient:
        client = await data_client.connect(access, name="test")
        self.stack.push_async_callback(client.close)
        return client

    async def reachable(self, path: SessionPath = PATH) -> None:
        """Return once the mesh knows of the session: interest travels after a subscription."""
        gone: list[Message] = []
        sid = self.router_client.subscribe(
            subjects.replies("router1", "probe"), gone.append, on_no_responders=gone.append
        )

        async def is_heard() -> bool:
            before = len(gone)
            reply = subjects.reply("router1", path.provider, "probe", "0")
            self.router_client.publish(subjects.data(path), b"", reply)
            # What the nearest server says of it comes before the answer to the ping.
            await self.router_client.round_trip()
            return len(gone) == before

        await until(is_heard)
        self.router_client.unsubscribe(sid)

    def ask(
        self,
        body: bytes = b"{}",
        *,
        sink: Recorder | None = None,
        path: SessionPath = PATH,
        method: str = "POST",
        path_and_query: str = "/v1/completions",
        headers: Headers = (("content-type", "application/json"),),
        deadline_s: float = 0.0,
        trace: str = "",
    ) -> Recorder:
        sink = sink or Recorder()
        stream = self.link.open(
            path,
            method=method,
            path_and_query=path_and_query,
            headers=headers,
            body=body,
            deadline_s=deadline_s,
            trace=trace,
            sink=sink,
        )
        # A lent engine's is another, of which tests use what both have.
        sink.stream = cast("MeshStream", stream)
        return sink
