"""The fake engine's answers: completions in one piece or as SSE, embeddings, and any other path."""

import asyncio
import hashlib
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final, Protocol

import msgspec
from aiohttp import web

from opentela.testing.fake_script import Request, Script, State

_JSON: Final = msgspec.json.Encoder().encode
_PROMPT_CHARACTERS_PER_TOKEN: Final = 4
_EMBEDDING: Final = (0.1, -0.2, 0.3)


class Engine(Protocol):
    """What the answers read."""

    script: Script
    state: State


class Answers:
    """HTTP handlers for everything that an engine computes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """`/v1/chat/completions`."""
        return await self._complete(request, _Chat)

    async def completions(self, request: web.Request) -> web.StreamResponse:
        """`/v1/completions`."""
        return await self._complete(request, _Text)

    async def embeddings(self, request: web.Request) -> web.StreamResponse:
        """`/v1/embeddings`."""
        async with self._seen(request) as seen:
            scripted = await self._scripted(request)
            if scripted is not None:
                return scripted
            document = {
                "object": "list",
                "model": seen.model,
                "data": [{"object": "embedding", "index": 0, "embedding": _EMBEDDING}],
                "usage": {"prompt_tokens": 4, "total_tokens": 4},
            }
            return _json(document)

    async def echo(self, request: web.Request) -> web.StreamResponse:
        """Any other path: what arrived, as JSON."""
        async with self._seen(request) as seen:
            scripted = await self._scripted(request)
            return _json(seen) if scripted is None else scripted

    async def _complete(self, request: web.Request, shape: "type[_Shape]") -> web.StreamResponse:
        async with self._seen(request) as seen:
            scripted = await self._scripted(request)
            if scripted is not None:
                return scripted
            try:
                asked = msgspec.json.decode(await request.read(), type=dict[str, Any])
            except msgspec.DecodeError as error:
                return _error(400, f"the body is not a JSON object: {error}")
            if seen.model not in self._engine.script.models:
                return _error(404, f"The model `{seen.model}` does not exist.")
            answer = shape(asked, seen, len(await request.read()))
            if seen.stream:
                return await self._stream(request, answer)
            return await self._unary(answer)

    async def _unary(self, answer: "_Shape") -> web.StreamResponse:
        async with aclosing(self._tokens(answer)) as tokens:
            text = [token async for token in tokens]
        return _json(answer.whole("".join(text)))

    async def _stream(self, request: web.Request, answer: "_Shape") -> web.StreamResponse:
        script = self._engine.script
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-cache",
            }
        )
        if script.stall_after == 0:
            await asyncio.Event().wait()
        async with aclosing(self._tokens(answer)) as tokens:
            first = True
            async for token in tokens:
                if first:
                    await response.prepare(request)
                    await response.write(_event(answer.begin()))
                    first = False
                await response.write(_event(answer.chunk(token)))
                if answer.seen.tokens == script.reset_after:
                    _reset(request)
                    raise _ScriptedFailure
                if answer.seen.tokens == script.stall_after:
                    await asyncio.Event().wait()
        if script.finish:
            tail = [_event(answer.finish())]
            if (answer.asked.get("stream_options") or {}).get("include_usage"):
                tail.append(_event(answer.usage_chunk()))
            await response.write(b"".join((*tail, b"data: [DONE]\n\n")))
        await response.write_eof()
        return response

    async def _tokens(self, answer: "_Shape") -> AsyncGenerator[str, None]:
        script, state = self._engine.script, self._engine.state
        state.prompt_tokens += answer.prompt_tokens
        await asyncio.sleep(script.ttft_ms / 1000)
        for index in range(answer.limit(script.tokens)):
            if index:
                await asyncio.sleep(script.tpot_ms / 1000)
            answer.seen.tokens += 1
            state.tokens += 1
            yield script.text[index % len(script.text)]

    async def _scripted(self, request: web.Request) -> web.StreamResponse | None:
        """Return the answer that the script puts in place of a real one, if it does."""
        script = self._engine.script
        match script.answer:
            case "hang":
                await asyncio.Event().wait()
            case "status":
                headers = dict(script.answer_headers)
                headers.setdefault("Content-Type", "text/html")
                return web.Response(
                    status=script.answer_status, body=script.answer_body.encode(), headers=headers
                )
            case "raw":
                assert request.transport is not None
                request.transport.write(script.raw.encode("latin-1"))
                request.transport.close()
                raise _ScriptedFailure
            case _:
                pass
        return None

    @asynccontextmanager
    async def _seen(self, request: web.Request) -> AsyncIterator[Request]:
        body = await request.read()
        seen = Request(
            method=request.method,
            path=request.raw_path,
            headers=[(str(name), value) for name, value in request.headers.items()],
            body_bytes=len(body),
            body_sha256=hashlib.sha256(body).hexdigest(),
        )
        seen.model, seen.stream = _model_and_stream(body)
        state = self._engine.state
        state.begin(seen)
        outcome = "failed"
        try:
            yield seen
            outcome = "finished"
        except (asyncio.CancelledError, ConnectionError):
            # The client went away: aiohttp cancels the handler, or a write found out first.
            outcome = "aborted"
            raise
        except _ScriptedFailure:
            raise asyncio.CancelledError from None
        finally:
            state.end(seen, outcome)


class _ScriptedFailure(Exception):  # noqa: N818 - never leaves this module
    """The script broke the connection itself."""


class _Shape:
    """One completion: what was asked, and how its answer is written."""

    kind = ""
    chunk_kind = ""

    def __init__(self, asked: dict[str, Any], seen: Request, body_bytes: int) -> None:
        self.asked = asked
        self.seen = seen
        self.prompt_tokens = 1 + body_bytes // _PROMPT_CHARACTERS_PER_TOKEN

    def limit(self, tokens: int) -> int:
        """Return how many tokens the answer has."""
        asked = self.asked.get("max_completion_tokens") or self.asked.get("max_tokens")
        return min(tokens, asked) if isinstance(asked, int) else tokens

    def whole(self, text: str) -> dict[str, Any]:
        """Return the answer in one piece."""
        choice = {"index": 0, "finish_reason": self._reason(), **self._body(text)}
        return {**self._head(self.kind), "choices": [choice], "usage": self._usage()}

    def begin(self) -> dict[str, Any]:
        """Return the chunk before the first token."""
        return self._chunk(self._delta({"role": "assistant", "content": ""}), None)

    def chunk(self, token: str) -> dict[str, Any]:
        """Return the chunk of one token."""
        return self._chunk(self._delta({"content": token}), None)

    def finish(self) -> dict[str, Any]:
        """Return the chunk that says why the answer ends."""
        return self._chunk(self._delta({}), self._reason())

    def usage_chunk(self) -> dict[str, Any]:
        """Return the chunk without choices that carries the usage."""
        return {**self._head(self.chunk_kind), "choices": [], "usage": self._usage()}

    def _body(self, text: str) -> dict[str, Any]:
        raise NotImplementedError

    def _delta(self, delta: dict[str, str]) -> dict[str, Any]:
        raise NotImplementedError

    def _chunk(self, delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, **delta, "finish_reason": reason}
        return {**self._head(self.chunk_kind), "choices": [choice]}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": "fake-1", "object": kind, "created": 0, "model": self.seen.model}

    def _reason(self) -> str:
        return "length" if self.limit(1 << 30) == self.seen.tokens else "stop"

    def _usage(self) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.seen.tokens,
            "total_tokens": self.prompt_tokens + self.seen.tokens,
        }


class _Chat(_Shape):
    kind = "chat.completion"
    chunk_kind = "chat.completion.chunk"

    def _body(self, text: str) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": text}}

    def _delta(self, delta: dict[str, str]) -> dict[str, Any]:
        return {"delta": delta}


class _Text(_Shape):
    kind = "text_completion"
    chunk_kind = "text_completion"

    def _body(self, text: str) -> dict[str, Any]:
        return {"text": text}

    def _delta(self, delta: dict[str, str]) -> dict[str, Any]:
        return {"text": delta.get("content", "")}


def _model_and_stream(body: bytes) -> tuple[str, bool]:
    try:
        asked = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return "", False
    if not isinstance(asked, dict):
        return "", False
    return str(asked.get("model", "")), asked.get("stream") is True


def _json(document: Any) -> web.Response:
    return web.Response(body=_JSON(document), content_type="application/json")


def _event(document: dict[str, Any]) -> bytes:
    return b"data: " + _JSON(document) + b"\n\n"


def _reset(request: web.Request) -> None:
    """Break the connection as a crashed engine would: with a reset, not an orderly end."""
    assert request.transport is not None
    connection = request.transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.transport.abort()


def _error(status: int, message: str) -> web.Response:
    document = {"error": {"message": message, "type": "invalid_request_error", "code": status}}
    return web.Response(body=_JSON(document), status=status, content_type="application/json")
