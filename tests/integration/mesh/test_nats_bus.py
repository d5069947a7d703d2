"""The bus of a real mesh when the mesh is not well."""

import asyncio
import contextlib
import random
from typing import Any

import msgspec
import pytest
import uvloop
from prometheus_client import Counter
from tests.integration.mesh.proxy import Proxy

from opentela.core.errors import CredentialError, MeshUnavailableError, WireError
from opentela.mesh import nats_bus, nats_connection
from opentela.mesh.access import Access
from opentela.mesh.bus import Message
from opentela.mesh.keeper import BusState
from opentela.mesh.nats_bus import NatsBus
from opentela.telemetry import metrics
from opentela.testing.mesh import HUB, TestMesh, until

pytestmark = pytest.mark.nats

VERDICT = "otela.v1.verdict.p.s.n"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a silent link dead after 0.6 s instead of 6 s."""
    monkeypatch.setattr(nats_connection, "PING_EVERY_S", 0.2)


def dropped(reason: str) -> float:
    """Return how many messages were dropped so far."""
    counter = metrics.counter("otela_mesh_messages_dropped_total", "", ("reason",))
    assert isinstance(counter, Counter)
    return float(counter.labels(reason)._value.get())


def via(access: Access, *ports: int) -> Access:
    """Return *access* dialling other ports of loopback."""
    return msgspec.structs.replace(
        access, servers=tuple(f"nats://127.0.0.1:{port}" for port in ports)
    )


async def until_it_hears(bus: NatsBus, got: list[Message]) -> None:
    """Return once what *bus* publishes comes back."""
    got.clear()

    async def heard() -> bool:
        await bus.publish(VERDICT, b"x")
        return bool(got)

    await until(heard)


async def test_subscriptions_outlive_a_server() -> None:
    """A restart of the server is a pause."""
    async with TestMesh() as mesh:
        states: list[BusState] = []
        access = mesh.access(role="registry")
        got: list[Message] = []
        async with await nats_bus.connect(
            access, name="r", on_state=lambda state, _: states.append(state), rng=random.Random(1)
        ) as bus:
            await bus.subscribe("otela.v1.verdict.>", got.append)
            await until_it_hears(bus, got)
            await mesh.restart(HUB)
            await until_it_hears(bus, got)
        assert states == [
            BusState.CONNECTED,
            BusState.DISCONNECTED,
            BusState.CONNECTED,
            BusState.CLOSED,
        ]


async def test_without_a_server_messages_are_dropped_and_counted_and_requests_fail() -> None:
    """Nothing waits, nothing is kept to be old news later."""
    async with TestMesh() as mesh:
        bus = await mesh.bus(role="registry")
        got: list[Message] = []
        kept = await bus.subscribe("otela.v1.verdict.>", got.append)
        await mesh.server().kill()
        await until(lambda: not bus.is_connected)
        before = dropped("disconnected")
        await bus.publish(VERDICT, b"old")
        assert dropped("disconnected") == before + 1
        with pytest.raises(MeshUnavailableError, match="no connection"):
            await bus.request("otela.v1.snapshot", b"x", timeout_s=60)
        # What changes meanwhile holds afterwards.
        await kept.unsubscribe()
        late: list[Message] = []
        await bus.subscribe(VERDICT, late.append)
        await mesh.start_again(HUB)
        await until_it_hears(bus, late)
        assert got == []
        assert b"old" not in {message.payload for message in late}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("backlog", [0, 4_000_000])
async def test_a_half_open_link_is_given_up_for_the_next_server(backlog: int) -> None:
    """Also with bytes unsent, for which TCP alone would wait a quarter of an hour."""
    async with TestMesh(leaves=("a",)) as mesh, Proxy.open(mesh.server().port("client")) as proxy:
        access = mesh.access(role="registry")
        async with await nats_bus.connect(
            via(access, proxy.port, mesh.server("a").port("client")), name="r"
        ) as bus:
            got: list[Message] = []
            await bus.subscribe(VERDICT, got.append)
            proxy.freeze()
            for _ in range(backlog // 100_000):
                await bus.publish(VERDICT, bytes(100_000))
            await until(lambda: not bus.is_connected, timeout_s=30)
            await until_it_hears(bus, got)
        assert asyncio.all_tasks() - {asyncio.current_task()} == proxy_tasks()


def proxy_tasks() -> set[asyncio.Task[object]]:
    """Return the tasks of the proxies of this test."""
    return {task for task in asyncio.all_tasks() if "roxy" in repr(task.get_coro())}


async def test_a_congested_link_drops_instead_of_blocking() -> None:
    """A heartbeat must not wait behind a link that takes nothing."""
    async with TestMesh() as mesh, Proxy.open(mesh.server().port("client")) as proxy:
        access = via(mesh.access(role="registry"), proxy.port)
        bus = await mesh.adopt(await nats_bus.connect(access, name="r"))
        proxy.freeze()
        before = dropped("congested")
        # Long before the server would be missed for its silence, which ends the wait as well.
        async with asyncio.timeout(5):
            for _ in range(300):
                await bus.publish(VERDICT, bytes(100_000))
        assert dropped("congested") > before


async def test_a_bus_leaves_no_task_behind() -> None:
    """Closed in order, or after its server went away."""
    async with TestMesh() as mesh:
        mine = asyncio.all_tasks()
        for is_lost in (False, True):
            bus = await nats_bus.connect(mesh.access(role="registry"), name="r")
            await bus.subscribe(VERDICT, lambda _: None)
            with contextlib.suppress(MeshUnavailableError):
                await bus.request("otela.v1.snapshot", b"x", timeout_s=1)
            if is_lost:
                await mesh.server().kill()
                await until(lambda bus=bus: not bus.is_connected)
            await bus.close()
            assert asyncio.all_tasks() == mine


async def test_a_request_fails_when_its_connection_ends() -> None:
    """Not only when its time-out has passed."""
    async with TestMesh() as mesh:
        asked: list[Message] = []
        other = await mesh.bus(role="registry", name="registry2")
        await other.subscribe("otela.v1.snapshot", asked.append)
        bus = await mesh.bus(role="router")
        async with asyncio.TaskGroup() as tasks:

            async def ask() -> None:
                with pytest.raises(MeshUnavailableError, match="no answer"):
                    await bus.request("otela.v1.snapshot", b"x", timeout_s=60)

            tasks.create_task(ask())
            await until(lambda: bool(asked))
            await mesh.server().kill()


async def test_the_next_server_is_taken_when_the_first_is_down() -> None:
    """In the order of the access file."""
    async with TestMesh() as mesh:
        access = via(mesh.access(role="registry"), 1, mesh.server().port("client"))
        async with await nats_bus.connect(access, name="r") as bus:
            assert bus.is_connected


async def test_nobody_there_is_one_clear_line() -> None:
    """Which server, and what to look at."""
    async with TestMesh() as mesh:
        access = via(mesh.access(role="registry"), 1)
        with pytest.raises(MeshUnavailableError) as caught:
            await nats_bus.connect(access, name="r", timeout_s=1.5)
        assert "nats://127.0.0.1:1 does not answer" in caught.value.line()
        assert "check that the hub or leaf runs" in caught.value.line()
        assert "\n" not in caught.value.line()


async def test_a_first_connection_waits_for_a_mesh_that_is_not_up_yet() -> None:
    """A job that starts before its leaf need not die."""
    async with TestMesh() as mesh:
        access = mesh.access(role="registry")
        await mesh.server().kill()
        async with asyncio.TaskGroup() as tasks:
            connecting = tasks.create_task(nats_bus.connect(access, name="r", timeout_s=None))
            await mesh.start_again(HUB)
        assert connecting.result().is_connected
        await connecting.result().close()


@pytest.mark.parametrize("scheme", ["nats", "tls", "ws", "wss"])
async def test_something_else_on_the_port_is_no_server(scheme: str) -> None:
    """A web server, or a proxy that answers for one that is down."""

    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read(1000)
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nno\n")
            await writer.drain()
        writer.close()

    async with TestMesh() as mesh:
        server = await asyncio.start_server(web, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            access = msgspec.structs.replace(
                mesh.access(role="registry"), servers=(f"{scheme}://127.0.0.1:{port}",)
            )
            with pytest.raises(MeshUnavailableError, match="not answer"):
                await nats_bus.connect(access, name="r", timeout_s=1.5)


async def test_a_subject_that_is_not_allowed_is_refused_when_subscribed() -> None:
    """Not silently: a deaf service would look healthy. The bus goes on."""
    async with TestMesh() as mesh:
        bus = await mesh.bus(role="provider", provider="p")
        with pytest.raises(CredentialError, match=r"may not subscribe to otela\.v1\.data\.q\.s\.n"):
            await bus.subscribe("otela.v1.data.q.s.n", lambda _: None)
        await bus.subscribe("otela.v1.data.p.s.n", lambda _: None)
        assert bus.is_connected


async def test_what_is_no_subject_or_too_large_is_refused_at_once() -> None:
    """These are bugs of the caller's."""
    async with TestMesh() as mesh:
        bus = await mesh.bus(role="registry")
        with pytest.raises(WireError, match="is no subject"):
            await bus.subscribe("otela..v1", lambda _: None)
        with pytest.raises(WireError, match="more than the mesh carries"):
            await bus.publish(VERDICT, bytes(2_000_000))
        assert bus.is_connected


