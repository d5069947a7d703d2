"""A session calls home, and its requests then pass no server of the mesh."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from tests.integration.data.fabric import PATH, Fabric
from tests.integration.data.raw_engine import RawEngine, RawRequest

from opentela.mesh.channel import Channel
from opentela.mesh.identity import Identity
from opentela.router.config import HomeConfig
from opentela.router.home_port import HomePort
from opentela.supervisor.gateway import Gateway
from opentela.tasks import Tasks
from opentela.testing.mesh import TestMesh, until
from opentela.wire.frames import FailKind, Invite

pytestmark = pytest.mark.nats

MIB = 1 << 20


async def echo(request: RawRequest) -> None:
    """Answer with the body."""
    request.answer(request.body)


async def digest(request: RawRequest) -> None:
    """Answer with what is left of a large body."""
    request.answer(hashlib.sha256(request.body).hexdigest().encode())


async def hang(request: RawRequest) -> None:
    """Never answer."""
    await request.gone()


class Home:
    """A router that can be dialled, and one session that may be invited."""

    def __init__(self, fabric: Fabric, port: HomePort, engine: RawEngine) -> None:
        self.fabric = fabric
        self.port = port
        self.engine = engine

    @property
    def channel(self) -> Channel | None:
        """The channel that the link uses, if there is one."""
        return self.fabric.link._channels.get(PATH)

    async def settle(self) -> Channel:
        """Ask until the session has called home; return its channel."""
        await self.fabric.ask().wait()
        await until(lambda: self.channel is not None)
        assert self.channel is not None
        return self.channel


@asynccontextmanager
async def home(
    work: Callable[[RawRequest], Awaitable[None]],
    *,
    tls: Any = "off",
    session: Identity | None = None,
    known: Identity | None = None,
) -> AsyncIterator[Home]:
    """Yield everything between the router's link and an engine, with a home port."""
    async with AsyncExitStack() as stack:
        mesh = await stack.enter_async_context(TestMesh(leaves=("a",)))
        engine = await stack.enter_async_context(RawEngine(work))
        tasks = await stack.enter_async_context(Tasks())
        fabric = await Fabric.open(mesh, engine.address, stack)
        fabric.gateway.stop()
        key = session or Identity.new()
        fabric.gateway = Gateway(
            fabric.session_client, PATH, fabric.engine, provider=key, spawn=tasks.spawn
        )
        await fabric.gateway.start()
        stack.callback(fabric.gateway.stop)
        await fabric.reachable()
        port = HomePort(
            HomeConfig(address="127.0.0.1:0", tls=tls),
            fabric.link,
            router=Identity.new(),
            find=lambda name: (PATH, (known or key).key) if name == PATH.session else None,
        )
        await port.start()
        stack.push_async_callback(port.close)
        yield Home(fabric, port, engine)


def mesh_frames(fabric: Fabric) -> list[bytes]:
    """Return what the link publishes on the mesh from now on, as it comes."""
    sent: list[bytes] = []
    publish = fabric.router_client.publish

    def noted(subject: str, payload: bytes, reply: str = "") -> bool:
        sent.append(payload)
        return publish(subject, payload, reply)

    fabric.router_client.publish = noted  # type: ignore[method-assign]
    return sent


@pytest.mark.parametrize("tls", ["off", "on"])
async def test_requests_take_the_channel_once_there_is_one(tls: str) -> None:
    """Nothing of them passes the mesh, large bodies included."""
    async with home(digest, tls=tls) as scene:
        await scene.settle()
        sent = mesh_frames(scene.fabric)
        body = bytes(range(256)) * (4 * MIB // 256)
        answer = await scene.fabric.ask(body).wait()
        assert answer.body == hashlib.sha256(body).hexdigest().encode()
        assert sent == []
        assert scene.fabric.link.in_flight == scene.fabric.gateway.in_flight == 0


async def test_a_request_in_between_takes_the_mesh() -> None:
    """The first one does not wait for the session's call."""
    async with home(echo) as scene:
        assert scene.channel is None
        answer = await scene.fabric.ask(b"first").wait()
        assert answer.body == b"first"


@pytest.mark.parametrize("tls", ["off", "on"])
async def test_who_cannot_prove_to_be_the_session_gets_no_channel(tls: str) -> None:
    """It is answered over the mesh, where its permissions are its proof."""
    async with home(echo, tls=tls, known=Identity.new()) as scene:
        await scene.fabric.ask().wait()
        await until(lambda: scene.port.refused == 1)
        assert scene.channel is None
        assert (await scene.fabric.ask(b"again").wait()).body == b"again"


async def test_a_session_proves_nothing_to_who_did_not_invite_it() -> None:
    """The invitation names the router's key; another one that listens there is left."""
    async with home(echo) as scene:
        port = scene.port._server
        assert port is not None
        address = f"127.0.0.1:{port.sockets[0].getsockname()[1]}"
        scene.fabric.link.invite(Invite(0, (address,), Identity.new().key))
        await scene.fabric.ask().wait()
        await until(lambda: scene.port.refused == 1)
        assert scene.channel is None


async def test_an_engine_is_stopped_over_the_channel() -> None:
    """Cancellation goes the way of the request."""
    async with home(hang) as scene:
        first = scene.fabric.ask()
        await until(lambda: scene.channel is not None)
        asked = scene.fabric.ask()
        await until(lambda: len(scene.engine.requests) == 2)
        for one in (first, asked):
            assert one.stream is not None
            one.stream.cancel("the client left")
        await until(lambda: scene.fabric.gateway.in_flight == 0)


async def test_what_a_lost_channel_carried_fails_and_the_next_request_takes_the_mesh() -> None:
    """Both ends know; the engine is stopped; then the session is invited again."""
    async with home(hang) as scene:
        first = scene.fabric.ask()
        await until(lambda: scene.channel is not None)
        channel = scene.channel
        asked = scene.fabric.ask()
        await until(lambda: len(scene.engine.requests) == 2)
        assert channel is not None
        channel.close("the test cut it")
        await asked.wait()
        assert asked.failure is not None
        assert (asked.failure.kind, asked.failure.retryable) == (FailKind.CHANNEL_LOST, True)
        assert not asked.failure.definite
        await until(lambda: scene.fabric.gateway.in_flight == 1)
        assert first.failure is None, "what the mesh carries goes on"
        assert scene.channel is None


async def test_rubbish_on_the_port_ends_the_connection_and_nothing_else() -> None:
    """Scanners, browsers, and who says hello and falls silent."""
    async with home(echo) as scene:
        server = scene.port._server
        assert server is not None
        host, port = server.sockets[0].getsockname()[:2]
        for words in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\0\0\0\x01\xc1", b""):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(words)
            async with asyncio.timeout(10):
                assert await reader.read() == b""
            writer.close()
        assert scene.port._greetings == {}
        assert (await scene.settle()).peer == PATH.session


async def test_a_session_that_dials_again_replaces_its_channel() -> None:
    """What the older one carried fails; there is never a second."""
    async with home(echo) as scene:
        before = await scene.settle()
        scene.fabric.link.attach(PATH, after := Channel(scene.port))
        assert scene.channel is after
        assert not before.publish(b"late")
        after.close("done")
