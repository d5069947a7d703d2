"""A router that has died is noticed by the sessions that work for it, and their engines stop."""

import pytest
from tests.integration.data.builder import Builder
from tests.integration.data.fabric import Fabric, Recorder
from tests.integration.data.raw_engine import RawRequest

from opentela.mesh.nats_wire import Message
from opentela.supervisor import gateway
from opentela.testing.mesh import HUB, until
from opentela.wire import control, subjects

pytestmark = pytest.mark.nats


async def compute(request: RawRequest) -> None:
    """Say nothing for as long as somebody waits."""
    await request.gone()


async def generate(request: RawRequest) -> None:
    """Begin a stream, and say nothing more."""
    request.stream()
    request.chunk(b"data: 1\n\n")
    await request.gone()


async def registry(build: Builder, fabric: Fabric) -> list[Message]:
    """Hear beats as a registry does; return what is heard."""
    heard: list[Message] = []
    client = await fabric.client(build.mesh.access(role="registry", at=HUB))
    client.subscribe(subjects.ALL_BEATS, heard.append)
    await client.round_trip()
    return heard


async def vanish(fabric: Fabric) -> None:
    """End the router as SIGKILL would: the socket is cut, and nobody says a word."""
    fabric.link.on_mesh = lambda *, connected: None  # type: ignore[method-assign]
    await fabric.router_client.close()


@pytest.mark.parametrize("work", [compute, generate])
async def test_the_engine_stops_long_before_the_router_would_count_as_silent(
    build: Builder, work: object
) -> None:
    """The mesh says at once that nobody hears, to who asks; registries do hear."""
    fabric, engine = await build(work)  # type: ignore[arg-type]
    heard = await registry(build, fabric)
    asked: Recorder = fabric.ask()
    await until(lambda: bool(asked.told))
    await vanish(fabric)
    await until(engine.connections[0].left.is_set)
    assert fabric.gateway.in_flight == 0
    beat = control.read_beat(heard[-1].payload)
    assert beat.incarnation == 0, "nothing that a registry would take for news"


async def test_a_site_that_is_cut_off_goes_on(build: Builder) -> None:
    """Nobody hears anything there: that says nothing of the router, which may be back in time."""
    fabric, engine = await build(compute)
    fabric.ask()
    await until(lambda: len(engine.requests) == 1)
    await vanish(fabric)
    hearers = fabric.gateway._hearers
    await until(lambda: hearers._cut_off_at > 0)
    first = hearers._cut_off_at
    await until(lambda: hearers._cut_off_at > first)
    assert fabric.gateway.in_flight == 1


async def test_a_router_that_lives_is_not_taken_for_gone(build: Builder) -> None:
    """However long it waits: nobody is told that it was not heard."""
    fabric, engine = await build(compute)
    asked = fabric.ask()
    await until(lambda: len(engine.requests) == 1)
    assert asked.stream is not None
    caller = asked.stream.caller
    begun_at = caller._heard_at
    await until(lambda: caller._heard_at > begun_at + 2)
    assert fabric.gateway._hearers._missed_at == {}
    assert asked.failure is None


async def test_words_where_only_servers_speak_are_passed_over(build: Builder) -> None:
    """A router could publish there; it means nothing."""
    fabric, engine = await build(compute)
    fabric.ask()
    await until(lambda: len(engine.requests) == 1)
    path = fabric.gateway._path
    fabric.router_client.publish(subjects.echo(path, "0"), b"x")
    await fabric.router_client.round_trip()
    assert fabric.gateway.in_flight == 1


async def test_many_routers_do_not_share_a_number(
    build: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said of one that is gone ends nothing that runs for another that lives."""
    monkeypatch.setattr(gateway, "ASKERS_MAX", 1)
    fabric, engine = await build(compute)
    await registry(build, fabric)
    fabric.ask()
    await until(lambda: len(engine.requests) == 1)
    gone_client, gone_link = fabric.router_client, fabric.link
    await fabric.open_link(seed=2)
    lives = fabric.ask()
    await until(lambda: len(engine.requests) == 2)
    gone_link.on_mesh = lambda *, connected: None  # type: ignore[method-assign]
    await gone_client.close()
    await until(engine.connections[0].left.is_set)
    assert fabric.gateway.in_flight == 1
    assert lives.failure is None