async def test_a_subscription_made_while_connecting_again_is_there_afterwards() -> None:
    """Interest may change at any moment of a reconnection."""
    async with TestMesh() as mesh:
        bus = await mesh.bus(role="registry")
        got: list[Message] = []
        gone: list[Message] = []
        await mesh.restart(HUB)
        subscribed = 0

        async def change() -> bool:
            nonlocal subscribed
            subscription = await bus.subscribe(VERDICT, gone.append)
            await bus.subscribe(VERDICT, got.append)
            await subscription.unsubscribe()
            subscribed += 1
            return bus.is_connected and subscribed > 3

        await until(change)
        await bus.publish(VERDICT, b"last")
        await until(lambda: len(got) == subscribed)
        assert gone == []


def test_a_connection_that_breaks_under_a_message_drops_it() -> None:
    """The loop that the product runs on raises an error of its own then: nobody shall die of it."""

    async def main() -> None:
        async with TestMesh() as mesh:
            bus = await mesh.adopt(await nats_bus.connect(mesh.access(role="registry"), name="r"))
            assert bus._connection is not None
            client: Any = bus._connection.client
            client._transport._io_writer.transport.abort()
            # The first one ends nats-py's own writer, the next is written by whoever publishes.
            before = dropped("disconnected")
            await bus.publish(VERDICT, b"x")
            # Not a turn more, or it is known to be lost.
            while not client._flusher_task.done():  # noqa: ASYNC110
                await asyncio.sleep(0)
            await bus.publish(VERDICT, b"x")
            with pytest.raises(MeshUnavailableError):
                await bus.request("otela.v1.snapshot", b"x", timeout_s=1.0)
            assert dropped("disconnected") > before

    uvloop.run(main())
