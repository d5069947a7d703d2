"""From a client through a router, a hub, a leaf and a gateway to an engine, and back."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from tests.integration.data.raw_engine import RawRequest
from tests.integration.router.raw import get, post
from tests.integration.router.scene import Scene
from tests.integration.router.test_forwarding import ANSWER, DELTA, DONE, STOP

from opentela.testing.mesh import until
from opentela.wire import subjects, usage
from opentela.wire.usage import UsageRecord

pytestmark = pytest.mark.nats

STREAM = post(b'{"model":"m","stream":true}')
JSON_FIELD = "content-type: application/json\r\n"


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """A mesh with a registry and a router."""
    async with Scene.open() as scene:
        await scene.run_registry()
        await scene.run_router()
        yield scene


async def whole(request: RawRequest) -> None:
    """Answer at once."""
    request.answer(ANSWER, fields=JSON_FIELD)


async def streamed(request: RawRequest) -> None:
    """Answer with a stream, each event in a write of its own."""
    request.stream()
    for event in (DELTA, STOP, DONE):
        request.chunk(event)
        await request.drain()
    request.chunk(b"")


async def begun(request: RawRequest) -> None:
    """Begin a stream and say no more."""
    request.stream()
    request.chunk(DELTA)


async def test_whole_answers_and_streams_come_through(scene: Scene) -> None:
    """Byte for byte, in order, on one connection."""
    session = await scene.run_session(whole)
    await scene.serving(session)
    client = await scene.client()
    answer = await client.ask(post(b'{ "model": "m" }'))
    assert (answer.status, answer.body) == (200, ANSWER)
    assert answer.headers["x-otela-session"] == session.id
    assert session.engine.requests[0].body == b'{ "model": "m" }'
    session.engine.script = streamed
    answer = await client.ask(STREAM)
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.body == DELTA + STOP + DONE


async def test_an_image_of_24_mib_comes_through(scene: Scene) -> None:
    """In parts, without holding up anything else for long."""
    session = await scene.run_session(whole)
    await scene.serving(session)
    body = b'{"model":"m","image":"' + b"A" * (24 * 1024 * 1024) + b'"}'
    answer = await (await scene.client()).ask(post(body))
    assert answer.status == 200
    assert session.engine.requests[0].body == body


async def test_a_session_that_is_gone_costs_one_attempt(scene: Scene) -> None:
    """The router does not know yet; the mesh says at once that nobody is there."""
    gone = await scene.run_session(whole)
    there = await scene.run_session(whole)
    await scene.serving(gone, there)
    gone.gateway.stop()
    client = await scene.client()
    answers = [await client.ask(post()) for _ in range(4)]
    assert {answer.status for answer in answers} == {200}
    assert {answer.headers["x-otela-session"] for answer in answers} == {there.id}
    assert sorted(answer.headers["x-otela-attempts"] for answer in answers) == ["1", "1", "1", "2"]


async def test_an_engine_killed_in_mid_answer_costs_one_attempt(scene: Scene) -> None:
    """Half of an answer that is not a stream was never sent."""

    async def half(request: RawRequest) -> None:
        request.send(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{")
        await request.drain()
        request.reset()

    dying = await scene.run_session(half)
    sound = await scene.run_session(whole)
    await scene.serving(dying, sound)
    client = await scene.client()
    answers = [await client.ask(post()) for _ in range(2)]
    assert [answer.body for answer in answers] == [ANSWER] * 2
    assert max(answer.headers["x-otela-attempts"] for answer in answers) == "2"


async def test_an_engine_killed_in_mid_stream_is_told(scene: Scene) -> None:
    """By an error event, and never by `[DONE]`."""

    async def half(request: RawRequest) -> None:
        await begun(request)
        await request.drain()
        request.reset()

    session = await scene.run_session(half)
    await scene.serving(session)
    answer = await (await scene.client()).ask(STREAM)
    assert answer.body.startswith(DELTA + b"data: ")
    assert json.loads(answer.body.removeprefix(DELTA + b"data: "))["error"]["code"]
    assert b"[DONE]" not in answer.body


@pytest.mark.parametrize("stage", ["unary", "before the first token", "in the middle"])
async def test_a_client_that_leaves_stops_the_engine(scene: Scene, stage: str) -> None:
    """The engine's connection closes before anybody is missed for silence."""

    async def silent(_request: RawRequest) -> None:
        pass

    session = await scene.run_session(begun if stage == "in the middle" else silent)
    await scene.serving(session)
    client = await scene.client()
    client.send(post() if stage == "unary" else STREAM)
    await until(lambda: len(session.engine.requests) == 1)
    if stage == "in the middle":
        await client.head()
    client.abort()
    await until(session.engine.connections[0].closed.is_set, timeout_s=4.0)
    await until(lambda: session.gateway.in_flight == 0)


