"""The OpenAI SDK notices no difference."""

import openai
import pytest
from openai import AsyncOpenAI
from tests.integration.router.conftest import Bench
from tests.unit.router.parts import record

from opentela.core.record import ModelOffer
from opentela.testing.fake_link import EVENTS, FakeStream
from opentela.wire.frames import FailKind

CHAT = (
    b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}'
)


def delta(content: str, finish: str = "null") -> bytes:
    """Return one event."""
    return (
        'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":'
        f'[{{"index":0,"delta":{{"content":"{content}"}},"finish_reason":{finish}}}]}}\n\n'
    ).encode()


def sdk(bench: Bench) -> AsyncOpenAI:
    """Return a client that does not retry by itself."""
    return AsyncOpenAI(base_url=f"{bench.front.url}/v1", api_key="none", max_retries=0)


async def test_a_completion(bench: Bench) -> None:
    """With usage, and headers of ours."""
    bench.link.script = lambda stream: stream.answer(CHAT)
    async with sdk(bench) as client:
        raw = await client.chat.completions.with_raw_response.create(
            model="m", messages=[{"role": "user", "content": "hi"}]
        )
    answer = raw.parse()
    assert answer.choices[0].message.content == "hello"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 4
    assert raw.headers["x-otela-attempts"] == "1"
    sent = dict(bench.link.streams[0].headers)
    assert sent.keys() == {"accept", "content-type", "x-request-id"}


async def test_a_stream(bench: Bench) -> None:
    """Every delta, and then its end."""
    bench.link.script = lambda stream: (
        stream.head(200, EVENTS)
        .data(delta("hel") + delta("lo"))
        .data(delta("", '"stop"'))
        .data(b"data: [DONE]\n\n")
        .end()
    )
    async with sdk(bench) as client:
        stream = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        text = [chunk.choices[0].delta.content async for chunk in stream]
    assert text == ["hel", "lo", ""]


async def test_a_broken_stream_raises_after_what_came(bench: Bench) -> None:
    """The application sees that its answer is not whole."""

    def script(stream: FakeStream) -> None:
        stream.head(200, EVENTS).data(delta("hel")).fail(FailKind.ENGINE_LOST)

    bench.link.script = script
    text = []
    async with sdk(bench) as client:
        stream = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        chunks = aiter(stream)
        text.append((await anext(chunks)).choices[0].delta.content)
        with pytest.raises(openai.APIError, match="connection broke"):
            await anext(chunks)
    assert text == ["hel"]


async def test_errors_are_the_classes_that_applications_catch(bench: Bench) -> None:
    """By status, with the message inside."""
    async with sdk(bench) as client:
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.completions.create(model="none", prompt="hi")
        assert unknown.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError):
            await client.completions.create(model="", prompt="hi")
        bench.link.script = lambda stream: stream.answer(
            b'{"error":{"message":"slow down"}}',
            status=429,
            headers=(("content-type", "application/json"), ("retry-after", "7")),
        )
        with pytest.raises(openai.RateLimitError) as limited:
            await client.completions.create(model="m", prompt="hi")
        assert limited.value.response.headers["retry-after"] == "7"


async def test_a_stream_that_is_left_stops_the_engine(bench: Bench) -> None:
    """`break` is all that an application does."""

    def script(stream: FakeStream) -> None:
        stream.head(200, EVENTS).data(delta("hel"))

    bench.link.script = script
    async with sdk(bench) as client:
        stream = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        async for _ in stream:
            break
        await stream.close()
        await bench.until(lambda: bench.link.streams[0].ended)
    assert bench.link.streams[0].cancelled == "the client left"


async def test_models(bench: Bench) -> None:
    """The list, and one with a slash in its name; then a completion with the same client."""
    bench.front.directory.apply([record(5, models=[ModelOffer(name="a/b")])])
    bench.link.script = lambda stream: stream.answer(CHAT)
    async with sdk(bench) as client:
        assert [model.id async for model in client.models.list()] == ["a/b", "m"]
        assert (await client.models.retrieve("a/b")).id == "a/b"
        answer = await client.chat.completions.create(
            model="a/b", messages=[{"role": "user", "content": "hi"}]
        )
    assert answer.choices[0].message.content == "hello"
