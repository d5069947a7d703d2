"""Hub and leaves as one mesh: plain and encrypted, over TCP and websockets, in a chain, after a
crash."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.integration.mesh.proxy import Proxy

from opentela.core.errors import CredentialError, MeshUnavailableError
from opentela.core.ids import ProviderId, SessionId, SiteId
from opentela.mesh import nats_bus, server_conf, tls
from opentela.mesh.bus import Message
from opentela.mesh.listeners import TlsMode
from opentela.mesh.nats_bus import NatsBus
from opentela.testing.mesh import CLOCK, HUB, TestMesh, until
from opentela.wire import subjects
from opentela.wire.subjects import SessionPath

pytestmark = pytest.mark.nats


def path(provider: str, site: str) -> SessionPath:
    """Return a session of a provider at a site."""
    return SessionPath(ProviderId(provider), SiteId(site), SessionId("n"))


class Session:
    """Stands for a supervisor: answers every request with its own name."""

    def __init__(self, bus: NatsBus, where: SessionPath) -> None:
        self._bus = bus
        self._where = where
        self._answers = asyncio.Queue[Message]()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, bus: NatsBus, where: SessionPath) -> AsyncIterator["Session"]:
        """Serve requests until the end of the block."""
        self = cls(bus, where)
        await bus.subscribe(subjects.data(where), self._answers.put_nowait)
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(self._serve())
            yield self
            serving.cancel()

    async def _serve(self) -> None:
        while True:
            message = await self._answers.get()
            prefix, _, _ = message.reply.rpartition(".")
            await self._bus.publish(f"{prefix}.{self._where.session}", self._where.site.encode())


class Asker:
    """Stands for a router: sends requests, and tells an answer from nobody and from silence."""

    def __init__(self, bus: NatsBus, name: str) -> None:
        self._bus = bus
        self._name = name
        self._heard = asyncio.Queue[Message]()

    async def open(self) -> "Asker":
        """Subscribe to the answers."""
        await self._bus.subscribe(subjects.replies(self._name, "i"), self._heard.put_nowait)
        return self

    async def ask(self, where: SessionPath, *, timeout_s: float = 10.0) -> str:
        """Return what the session answers, `nobody`, or `silence`."""
        while not self._heard.empty():
            self._heard.get_nowait()
        reply = subjects.reply(self._name, where.provider, "i", "stream")
        await self._bus.publish(subjects.data(where), b"?", reply=reply)
        try:
            async with asyncio.timeout(timeout_s):
                return (await self._heard.get()).payload.decode() or "nobody"
        except TimeoutError:
            return "silence"

    async def until_answers(self, where: SessionPath, answer: str) -> None:
        """Return once the session answers so."""

        async def answers() -> bool:
            return await self.ask(where, timeout_s=0.2) == answer

        await until(answers)


async def asker(mesh: TestMesh, at: str, name: str = "router1") -> Asker:
    """Return a router at a server."""
    return await Asker(await mesh.bus(role="router", at=at, name=name), name).open()


@pytest.mark.parametrize("encryption", ["none", "auto"])
async def test_requests_cross_between_hub_and_leaves_both_ways(encryption: TlsMode) -> None:
    """Over TCP (a) and websocket (b), plainly and encrypted."""
    async with TestMesh(leaves=("a", "b"), websocket=("b",), tls=encryption) as mesh:
        sites = {HUB: path("h", "hub"), "a": path("p", "a"), "b": path("q", "b")}
        async with contextlib.AsyncExitStack() as stack:
            for at, where in sites.items():
                bus = await mesh.bus(role="provider", provider=where.provider, at=at)
                await stack.enter_async_context(Session.open(bus, where))
            for number, at in enumerate((HUB, "a"), start=1):
                router = await asker(mesh, at, f"router{number}")
                for where in sites.values():
                    await router.until_answers(where, where.site)
                    assert await router.ask(where) == where.site


async def test_nobody_listens_is_known_at_once_from_everywhere() -> None:
    """From a leaf about another leaf, and about a session that was just withdrawn or crashed."""
    async with TestMesh(leaves=("a", "b")) as mesh:
        router = await asker(mesh, "b")
        assert await router.ask(path("p", "a"), timeout_s=5) == "nobody"
        bus = await mesh.bus(role="provider", provider="p", at="a")
        async with Session.open(bus, path("p", "a")):
            await router.until_answers(path("p", "a"), "a")
        await bus.close()
        await router.until_answers(path("p", "a"), "nobody")


async def test_nobody_listens_is_known_when_a_leaf_server_dies() -> None:
    """The link's end is the end of all interest behind it."""
    async with TestMesh(leaves=("a",)) as mesh:
        router = await asker(mesh, HUB)
        bus = await mesh.bus(role="provider", provider="p", at="a")
        async with Session.open(bus, path("p", "a")):
            await router.until_answers(path("p", "a"), "a")
            await mesh.server("a").kill()
            await router.until_answers(path("p", "a"), "nobody")


