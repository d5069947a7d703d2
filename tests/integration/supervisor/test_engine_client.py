"""Questions to an engine, and what its answers, or their absence, mean."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from opentela.supervisor.engine_client import EngineClient
from opentela.supervisor.engines import adapter_for
from opentela.supervisor.engines.base import EngineLoad
from opentela.supervisor.events import (
    OfferRead,
    OfferUnread,
    ProbeAnswered,
    ProbeFailed,
    ProbeTimedOut,
)
from opentela.testing import fake_engine
from opentela.testing.fake_script import Script

KEY = "secret"
PROBE_TIMEOUT_S = 2.0


def client_of(port: int, kind: str = "openai") -> EngineClient:
    return EngineClient(
        7,
        adapter=adapter_for(kind, []),
        address=f"127.0.0.1:{port}",
        key=KEY,
        probe_timeout_s=PROBE_TIMEOUT_S,
    )


@pytest.fixture
async def engine() -> fake_engine.FakeEngine:
    return fake_engine.FakeEngine(Script(models=("tiny",)), api_key=KEY)


@pytest.fixture
async def client(engine: fake_engine.FakeEngine) -> AsyncIterator[EngineClient]:
    runner = await fake_engine.serve(engine)
    async with client_of(runner.addresses[0][1]) as client:
        yield client
    await runner.cleanup()


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Answer], Awaitable[EngineClient]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Ask an engine whose every answer a test writes."""
    runners: list[web.ServerRunner] = []
    clients: list[EngineClient] = []

    async def serve(answer: Answer) -> EngineClient:
        runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)  # type: ignore[arg-type]
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        runners.append(runner)
        clients.append(client_of(runner.addresses[0][1], "vllm"))
        return clients[-1]

    yield serve
    for client in clients:
        await client.__aexit__()
    for runner in runners:
        await runner.cleanup()


class TestProbes:
    """Answered well, badly, or not at all."""

    async def test_a_healthy_engine_answers(self, client: EngineClient) -> None:
        """Any status below 400 will do."""
        assert await client.probe() == ProbeAnswered(7)

    async def test_an_error_is_a_bad_answer(
        self, engine: fake_engine.FakeEngine, client: EngineClient
    ) -> None:
        """The reason names the status."""
        engine.script.health_status = 503
        assert await client.probe() == ProbeFailed(7, "/health answered 503")

    async def test_a_frozen_engine_does_not_answer(
        self, engine: fake_engine.FakeEngine, client: EngineClient
    ) -> None:
        """It is given up after the probe's own time."""
        engine.script.health = "hang"
        assert await client.probe() == ProbeTimedOut(7)
        engine.script.health = "ok"
        assert await client.probe() == ProbeAnswered(7)

    async def test_nobody_there_is_a_refused_connection(self) -> None:
        """As while the engine loads."""
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            async with client_of(unused.getsockname()[1]) as client:
                failed = await client.probe()
        assert isinstance(failed, ProbeFailed)
        assert failed.reason.startswith("no connection")

    async def test_an_engine_without_a_health_page_is_probed_by_its_models(
        self, serve: Serve
    ) -> None:
        """Not everything that speaks OpenAI has one."""
        asked: list[str] = []

        async def answer(request: web.Request) -> web.StreamResponse:
            asked.append(request.path)
            return web.Response(status=404 if request.path == "/health" else 200)

        client = await serve(answer)
        assert await client.probe() == ProbeAnswered(7)
        assert await client.probe() == ProbeAnswered(7)
        assert asked == ["/health", "/v1/models", "/v1/models"]

    async def test_an_answer_that_breaks_off_is_a_bad_answer(self, serve: Serve) -> None:
        """The engine died in the middle of it."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Length": "10"})
            await response.prepare(request)
            assert request.transport is not None
            request.transport.abort()
            return response

        assert isinstance(await (await serve(answer)).probe(), ProbeFailed)

    async def test_after_its_end_nothing_is_asked(self, client: EngineClient) -> None:
        """A question that was due just then is answered by itself."""
        await client.__aexit__()
        assert await client.probe() == ProbeFailed(7, "it has ended")


class TestOffers:
    """What it serves, or why that is not known."""

    async def test_the_list_of_models_is_read_with_the_key(self, client: EngineClient) -> None:
        """Without it the engine would not answer."""
        read = await client.read_offer()
        assert isinstance(read, OfferRead)
        assert [model.name for model in read.offer.models] == ["tiny"]

    async def test_the_kind_is_corrected_by_the_answer(
        self, engine: fake_engine.FakeEngine, client: EngineClient
    ) -> None:
        """And from then on its metrics are read."""
        assert await client.read_load() is None
        engine.script.owned_by = "vllm"
        await client.read_offer()
        assert client.adapter.name == "vllm"
        assert await client.read_load() == EngineLoad(running=0, waiting=0, kv_used=0.0, tokens=0.0)

    async def test_an_error_is_told_as_such(
        self, engine: fake_engine.FakeEngine, client: EngineClient
    ) -> None:
        """It passes; the next read works."""
        engine.script.models_failures = 1
        assert await client.read_offer() == OfferUnread(7, "/v1/models answered 500")
        assert isinstance(await client.read_offer(), OfferRead)

    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            (b"<html>", "/v1/models answered no JSON"),
            (b"[" * 100_000, "/v1/models answered no JSON"),
            (b"[]", "/v1/models is no list of models"),
            (b'{"data": 3}', "/v1/models is no list of models"),
        ],
    )
    async def test_nonsense_is_told_as_such(self, serve: Serve, body: bytes, reason: str) -> None:
        """Nothing is made of it."""

        async def answer(_request: web.Request) -> web.StreamResponse:
            return web.Response(body=body)

        unread = await (await serve(answer)).read_offer()
        assert isinstance(unread, OfferUnread)
        assert unread.reason.startswith(reason)

    async def test_an_endless_answer_is_cut(self, serve: Serve) -> None:
        """Memory is bounded whatever the engine sends."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(bytes(65536))

        unread = await (await serve(answer)).read_offer()
        assert isinstance(unread, OfferUnread)
        assert "more than" in unread.reason

    async def test_a_silent_engine_is_given_up(
        self, serve: Serve, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A read has its own time."""
        monkeypatch.setattr("opentela.supervisor.engine_client.READ_WITHIN_S", 0.1)

        async def answer(_request: web.Request) -> web.StreamResponse:
            await asyncio.Event().wait()
            raise AssertionError

        client = await serve(answer)
        assert await client.read_offer() == OfferUnread(7, "/v1/models was not answered")
        assert await client.read_load() is None

    async def test_a_missing_version_is_no_harm(self, serve: Serve) -> None:
        """Models count, the rest is welcome."""

        async def answer(request: web.Request) -> web.StreamResponse:
            if request.path != "/v1/models":
                return web.Response(status=404)
            return web.json_response({"data": [{"id": "m", "owned_by": "vllm"}]})

        client = await serve(answer)
        read = await client.read_offer()
        assert isinstance(read, OfferRead)
        assert read.offer.version == ""
        assert await client.read_load() is None
