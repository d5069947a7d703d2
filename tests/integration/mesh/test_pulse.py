"""Heartbeats over two connections of which one plays dead; each is found by its own silence."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple

import msgspec
import pytest
from tests.integration.mesh.proxy import Proxy

from opentela.mesh import data_client, data_connection, nats_bus, nats_connection
from opentela.mesh.access import Access
from opentela.mesh.bus import Message
from opentela.mesh.data_client import DataClient
from opentela.mesh.keepalive import LOST_AFTER
from opentela.mesh.nats_bus import NatsBus
from opentela.mesh.pulse import Pulse
from opentela.testing.mesh import TestMesh, until

pytestmark = pytest.mark.nats

BEAT = "otela.v1.beat.p.s.n"
BEAT_WITH_PING = b" 1\r\nx\r\nPING\r\n"
PING_EVERY_S = 0.2
GIVEN_UP_S = LOST_AFTER * PING_EVERY_S
SLACK_S = 5.0
"""What a busy machine may add; TCP by itself waits for a quarter of an hour."""


class Node(NamedTuple):
    """A provider's two connections, each through a proxy of its own, and who hears its beats."""

    bus: NatsBus
    data: DataClient
    pulse: Pulse
    control_link: Proxy
    data_link: Proxy
    heard: list[Message]

    async def beat(self) -> None:
        """Beat once."""
        await self.pulse.publish(BEAT, b"x")

    async def until_heard(self) -> None:
        """Beat until a beat from now on is heard."""
        self.heard.clear()

        async def is_heard() -> bool:
            await self.beat()
            return bool(self.heard)

        await until(is_heard)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a silent link dead after 0.6 s instead of 6 s."""
    for module in (nats_connection, data_connection):
        monkeypatch.setattr(module, "PING_EVERY_S", PING_EVERY_S)


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    """A node on a mesh with a registry that listens."""
    async with contextlib.AsyncExitStack() as stack:
        mesh = await stack.enter_async_context(TestMesh())
        access = mesh.access(role="provider", provider="p")
        links = [
            await stack.enter_async_context(Proxy.open(mesh.server().port("client")))
            for _ in range(2)
        ]
        control, data = (_via(access, link) for link in links)
        registry = await mesh.bus(role="registry")
        heard: list[Message] = []
        await registry.subscribe("otela.v1.beat.>", heard.append)
        bus = await stack.enter_async_context(await nats_bus.connect(control, name="n"))
        client = await stack.enter_async_context(await data_client.connect(data, name="n"))
        yield Node(bus, client, Pulse(bus, client), links[0], links[1], heard)


def _via(access: Access, link: Proxy) -> Access:
    return msgspec.structs.replace(access, servers=(f"nats://127.0.0.1:{link.port}",))


async def test_beats_take_the_pings_of_both_connections_along(node: Node) -> None:
    """In one piece with them; and none is lost or said twice on its way."""
    links = (node.control_link, node.data_link)
    beats = 0

    async def has_beaten_over_both() -> bool:
        nonlocal beats
        await node.beat()
        beats += 1
        return all(BEAT_WITH_PING in link.passed for link in links)

    await until(has_beaten_over_both)
    await until(lambda: len(node.heard) == beats)
    assert sum(link.passed.count(BEAT.encode()) for link in links) == beats


async def test_a_busy_data_connection_carries_no_beat(node: Node) -> None:
    """Beats never wait behind tokens."""
    await until(lambda: node.data.carry(BEAT, b"x"))
    await node.until_heard()

    loop = asyncio.get_running_loop()
    end_at = loop.time() + 3 * PING_EVERY_S

    def is_over() -> bool:
        node.data.publish("otela.v1.reply.r.i.p.n", b"token")
        assert not node.data.carry(BEAT, b"x")
        return loop.time() > end_at

    await until(is_over)


async def test_a_half_open_data_connection_is_found_and_beats_go_on(node: Node) -> None:
    """One beat may be lost with it; then all take the control connection."""
    await node.until_heard()
    began_at = asyncio.get_running_loop().time()
    node.data_link.freeze()
    node.heard.clear()
    beats = 0

    async def is_found() -> bool:
        nonlocal beats
        await node.beat()
        beats += 1
        return not node.data.is_connected

    await until(is_found, timeout_s=GIVEN_UP_S + SLACK_S)
    assert asyncio.get_running_loop().time() - began_at > GIVEN_UP_S / 2
    assert node.bus.is_connected
    await until(lambda: len(node.heard) >= beats - 1)
    node.data_link.thaw()
    await until(lambda: node.data.is_connected)


async def test_a_half_open_control_connection_is_found_and_silences_the_beats(node: Node) -> None:
    """Whom registries cannot reach must not sound well; with a new connection it does again."""
    await node.until_heard()
    node.control_link.freeze()
    # The first that goes unanswered stops the beats that the data connection would carry.
    await until(lambda: not node.bus.is_answering)
    node.heard.clear()

    async def is_found() -> bool:
        await node.beat()
        return not node.bus.is_connected

    await until(is_found, timeout_s=GIVEN_UP_S + SLACK_S)
    assert node.heard == []
    assert node.data.is_connected
    node.control_link.thaw()
    await until(lambda: node.bus.is_connected)
    await node.until_heard()


@pytest.mark.parametrize("link", ["control", "data"])
async def test_one_that_idles_is_found_half_open_too(node: Node, link: str) -> None:
    """Without a message that a ping could ride with."""
    client: NatsBus | DataClient = node.bus if link == "control" else node.data
    proxy = node.control_link if link == "control" else node.data_link
    proxy.freeze()
    await until(lambda: not client.is_connected, timeout_s=GIVEN_UP_S + SLACK_S)
    proxy.thaw()
    await until(lambda: client.is_connected)
