"""Lifecycle events as a program reads them, on a real mesh that keeps them."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import timedelta

import msgspec
import pytest
import pytest_asyncio
from tests.integration.mesh.proxy import Proxy
from tests.integration.registry.field import QUICK, Field, new_owner

from opentela import events
from opentela.core.errors import MeshUnavailableError
from opentela.core.record import Lifecycle
from opentela.events import LifecycleEvent, follower
from opentela.mesh.layout import JETSTREAM_DIR
from opentela.mesh.nats_bus import NatsBus
from opentela.registry import history as registry_history
from opentela.registry.config import EventsConfig
from opentela.testing.mesh import HUB, TestMesh, TestRole, until
from opentela.wire import history, subjects

pytestmark = pytest.mark.nats

HOUR = timedelta(hours=1)
API = "$JS.hub.API"


@pytest_asyncio.fixture
async def kept() -> AsyncIterator[Field]:
    """Give a mesh whose hub keeps events, with a leaf."""
    async with TestMesh(leaves=("a",), has_jetstream=True) as mesh:
        yield Field(mesh)


@pytest_asyncio.fixture
async def bare() -> AsyncIterator[Field]:
    """Give a mesh whose hub keeps nothing."""
    async with TestMesh() as mesh:
        yield Field(mesh)


async def live(field: Field, count: int) -> list[str]:
    """Let sessions begin and leave; return the ids of what must be told of them."""
    told = []
    for _ in range(count):
        owner = new_owner()
        async with field.session(owner) as session:
            await session.say(Lifecycle.LEFT, ended_at_ms=int(time.time() * 1000))
        told += [f"{owner.claim.session}.{number}.{kind}" for number, kind in LIFE]
    return told


LIFE = ((1, "SERVING"), (2, "LEFT"))


async def read(field: Field, *, at: str = HUB, **how: object) -> list[LifecycleEvent]:
    """Return everything that is stored."""
    access = field.mesh.access(role="tool", at=at)
    how.setdefault("since", HOUR)
    stream = events.subscribe(access, follow=False, **how)  # type: ignore[arg-type]
    return [event async for event in stream]


async def has_kept(field: Field, expected: list[str]) -> None:
    async def is_there() -> bool:
        return {event.id for event in await read(field)} >= set(expected)

    await until(is_there)


@pytest.mark.parametrize("at", [HUB, "a"])
async def test_events_are_kept_and_told_once(kept: Field, at: str) -> None:
    """Two registries tell each change; at the hub and behind a leaf it is read once, in order."""
    async with kept.registry("registry1") as one, kept.registry("registry2", at="a") as two:
        for registry in (one, two):
            await until(lambda registry=registry: registry.status()["events_kept"] == "yes")
            await until(lambda registry=registry: registry.status()["phase"] == "knowing")
        expected = await live(kept, 3)
        await has_kept(kept, expected)
    assert [event.id for event in await read(kept, at=at)] == expected
    left = await read(kept, at=at, kinds=("LEFT",))
    assert {event.kind for event in left} == {"LEFT"}
    assert await read(kept, since=None) == []


async def test_the_past_goes_on_as_the_present(kept: Field) -> None:
    """Also over a restart of the hub in between, when events are lost on the way."""
    access = kept.mesh.access(role="tool")
    heard: list[str] = []

    async def listen() -> None:
        async with aclosing(events.subscribe(access, since=HOUR)) as stream:
            async for event in stream:
                heard.append(event.id)  # noqa: PERF401  seen as it grows

    async with kept.registry() as registry:
        await until(lambda: registry.status()["events_kept"] == "yes")
        expected = await live(kept, 2)
        await has_kept(kept, expected)
        listening = asyncio.create_task(listen())
        try:
            await until(lambda: heard == expected)
            expected += await live(kept, 2)
            await until(lambda: heard == expected)
            await kept.mesh.restart(HUB)
            await until(lambda: kept.ready["registry1"][0])
            expected += await live(kept, 2)
            await until(lambda: set(heard) >= set(expected), timeout_s=20)
        finally:
            listening.cancel()
            await asyncio.wait([listening])
    assert len(heard) == len(set(heard))
    await has_kept(kept, expected)


async def test_a_hub_that_lost_its_stream_is_followed_into_the_new_one(
    kept: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its numbers begin anew: what a reader missed is found there, and nothing is told twice."""
    monkeypatch.setattr(follower, "CHECK_S", 0.3)
    monkeypatch.setattr(registry_history, "LOOK_S", 0.3)
    heard: list[str] = []
    async with kept.registry() as registry:
        await until(lambda: registry.status()["events_kept"] == "yes")
        before = await live(kept, 5)
        await has_kept(kept, before)
        async with Proxy.open(kept.mesh.server().port("client")) as link:
            access = msgspec.structs.replace(
                kept.mesh.access(role="tool"), servers=(f"nats://127.0.0.1:{link.port}",)
            )

            async def listen() -> None:
                async with aclosing(events.subscribe(access, since=HOUR)) as stream:
                    async for event in stream:
                        heard.append(event.id)  # noqa: PERF401  seen as it grows

            listening = asyncio.create_task(listen())
            try:
                await until(lambda: heard == before)
                link.freeze()
                await kept.mesh.server().kill()
                shutil.rmtree(kept.mesh.layout.root / JETSTREAM_DIR)
                await kept.mesh.start_again(HUB)
                await until(lambda: kept.ready["registry1"][0])
                await has_made_anew(kept)
                missed = await live(kept, 2)
                await has_kept(kept, missed)
                link.thaw()
                await until(lambda: set(heard) >= set(missed))
            finally:
                listening.cancel()
                await asyncio.wait([listening])
    assert heard == before + missed


