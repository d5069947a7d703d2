"""The thin client of the mesh against real servers: how it connects, is lost and comes back."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from opentela.core.errors import CredentialError, MeshUnavailableError
from opentela.mesh import data_client
from opentela.mesh.access import Access
from opentela.mesh.data_client import DataClient
from opentela.mesh.keeper import BusState
from opentela.mesh.nats_wire import Message
from opentela.testing.mesh import HUB, TestMesh, until

pytestmark = pytest.mark.nats

MINE = "otela.v1.data.p.a.n"
"""A provider of the tests hears this, a router may say it."""
ANSWERS = "otela.v1.reply.router1.i.>"


class Watch:
    """What a client tells of its connection."""

    def __init__(self, client: DataClient) -> None:
        self.seen: list[str] = []
        client.watch(self)

    def on_mesh(self, *, connected: bool) -> None:
        self.seen.append("connected" if connected else "lost")

    def on_congested(self, *, congested: bool) -> None:
        self.seen.append("congested" if congested else "clear")


@pytest.fixture
async def stack() -> AsyncIterator[contextlib.AsyncExitStack]:
    async with contextlib.AsyncExitStack() as stack:
        yield stack


async def joined(stack: contextlib.AsyncExitStack, access: Access) -> DataClient:
    return await stack.enter_async_context(await data_client.connect(access, name="test"))


async def pair(
    stack: contextlib.AsyncExitStack, mesh: TestMesh, *, websocket: bool = False
) -> tuple[DataClient, DataClient, list[Message]]:
    """A router's client, a provider's, and what the provider hears."""
    router = await joined(stack, mesh.access(role="router", websocket=websocket))
    provider = await joined(stack, mesh.access(role="provider", websocket=websocket))
    heard: list[Message] = []
    provider.subscribe(MINE, heard.append)
    await provider.round_trip()
    return router, provider, heard


@pytest.mark.parametrize("tls", ["none", "auto"])
@pytest.mark.parametrize("websocket", [False, True])
async def test_messages_arrive_in_order_over_every_way_in(
    stack: contextlib.AsyncExitStack, tls: str, *, websocket: bool
) -> None:
    """TCP, TLS, websocket and websocket in TLS; small and large, many in one turn of the loop."""
    mesh = await stack.enter_async_context(TestMesh(tls=tls))  # type: ignore[arg-type]
    router, _, heard = await pair(stack, mesh, websocket=websocket)
    sent = [bytes([index % 256]) * size for index, size in enumerate((0, 1, 100, 70_000) * 40)]
    for payload in sent:
        assert router.publish(MINE, payload, "otela.v1.reply.router1.i.p.n")
    await until(lambda: len(heard) == len(sent))
    assert [message.payload for message in heard] == sent
    assert heard[0].reply == "otela.v1.reply.router1.i.p.n"


async def test_a_server_that_turns_to_tls_after_its_greeting_is_followed(
    stack: contextlib.AsyncExitStack,
) -> None:
    """As servers do whose clients dial `nats://`."""
    mesh = await stack.enter_async_context(TestMesh(tls="auto"))
    access = mesh.access(role="router")
    plain = Access(
        name=access.name,
        role=access.role,
        servers=tuple(url.replace("tls://", "nats://") for url in access.servers),
        credentials=access.credentials,
        ca=access.ca,
    )
    client = await joined(stack, plain)
    await client.round_trip()


async def test_a_certificate_of_somebody_else_is_refused(stack: contextlib.AsyncExitStack) -> None:
    """With the reason, and without a word of ours sent."""
    mesh = await stack.enter_async_context(TestMesh(tls="auto"))
    access = mesh.access(role="router")
    trusting = Access(
        name=access.name, role=access.role, servers=access.servers, credentials=access.credentials
    )
    with pytest.raises(CredentialError, match="certificate"):
        await data_client.connect(trusting, name="test")


async def test_foreign_credentials_are_refused(stack: contextlib.AsyncExitStack) -> None:
    """At once, in words that say what to do."""
    mesh = await stack.enter_async_context(TestMesh())
    other = await stack.enter_async_context(TestMesh())
    access = mesh.access(role="router")
    foreign = Access(
        name="x",
        role="router",
        servers=access.servers,
        credentials=other.access(role="router").credentials,
    )
    with pytest.raises(CredentialError, match="refuses router x: authorization violation"):
        await data_client.connect(foreign, name="test")


async def test_nobody_there_is_said_after_the_time_out(stack: contextlib.AsyncExitStack) -> None:
    """With the server that does not answer."""
    mesh = await stack.enter_async_context(TestMesh())
    access = mesh.access(role="router")
    await mesh.server(HUB).kill()
    with pytest.raises(MeshUnavailableError, match="does not answer"):
        await data_client.connect(access, name="test", timeout_s=1.5)


async def test_no_responders_comes_back_by_itself(stack: contextlib.AsyncExitStack) -> None:
    """On the subject that was given for the answer, to its own callback."""
    mesh = await stack.enter_async_context(TestMesh())
    router = await joined(stack, mesh.access(role="router"))
    answers: list[Message] = []
    nobody: list[Message] = []
    router.subscribe(ANSWERS, answers.append, on_no_responders=nobody.append)
    router.publish(MINE, b"x", "otela.v1.reply.router1.i.p.7")
    await until(lambda: len(nobody) == 1)
    assert nobody[0].subject == "otela.v1.reply.router1.i.p.7"
    assert answers == []


async def test_an_exception_of_a_callback_ends_there(stack: contextlib.AsyncExitStack) -> None:
    """It is logged; the connection and other callbacks go on."""
    mesh = await stack.enter_async_context(TestMesh())
    router, provider, heard = await pair(stack, mesh)
    watch = Watch(provider)

    def fail(_: Message) -> None:
        raise RuntimeError("a bug above")

    provider.subscribe(MINE, fail)
    await provider.round_trip()
    with capture_logs() as logs:
        router.publish(MINE, b"x")
        router.publish(MINE, b"y")
        await until(lambda: len(logs) == 2)
    assert {entry["event"] for entry in logs} == {"mesh_handler_failed"}
    assert [message.payload for message in heard] == [b"x", b"y"]
    assert watch.seen == []


async def test_what_was_withdrawn_is_heard_no_more(stack: contextlib.AsyncExitStack) -> None:
    """From the call on."""
    mesh = await stack.enter_async_context(TestMesh())
    router, provider, heard = await pair(stack, mesh)
    again: list[Message] = []
    sid = provider.subscribe(MINE, again.append)
    await provider.round_trip()
    provider.unsubscribe(sid)
    provider.unsubscribe(sid)
    router.publish(MINE, b"x")
    await until(lambda: len(heard) == 1)
    assert again == []


async def test_what_may_not_be_said_is_counted_and_harms_nothing(
    stack: contextlib.AsyncExitStack,
) -> None:
    """The server refuses the subject, not the connection."""
    mesh = await stack.enter_async_context(TestMesh())
    router, _, heard = await pair(stack, mesh)
    with capture_logs() as logs:
        router.publish("otela.v1.delta.p.a.n", b"forged")
        router.publish(MINE, b"x")
        await until(lambda: len(heard) == 1 and len(logs) == 1)
    assert logs[0]["event"] == "mesh_permission_denied"
    assert router.is_connected


async def test_a_server_that_restarts_is_joined_again(stack: contextlib.AsyncExitStack) -> None:
    """Publishing meanwhile says no; every subscription is there again afterwards."""
    mesh = await stack.enter_async_context(TestMesh())
    router, provider, heard = await pair(stack, mesh)
    states: list[BusState] = []
    told = await stack.enter_async_context(
        await data_client.connect(
            mesh.access(role="router", name="router2"),
            name="test",
            on_state=lambda state, _: states.append(state),
        )
    )
    watch = Watch(provider)
    await mesh.server(HUB).kill()
    await until(lambda: not router.is_connected and not provider.is_connected)
    assert not router.publish(MINE, b"lost")
    with pytest.raises(MeshUnavailableError):
        await router.round_trip()
    await mesh.restart(HUB)
    await until(lambda: router.is_connected and provider.is_connected and told.is_connected)
    assert router.publish(MINE, b"back")
    await until(lambda: len(heard) == 1)
    assert heard[0].payload == b"back"
    assert watch.seen == ["lost", "connected"]
    assert states == [BusState.CONNECTED, BusState.DISCONNECTED, BusState.CONNECTED]


async def test_the_next_server_of_the_list_takes_over(stack: contextlib.AsyncExitStack) -> None:
    """When the first does not answer."""
    mesh = await stack.enter_async_context(TestMesh(leaves=("a",)))
    access = mesh.access(role="router")
    both = Access(
        name=access.name,
        role=access.role,
        servers=(mesh.url("a"), mesh.url()),
        credentials=access.credentials,
    )
    client = await joined(stack, both)
    await mesh.server("a").kill()
    await until(lambda: not client.is_connected)
    await until(lambda: client.is_connected)
    await client.round_trip()


async def test_a_frozen_server_is_noticed_by_its_silence(stack: contextlib.AsyncExitStack) -> None:
    """Some three pings; TCP alone would wait for minutes."""
    mesh = await stack.enter_async_context(TestMesh())
    client = await joined(stack, mesh.access(role="router"))
    mesh.server(HUB).send(signal.SIGSTOP)
    try:
        await until(lambda: not client.is_connected)
    finally:
        mesh.server(HUB).send(signal.SIGCONT)
    await until(lambda: client.is_connected)


async def test_a_link_that_takes_nothing_is_told_and_bounded(
    stack: contextlib.AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First whoever produces is told; then nothing more is taken."""
    monkeypatch.setattr("opentela.mesh.data_connection.UNSENT_BYTES_MAX", 4 << 20)
    mesh = await stack.enter_async_context(TestMesh())
    client = await joined(stack, mesh.access(role="router"))
    watch = Watch(client)
    mesh.server(HUB).send(signal.SIGSTOP)
    try:
        taken = 0
        while client.publish(MINE, bytes(1 << 19)):
            taken += 1
            await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        assert client.is_congested
        assert 8 <= taken <= 64
    finally:
        mesh.server(HUB).send(signal.SIGCONT)
    await until(lambda: not client.is_congested)
    assert watch.seen[:2] == ["congested", "clear"]
    assert client.is_connected
    assert client.publish(MINE, b"x")


