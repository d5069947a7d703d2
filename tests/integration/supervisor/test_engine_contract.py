"""One contract for the fake engine and a real llama.cpp: what holds of one holds of the other."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from opentela.testing.engine_process import EngineProcess, running
from opentela.testing.waiting import TRIES, until

KEY = "a-key-for-the-engine"
KEY_VARIABLES = {"fake": "OTELA_ENGINE_API_KEY", "llama": "LLAMA_API_KEY"}
MANY_TOKENS = 400
ABORT_WITHIN_S = 1.0


@pytest.fixture(params=["fake", pytest.param("llama", marks=pytest.mark.engine)])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[EngineProcess]:
    more = ("--tokens", str(MANY_TOKENS), "--tpot-ms", "20") if request.param == "fake" else ()
    environ = {KEY_VARIABLES[request.param]: KEY}
    async with running(request.param, *more, model="tiny", environ=environ) as process:
        yield process


@pytest.fixture
async def http(engine: EngineProcess) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer {KEY}"}
    async with aiohttp.ClientSession(
        engine.url, headers=headers, timeout=aiohttp.ClientTimeout(total=60)
    ) as session:
        yield session


def chat(**fields: object) -> dict[str, object]:
    return {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Count to five."}],
        "temperature": 0,
        **fields,
    }


async def events(answer: aiohttp.ClientResponse) -> list[str]:
    text = (await answer.read()).decode()
    return [part.removeprefix("data: ") for part in text.split("\n\n") if part]


async def test_health_needs_no_key_and_everything_else_does(engine: EngineProcess) -> None:
    """A probe has no secret; a stranger on the host learns no more than that the engine lives."""
    async with aiohttp.ClientSession(engine.url) as stranger:
        async with stranger.get("/health") as answer:
            assert answer.status == 200
        for path in ("/v1/models", "/metrics"):
            async with stranger.get(path) as answer:
                assert answer.status == 401
        async with stranger.post("/v1/chat/completions", json=chat(max_tokens=2)) as answer:
            assert answer.status == 401
            assert (await answer.json())["error"]["message"]


async def test_models_are_listed_under_the_name_that_was_given(
    http: aiohttp.ClientSession,
) -> None:
    """The list is what a supervisor reads its offer from."""
    async with http.get("/v1/models") as answer:
        document = await answer.json()
    assert document["object"] == "list"
    assert [entry["id"] for entry in document["data"]] == ["tiny"]
    assert all(entry["object"] == "model" and entry["owned_by"] for entry in document["data"])


async def test_a_chat_answer_in_one_piece_carries_its_usage(http: aiohttp.ClientSession) -> None:
    """The sum of prompt and completion tokens is the total."""
    async with http.post("/v1/chat/completions", json=chat(max_tokens=4)) as answer:
        assert answer.status == 200
        assert answer.content_type == "application/json"
        document = await answer.json()
    assert document["object"] == "chat.completion"
    assert document["model"] == "tiny"
    (choice,) = document["choices"]
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"]
    assert choice["finish_reason"] == "length"
    usage = document["usage"]
    assert usage["completion_tokens"] == 4
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


async def test_a_chat_stream_ends_with_its_reason_its_usage_and_done(
    http: aiohttp.ClientSession,
) -> None:
    """Every event is one chunk; the usage chunk has no choices."""
    asked = chat(max_tokens=4, stream=True, stream_options={"include_usage": True})
    async with http.post("/v1/chat/completions", json=asked) as answer:
        assert answer.status == 200
        assert answer.content_type == "text/event-stream"
        *chunks, done = await events(answer)
    assert done == "[DONE]"
    documents = [json.loads(chunk) for chunk in chunks]
    assert {document["object"] for document in documents} == {"chat.completion.chunk"}
    *parts, usage = documents
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 4
    assert "".join(part["choices"][0]["delta"].get("content") or "" for part in parts)
    assert [part["choices"][0]["finish_reason"] for part in parts][-1] == "length"
    assert all(part["choices"][0]["finish_reason"] is None for part in parts[:-1])


async def test_a_text_completion_answers_whole_and_streamed(http: aiohttp.ClientSession) -> None:
    """The older endpoint works the same."""
    asked = {"model": "tiny", "prompt": "One, two,", "max_tokens": 3, "temperature": 0}
    async with http.post("/v1/completions", json=asked) as answer:
        document = await answer.json()
    assert document["object"] == "text_completion"
    assert document["usage"]["completion_tokens"] == 3
    async with http.post("/v1/completions", json={**asked, "stream": True}) as answer:
        *chunks, done = await events(answer)
    assert done == "[DONE]"
    text = "".join(json.loads(chunk)["choices"][0]["text"] for chunk in chunks)
    assert text == document["choices"][0]["text"]


async def test_a_body_that_is_no_json_is_the_callers_fault(http: aiohttp.ClientSession) -> None:
    """The error is an object, as of OpenAI, whatever its status."""
    async with http.post("/v1/chat/completions", data=b"{nonsense") as answer:
        assert 400 <= answer.status < 600
        assert (await answer.json())["error"]["message"]


async def test_an_engine_that_loses_its_client_stops_computing(
    http: aiohttp.ClientSession,
) -> None:
    """An abandoned stream frees the engine within a second, seen in its own metrics."""
    asked = chat(max_tokens=MANY_TOKENS, stream=True)
    took_s: list[float] = []

    async def is_idle() -> bool:
        return await running_requests(http) == 0

    while not took_s or (min(took_s) > ABORT_WITHIN_S and len(took_s) < TRIES):
        answer = await http.post("/v1/chat/completions", json=asked)
        await answer.content.readany()
        assert await running_requests(http) == 1
        answer.close()
        took_s.append(await until(is_idle, "an idle engine"))
    assert min(took_s) <= ABORT_WITHIN_S, took_s


async def running_requests(http: aiohttp.ClientSession) -> int:
    async with http.get("/metrics") as answer:
        lines = (await answer.text()).splitlines()
    names = (
        "vllm:num_requests_running",
        "llamacpp:requests_processing",
        "sglang:num_running_reqs{",
    )
    (line,) = [line for line in lines if line.startswith(names)]
    return int(float(line.split()[-1]))


async def test_sigterm_ends_the_engine_in_order(engine: EngineProcess) -> None:
    """The exit status is 0: it was asked to go."""
    engine.process.terminate()
    async with asyncio.timeout(60):
        assert await engine.process.wait() == 0


class TestTheFakeDoesWhatItIsTold:
    """What only the fake can do: to fail on purpose."""

    @pytest.fixture
    async def fake(self) -> AsyncIterator[aiohttp.ClientSession]:
        async with (
            running("fake", "--tokens", "5") as process,
            aiohttp.ClientSession(process.url, timeout=aiohttp.ClientTimeout(total=60)) as session,
        ):
            yield session

    async def steer(self, fake: aiohttp.ClientSession, **fields: object) -> None:
        async with fake.post("/control", json=fields) as answer:
            assert answer.status == 200, await answer.text()

    async def state(self, fake: aiohttp.ClientSession) -> dict[str, Any]:
        async with fake.get("/control/state") as answer:
            return dict(await answer.json())

    async def test_it_resets_a_stream(self, fake: aiohttp.ClientSession) -> None:
        """After the scripted number of tokens the connection is gone, with no end of the answer."""
        await self.steer(fake, reset_after=2)
        async with fake.post("/v1/chat/completions", json=chat(stream=True)) as answer:
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
        assert (await self.state(fake))["failed"] == 1

    async def test_it_hangs_and_counts_the_abort(self, fake: aiohttp.ClientSession) -> None:
        """A client that gives up is recorded as aborted."""
        await self.steer(fake, answer="hang")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await fake.post("/v1/chat/completions", json=chat())

        async def is_counted() -> bool:
            return bool((await self.state(fake))["aborted"] == 1)

        await until(is_counted, "the abort")

    async def test_it_answers_what_a_proxy_would(self, fake: aiohttp.ClientSession) -> None:
        """502 with HTML, and a 429 with its Retry-After."""
        await self.steer(fake, answer="status", answer_body="<html>Bad gateway</html>")
        async with fake.post("/v1/chat/completions", json=chat()) as answer:
            assert (answer.status, answer.content_type) == (502, "text/html")
        await self.steer(fake, answer_status=429, answer_headers={"Retry-After": "7"})
        async with fake.post("/v1/chat/completions", json=chat()) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (429, "7")

    async def test_it_writes_raw_bytes(self, fake: aiohttp.ClientSession) -> None:
        """An answer that no framework would write can be scripted byte by byte."""
        raw = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
        await self.steer(fake, answer="raw", raw=raw)
        async with fake.post("/v1/chat/completions", json=chat()) as answer:
            assert await answer.text() == "ok"

    async def test_it_remembers_what_arrived(self, fake: aiohttp.ClientSession) -> None:
        """Byte-exactness is checked by hash."""
        body = b'{"model":"tiny",  "prompt":"\xc3\xa9"}'
        async with fake.post("/v1/completions?x=1", data=body) as answer:
            assert answer.status == 200
        (seen,) = (await self.state(fake))["requests"]
        assert seen["path"] == "/v1/completions?x=1"
        assert seen["body_sha256"] == hashlib.sha256(body).hexdigest()
        assert seen["outcome"] == "finished"

    async def test_it_refuses_a_script_that_it_does_not_know(
        self, fake: aiohttp.ClientSession
    ) -> None:
        """A misspelt instruction is never ignored."""
        async with fake.post("/control", json={"answr": "hang"}) as answer:
            assert answer.status == 400