async def test_a_session_that_leaves_is_not_routed_to(scene: Scene) -> None:
    """And its model is known, but away."""
    session = await scene.run_session(whole)
    await scene.serving(session)
    await session.leave()
    await scene.serving()
    answer = await (await scene.client()).ask(post())
    assert (answer.status, answer.error["code"]) == (503, "model_unavailable")


async def test_models_are_those_of_the_mesh(scene: Scene) -> None:
    """With where they are."""
    session = await scene.run_session(whole, models=("m", "org/lora"))
    await scene.serving(session)
    answer = await (await scene.client()).ask(get("/v1/models"))
    assert [one["id"] for one in answer.json["data"]] == ["m", "org/lora"]
    assert answer.json["data"][0]["otela"]["sites"] == ["a"]
    assert scene.router.status()["models"] == {"m": 1, "org/lora": 1}


async def test_readiness_waits_for_a_registry_and_follows_the_mesh() -> None:
    """And no name is said to be unknown before the mesh is known."""
    async with Scene.open() as scene:
        await scene.run_router()
        early = await (await scene.client()).ask(post())
        assert (early.status, early.error["code"]) == (503, "model_unavailable")
        assert (await (await scene.client()).ask(get("/readyz"))).status == 503
        assert not scene.process.health.is_ready
        await scene.run_registry()
        await until(lambda: scene.process.health.is_ready)
        assert (await (await scene.client()).ask(get("/readyz"))).status == 200
        late = await (await scene.client()).ask(post())
        assert (late.status, late.error["code"]) == (404, "model_not_found")
        await scene.field.mesh.server().kill()
        await until(lambda: not scene.process.health.is_ready)
        await scene.field.mesh.start_again("hub")
        await until(lambda: scene.process.health.is_ready)


async def test_a_drained_router_has_finished_and_booked_everything(scene: Scene) -> None:
    """What ran is answered, and its usage is with the mesh."""
    session = await scene.run_session(begun)
    await scene.serving(session)
    client = await scene.client()
    client.send(STREAM)
    await until(lambda: len(session.engine.requests) == 1)
    await client.head()
    assert await client.chunk() == DELTA
    drained = asyncio.create_task(scene.router.drain())
    await until(lambda: not scene.process.health.is_ready)
    session.engine.requests[0].chunk(STOP + DONE)
    session.engine.requests[0].chunk(b"")
    assert await client.chunk() == STOP + DONE
    await drained
    front = scene.router._front
    assert front is not None
    assert front.journal.waiting == 0


async def test_a_router_that_does_not_drain_books_what_it_breaks_off() -> None:
    """What its clients had by then is told, though nobody waits for the rest."""
    async with Scene.open() as scene:
        await scene.run_registry()
        session = await scene.run_session(begun)
        placer = await scene.field.mesh.bus(role="placer")
        told: list[UsageRecord] = []
        await placer.subscribe(
            subjects.USAGE, lambda message: told.append(usage.read_usage(message.payload))
        )
        outer, scene.stack = scene.stack, AsyncExitStack()
        async with scene.stack:
            await scene.run_router()
            scene.stack = outer
            await scene.serving(session)
            client = await scene.client()
            client.send(STREAM)
            await client.head()
            assert await client.chunk() == DELTA
        await until(lambda: len(told) == 1)
    (record,) = told
    assert (record.model, record.session) == ("m", session.id)
