"""A real llama.cpp behind a whole mesh: clients leave it, and ask it what only it can answer."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
import uvloop
from tests.integration.registry.field import new_owner
from tests.integration.router.raw import post
from tests.integration.router.scene import LEAF, Scene
from tests.integration.supervisor.test_engine_contract import KEY, running_requests

from opentela.engine.pool import EngineAddress, EngineHttp
from opentela.supervisor.gateway import Gateway
from opentela.testing.engine_process import running
from opentela.testing.waiting import TRIES, until

pytestmark = [pytest.mark.nats, pytest.mark.engine]

ABORT_WITHIN_S = 1.0
ENDS_WITHIN_S = 60.0
"""This engine looks after its client only when it writes: until then it goes on, with little."""
STAGES = {"unary": 16, "before the first token": 16, "in the middle": 400}
"""Tokens that are asked for at each."""


class Real(Scene):
    """A mesh with one real engine.

    Attributes:
        http: A client of the engine itself.
    """

    gateway: Gateway
    http: aiohttp.ClientSession

    async def start(self) -> None:
        """Start everything, and return once the engine is routed to."""
        await self.run_registry()
        await self.run_router()
        engine = await self.stack.enter_async_context(
            running("llama", model="m", environ={"LLAMA_API_KEY": KEY})
        )
        headers = {"Authorization": f"Bearer {KEY}"}
        self.http = await self.stack.enter_async_context(
            aiohttp.ClientSession(engine.url, headers=headers)
        )
        owner = new_owner(site=LEAF, models=("m",))
        address = EngineAddress(port=engine.port)
        self.gateway, _ = await self.run_gateway(owner, EngineHttp(address, api_key=KEY))
        await until(lambda: len(self.live()) == 1, "a session")

    async def computes(self, count: int, *, within_s: float) -> float:
        """Return the seconds until the engine works on so many requests, by its own word."""

        async def does() -> bool:
            return await running_requests(self.http) == count

        return await until(does, f"{count} requests at the engine", within_s=within_s)


@pytest.fixture
async def real() -> AsyncIterator[Real]:
    """A mesh, a router and a real engine, which takes its time to start: on one loop only."""
    if not isinstance(asyncio.get_running_loop(), uvloop.Loop):
        pytest.skip("the product runs on uvloop")
    async with Real.open() as real:
        assert isinstance(real, Real)
        await real.start()
        yield real


async def leave(real: Real, stage: str) -> float:
    """Ask and leave; return the seconds until its connection, in the middle its work, had ended."""
    client = await real.client()
    asked = {"model": "m", "prompt": "One, two,", "max_tokens": STAGES[stage]}
    body = json.dumps({**asked, "stream": stage != "unary"}).encode()
    client.send(post(body, "/v1/completions"))
    if stage == "in the middle":
        await client.head()
        for _ in range(3):
            assert b"data: " in await client.chunk()
    await until(lambda: real.gateway.in_flight == 1, f"a request {stage}")
    client.abort()
    took_s = await until(lambda: real.gateway.in_flight == 0, "an end")
    await until(lambda: real.router.status()["in_flight"] == 0, "an idle router")
    computed_s = await real.computes(0, within_s=ENDS_WITHIN_S)
    return took_s + computed_s if stage == "in the middle" else took_s


async def test_a_client_that_leaves_stops_a_real_engine(real: Real) -> None:
    """Its connection ends within a second; in mid-stream its own metrics say that it stopped."""
    for stage in STAGES:
        took_s: list[float] = []
        while not took_s or (min(took_s) > ABORT_WITHIN_S and len(took_s) < TRIES):
            took_s.append(await leave(real, stage))
        assert min(took_s) <= ABORT_WITHIN_S, (stage, took_s)


async def test_what_a_client_wants_of_it_reaches_a_real_engine(real: Real) -> None:
    """Paths of its own, with the model named beside the body, and whatever else is in a body."""
    client = await real.client()
    named = "X-Otela-Model: m"
    tokens = (await client.ask(post(b'{"content":"One, two"}', "/tokenize", named))).json["tokens"]
    body = json.dumps({"tokens": tokens}).encode()
    assert (await client.ask(post(body, "/detokenize", named))).json["content"] == "One, two"
    asked = {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 4,
        "stream": True,
        "stream_options": {"include_usage": True},
        "logprobs": True,
        "top_logprobs": 2,
    }
    answer = await client.ask(post(json.dumps(asked).encode()))
    lines = [line for line in answer.body.decode().split("\n\n") if line]
    *chunks, done = [line.removeprefix("data: ") for line in lines]
    assert done == "[DONE]"
    *parts, usage = [json.loads(chunk) for chunk in chunks]
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 4
    assert any((part["choices"][0].get("logprobs") or {}).get("content") for part in parts)