async def has_made_anew(field: Field) -> None:
    """Return once the hub keeps events again."""

    async def is_made() -> bool:
        notices: list[str] = []
        await read(field, on_notice=notices.append)
        return not notices

    await until(is_made)


async def test_what_is_kept_follows_the_configuration(kept: Field) -> None:
    """A stream that is there is altered, not refused."""
    short = msgspec.structs.replace(QUICK, events=EventsConfig(keep_days=1))
    async with kept.registry() as one:
        await until(lambda: one.status()["events_kept"] == "yes")
    async with kept.registry(config=short) as two:
        await until(lambda: two.status()["events_kept"] == "yes")
    bus = await kept.mesh.bus(role="registry", name="registry2")
    for days, is_other in ((1, False), (30, True)):
        settings = history.settings(days=days)
        reply = await bus.request(subjects.MAKE_HISTORY, settings, timeout_s=5)
        assert history.is_other(reply) is is_other


async def test_without_jetstream_nothing_is_kept_and_all_is_told(bare: Field) -> None:
    """Readers are told once, registries say so, and what comes comes."""
    notices: list[str] = []
    async with bare.registry() as registry:
        await until(lambda: registry.status()["phase"] == "knowing")
        await until(lambda: registry.status()["events_kept"] == "no hub with JetStream answers")
        access = bare.mesh.access(role="tool")
        stream = events.subscribe(access, since=HOUR, on_notice=notices.append)
        async with aclosing(stream):
            first = asyncio.ensure_future(anext(stream))
            await until(lambda: bool(notices))
            (expected, _) = await live(bare, 1)
            assert (await first).id == expected
    assert notices == ["no hub that keeps events can be reached"]


@pytest.mark.parametrize("role", ["tool", "provider", "router"])
@pytest.mark.parametrize("at", [HUB, "a"])
async def test_nobody_empties_the_stream(kept: Field, role: TestRole, at: str) -> None:
    """Nor deletes it, takes an event out, or makes consumers that cost the hub memory."""
    async with kept.registry() as registry:
        await until(lambda: registry.status()["events_kept"] == "yes")
        expected = await live(kept, 1)
        await has_kept(kept, expected)
    bus = await kept.mesh.bus(role=role, at=at, provider="p" if role == "provider" else "")
    for verb in (
        "STREAM.PURGE.otela_events",
        "STREAM.DELETE.otela_events",
        "STREAM.MSG.DELETE.otela_events",
        "STREAM.UPDATE.otela_events",
        "STREAM.CREATE.mine",
        "CONSUMER.CREATE.otela_events",
    ):
        for api in (API, "$JS.API"):
            await bus.publish(f"{api}.{verb}", b"{}")
    await settled(bus)
    assert [event.id for event in await read(kept)] == expected


async def settled(bus: NatsBus) -> None:
    """Return once the hub has seen what *bus* has published."""
    for _ in range(2):
        try:
            await bus.request(subjects.READ_HISTORY, history.ask_last(), timeout_s=0.5)
        except MeshUnavailableError:
            continue
