"""Everything that applications use of the OpenAI SDK, by both of its clients."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from tests.integration.router.conftest import Bench
from tests.integration.router.test_sdk import CHAT, delta
from tests.unit.router.parts import record

from opentela.core.record import ModelOffer
from opentela.testing.fake_link import EVENTS, JSON, FakeStream

HI: list[Any] = [{"role": "user", "content": "hi"}]
TEXT = (
    b'{"id":"t","object":"text_completion","created":1,"model":"m","choices":[{"index":0,'
    b'"text":"hello","finish_reason":"stop","logprobs":null}]}'
)
VECTORS = (
    b'{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[0.5,-1]}],'
    b'"usage":{"prompt_tokens":1,"total_tokens":1}}'
)
RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "status": "completed",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "output": [
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "hello", "annotations": []}],
        }
    ],
}
STREAM = delta("hel") + delta("lo") + delta("", '"stop"') + b"data: [DONE]\n\n"


def event(kind: str, **fields: object) -> bytes:
    """Return one typed event."""
    data = json.dumps({"type": kind, "sequence_number": 1, **fields})
    return f"event: {kind}\ndata: {data}\n\n".encode()


TYPED = (
    event("response.created", response=RESPONSE | {"status": "in_progress", "output": []})
    + event(
        "response.output_text.delta",
        delta="hel",
        item_id="msg_1",
        output_index=0,
        content_index=0,
        logprobs=[],
    )
    + event("response.completed", response=RESPONSE)
)
WAVE = b"RIFF" + bytes(range(256)) * 8


def answers(stream: FakeStream) -> None:
    """Answer as an engine does, by path."""
    wants_stream = b'"stream":true' in stream.body.replace(b" ", b"")
    whole = {
        "/v1/chat/completions": CHAT,
        "/v1/completions": TEXT,
        "/v1/embeddings": VECTORS,
        "/v1/responses": json.dumps(RESPONSE).encode(),
        "/v1/responses/resp_1": json.dumps(RESPONSE).encode(),
        "/v1/audio/transcriptions": b'{"text":"hello"}',
    }[stream.path_and_query.partition("?")[0]]
    if not wants_stream:
        stream.answer(whole)
        return
    body = TYPED if "responses" in stream.path_and_query else STREAM
    stream.head(200, EVENTS).data(body).end()


def use_everything(client: OpenAI) -> dict[str, object]:
    """Return what an application sees of each kind of call."""
    chat = client.chat.completions.create(model="m", messages=HI)
    parts = client.chat.completions.create(model="m", messages=HI, stream=True)
    spoken = "".join(part.choices[0].delta.content or "" for part in parts)
    text = client.completions.create(model="m", prompt="hi")
    vectors = client.embeddings.create(model="m", input="hi", encoding_format="float")
    response = client.responses.create(model="m", input="hi")
    events = [one.type for one in client.responses.create(model="m", input="hi", stream=True)]
    stored = client.responses.retrieve("resp_1", extra_query={"model": "m"})
    heard = client.audio.transcriptions.create(model="m", file=("a.wav", WAVE))
    return {
        "chat": chat.choices[0].message.content,
        "stream": spoken,
        "text": text.choices[0].text,
        "vectors": vectors.data[0].embedding,
        "response": response.output_text,
        "events": events,
        "stored": stored.output_text,
        "heard": heard.text,
        "models": [model.id for model in client.models.list()],
        "model": client.models.retrieve("a/ä b").id,
    }


async def test_the_synchronous_client_is_served_in_everything(bench: Bench) -> None:
    """Chat, text, vectors, responses, sound and models, whole and as streams."""
    bench.front.directory.apply([record(5, models=[ModelOffer(name="a/ä b")])])
    bench.link.script = answers

    def use() -> dict[str, object]:
        with OpenAI(base_url=f"{bench.front.url}/v1", api_key="none", max_retries=0) as client:
            return use_everything(client)

    assert await asyncio.to_thread(use) == {
        "chat": "hello",
        "stream": "hello",
        "text": "hello",
        "vectors": [0.5, -1],
        "response": "hello",
        "events": ["response.created", "response.output_text.delta", "response.completed"],
        "stored": "hello",
        "heard": "hello",
        "models": ["a/ä b", "m"],
        "model": "a/ä b",
    }
    assert WAVE in bench.link.streams[-1].body


async def test_the_asynchronous_client_is_served_in_everything(bench: Bench) -> None:
    """Many calls at one time, over few connections."""
    bench.link.script = answers
    async with AsyncOpenAI(
        base_url=f"{bench.front.url}/v1", api_key="none", max_retries=0
    ) as client:
        (text, vectors, response), chats = await asyncio.gather(
            asyncio.gather(
                client.completions.create(model="m", prompt="hi"),
                client.embeddings.create(model="m", input="hi", encoding_format="float"),
                client.responses.create(model="m", input="hi"),
            ),
            asyncio.gather(
                *(client.chat.completions.create(model="m", messages=HI) for _ in range(30))
            ),
        )
        stream = await client.responses.create(model="m", input="hi", stream=True)
        kinds = [one.type async for one in stream]
    assert text.choices[0].text == "hello"
    assert vectors.data[0].embedding == [0.5, -1]
    assert response.output_text == "hello"
    assert [chat.choices[0].message.content for chat in chats] == ["hello"] * 30
    assert kinds[-1] == "response.completed"


ERRORS: list[tuple[int, type[openai.APIStatusError]]] = [
    (400, openai.BadRequestError),
    (404, openai.NotFoundError),
    (409, openai.ConflictError),
    (413, openai.APIStatusError),
    (422, openai.UnprocessableEntityError),
    (429, openai.RateLimitError),
    (500, openai.InternalServerError),
    (502, openai.InternalServerError),
    (503, openai.InternalServerError),
    (504, openai.InternalServerError),
]


@pytest.mark.parametrize(("status", "kind"), ERRORS)
@pytest.mark.parametrize("body", [b"<html>no</html>", b'{"error":{"message":"no"}}'])
async def test_an_engines_error_is_the_class_of_its_status(
    bench: Bench, status: int, kind: type[openai.APIStatusError], body: bytes
) -> None:
    """Whatever it wrote, there is a message to show."""
    mime = "application/json" if body.startswith(b"{") else "text/html"
    bench.link.script = lambda stream: stream.answer(
        body, status=status, headers=(("content-type", mime),)
    )
    async with AsyncOpenAI(
        base_url=f"{bench.front.url}/v1", api_key="none", max_retries=0
    ) as client:
        with pytest.raises(kind) as raised:
            await client.chat.completions.create(model="m", messages=HI)
    assert type(raised.value) is kind
    assert raised.value.status_code == status
    assert isinstance(raised.value.body, dict)
    assert raised.value.body["message"]
    assert raised.value.request_id


@pytest.mark.parametrize(
    ("ask", "code", "kind"),
    [
        (lambda c: c.models.retrieve("no/such"), "model_not_found", openai.NotFoundError),
        (
            lambda c: c.completions.create(model="none", prompt="hi"),
            "model_not_found",
            openai.NotFoundError,
        ),
        (lambda c: c.get("/nothing/here/", cast_to=object), "unknown_url", openai.NotFoundError),
        (
            lambda c: c.post("/completions", body={"prompt": "hi"}, cast_to=object),
            "invalid_value",
            openai.BadRequestError,
        ),
    ],
)
async def test_the_routers_own_errors_are_told_by_their_code(
    bench: Bench,
    ask: Callable[[AsyncOpenAI], Any],
    code: str,
    kind: type[openai.APIStatusError],
) -> None:
    """As applications tell them apart."""
    async with AsyncOpenAI(
        base_url=f"{bench.front.url}/v1", api_key="none", max_retries=0
    ) as client:
        with pytest.raises(kind) as raised:
            await ask(client)
    assert raised.value.code == code


async def test_the_clients_own_retries_wait_as_they_are_told(bench: Bench) -> None:
    """It reads our `Retry-After`, and asks again by itself."""

    def busy_at_first(stream: FakeStream) -> None:
        if len(bench.link.streams) == 1:
            stream.answer(
                b'{"error":{"message":"slow down"}}',
                status=429,
                headers=(*JSON, ("retry-after-ms", "1")),
            )
        else:
            stream.answer(CHAT)

    bench.link.script = busy_at_first
    async with AsyncOpenAI(base_url=f"{bench.front.url}/v1", api_key="none") as client:
        answer = await client.chat.completions.create(model="m", messages=HI)
    assert answer.choices[0].message.content == "hello"
    assert len(bench.link.streams) == 2


async def test_a_client_that_times_out_stops_the_engine(bench: Bench) -> None:
    """Its time-out is its own; nothing runs on for nobody."""
    async with AsyncOpenAI(
        base_url=f"{bench.front.url}/v1",
        api_key="none",
        max_retries=0,
        timeout=openai.Timeout(5.0, read=0.05),
    ) as client:
        with pytest.raises(openai.APITimeoutError):
            await client.chat.completions.create(model="m", messages=HI)
    stream = await bench.opened()
    await bench.until(lambda: stream.ended)
    assert stream.cancelled == "the client left"


async def test_a_cancelled_task_stops_the_engine(bench: Bench) -> None:
    """As frameworks do with the handler of a request whose sender left."""
    async with AsyncOpenAI(
        base_url=f"{bench.front.url}/v1", api_key="none", max_retries=0
    ) as client:
        asking = asyncio.create_task(client.chat.completions.create(model="m", messages=HI))
        stream = await bench.opened()
        asking.cancel()
        await bench.until(lambda: stream.ended)
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert stream.cancelled == "the client left"


async def test_a_closed_stream_of_the_synchronous_client_stops_the_engine(bench: Bench) -> None:
    """The `with` block ends after the first delta."""

    def begins(stream: FakeStream) -> None:
        stream.head(200, EVENTS).data(delta("hel"))

    bench.link.script = begins

    def read_one() -> str | None:
        with (
            OpenAI(base_url=f"{bench.front.url}/v1", api_key="none", max_retries=0) as client,
            client.chat.completions.create(model="m", messages=HI, stream=True) as stream,
        ):
            return next(stream).choices[0].delta.content

    assert await asyncio.to_thread(read_one) == "hel"
    await bench.until(lambda: bench.link.streams[0].ended)
    assert bench.link.streams[0].cancelled == "the client left"