async def test_a_message_larger_than_the_mesh_carries_is_not_taken(
    stack: contextlib.AsyncExitStack,
) -> None:
    """The server would close the connection, and every stream with it."""
    mesh = await stack.enter_async_context(TestMesh())
    router, _, heard = await pair(stack, mesh)
    assert not router.publish(MINE, bytes((1 << 20) + 1))
    assert router.publish(MINE, bytes(1 << 20))
    await until(lambda: len(heard) == 1)


async def test_leaving_sends_what_was_published(stack: contextlib.AsyncExitStack) -> None:
    """Also in the very turn of the loop in which it leaves; twice does no harm."""
    mesh = await stack.enter_async_context(TestMesh())
    router, _, heard = await pair(stack, mesh)
    router.publish(MINE, b"last")
    await router.close()
    await router.close()
    await until(lambda: len(heard) == 1)
    assert not router.publish(MINE, b"later")


async def test_what_does_not_speak_nats_is_not_a_server(stack: contextlib.AsyncExitStack) -> None:
    """A port of something else is named as such."""
    mesh = await stack.enter_async_context(TestMesh())

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        writer.close()

    server = await stack.enter_async_context(await asyncio.start_server(greet, "127.0.0.1", 0))
    port = server.sockets[0].getsockname()[1]
    for scheme in ("nats", "ws"):
        access = mesh.access(role="router")
        wrong = Access(
            name=access.name,
            role=access.role,
            servers=(f"{scheme}://127.0.0.1:{port}",),
            credentials=access.credentials,
        )
        with pytest.raises(MeshUnavailableError, match="does not answer"):
            await data_client.connect(wrong, name="test", timeout_s=1.5)