async def test_a_leaf_link_that_is_half_open_is_given_up_by_both_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Packets vanish and nobody says so: silence becomes "nobody listens", and then an answer."""
    monkeypatch.setattr(server_conf, "PING_INTERVAL", "500ms")
    async with TestMesh() as mesh, Proxy.open(mesh.server().port("leaf")) as proxy:
        await mesh.add_leaf("a", port=proxy.port)
        router = await asker(mesh, HUB)
        bus = await mesh.bus(role="provider", provider="p", at="a")
        async with Session.open(bus, path("p", "a")):
            await router.until_answers(path("p", "a"), "a")
            proxy.freeze()
            assert await router.ask(path("p", "a"), timeout_s=0.1) == "silence"
            await router.until_answers(path("p", "a"), "nobody")
            assert bus.is_connected
            proxy.thaw()
            await router.until_answers(path("p", "a"), "a")


async def test_interest_behind_two_leaves_is_restored_when_the_middle_one_restarts() -> None:
    """Hub, leaf A, and leaf B that dials A: requests flow again end to end."""
    async with TestMesh(leaves=("a", "b"), behind={"b": "a"}) as mesh:
        router = await asker(mesh, HUB)
        bus = await mesh.bus(role="provider", provider="q", at="b")
        async with Session.open(bus, path("q", "b")):
            await router.until_answers(path("q", "b"), "b")
            await mesh.restart("a")
            await router.until_answers(path("q", "b"), "b")
            assert bus.is_connected


async def test_interest_is_restored_when_the_hub_restarts() -> None:
    """A router at the hub connects again and finds the session at its leaf."""
    async with TestMesh(leaves=("a",)) as mesh:
        router = await asker(mesh, HUB)
        bus = await mesh.bus(role="provider", provider="p", at="a")
        async with Session.open(bus, path("p", "a")):
            await router.until_answers(path("p", "a"), "a")
            await mesh.restart(HUB)
            await router.until_answers(path("p", "a"), "a")


async def test_a_site_goes_on_by_itself_while_the_hub_is_away() -> None:
    """A router and a session at one leaf do not need the hub."""
    async with TestMesh(leaves=("a",)) as mesh:
        router = await asker(mesh, "a")
        bus = await mesh.bus(role="provider", provider="p", at="a")
        async with Session.open(bus, path("p", "a")):
            await router.until_answers(path("p", "a"), "a")
            await mesh.server().kill()
            assert await router.ask(path("p", "a")) == "a"


async def test_a_client_comes_through_the_hubs_websocket() -> None:
    """With a certificate that it checks, as through a proxy that only lets HTTPS out."""
    async with TestMesh(tls="auto") as mesh:
        bus = await mesh.bus(role="provider", provider="p", websocket=True)
        router = await asker(mesh, HUB)
        async with Session.open(bus, path("p", "x")):
            await router.until_answers(path("p", "x"), "x")


async def test_a_server_with_a_certificate_of_another_authority_is_not_trusted() -> None:
    """Whoever stands in between has no certificate of the mesh's authority."""
    async with TestMesh(tls="auto") as mesh:
        access = mesh.access(role="router")
        other = tls.authority(name="other", now=CLOCK.wall()).certificate
        for server in (mesh.url(), mesh.server().websocket_url):
            wrong = msgspec.structs.replace(access, ca=other, servers=(server,))
            with pytest.raises((CredentialError, MeshUnavailableError), match="certificate"):
                await nats_bus.connect(wrong, name="x", timeout_s=3)


async def test_a_server_that_is_dialled_by_a_name_it_does_not_hold_is_not_trusted() -> None:
    """The certificate's names count, and the message says so."""
    async with TestMesh(tls="auto") as mesh:
        port = mesh.server().port("client")
        access = msgspec.structs.replace(
            mesh.access(role="router"), servers=(f"tls://127.1:{port}",)
        )
        with pytest.raises(CredentialError, match="cannot be trusted"):
            await nats_bus.connect(access, name="x", timeout_s=3)


async def test_encryption_cannot_be_talked_away() -> None:
    """A server that says "no TLS here" to a `tls://` client gets not one byte of credentials."""
    received = bytearray()

    async def downgrade(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"tls_required":false,"nonce":"x","auth_required":true}\r\n')
        with contextlib.suppress(ConnectionError):
            received.extend(await reader.read(65536))
        writer.close()

    async with TestMesh(tls="auto") as mesh:
        fake = await asyncio.start_server(downgrade, "127.0.0.1", 0)
        async with fake:
            port = fake.sockets[0].getsockname()[1]
            access = msgspec.structs.replace(
                mesh.access(role="router"), servers=(f"tls://127.0.0.1:{port}",)
            )
            with pytest.raises((MeshUnavailableError, CredentialError)):
                await nats_bus.connect(access, name="x", timeout_s=1)
    assert b"CONNECT" not in received
