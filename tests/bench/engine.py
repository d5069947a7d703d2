"""A mock engine that costs next to nothing: fixed answers from a raw protocol on uvloop.

`python -m tests.bench.engine --port N [--announce FILE]` serves `/health`, `/v1/models` and
`/v1/chat/completions` (unary and SSE, the same sixteen tokens, or as many deltas as `--deltas`
says), so that what a benchmark sees beyond it is the path. `/v1/completions` answers with so many
bytes as `max_tokens` says. It can run as the engine of a supervisor and is dialled directly on the
same port for the baseline.
"""

import argparse
import asyncio
import json
import os
import re
from pathlib import Path
from typing import Final, NamedTuple, cast

import uvloop

MODEL: Final = "bench"
TOKENS: Final = 16
DELTA_INTERVAL_S: Final = 0.005
BACKLOG: Final = 1024
_LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_STREAM: Final = re.compile(rb'"stream" *: *true')
_MAX_TOKENS: Final = re.compile(rb'"max_tokens" *: *(\d+)')
_ASKED_IN_FIRST: Final = 4096
"""Bytes of a request in which what it asks for stands; bodies may be long."""
_PART: Final = b"x" * (64 * 1024)
_WORDS: Final = tuple(f"tok{index} " for index in range(TOKENS))
_USAGE: Final = {"prompt_tokens": 24, "completion_tokens": TOKENS, "total_tokens": 24 + TOKENS}


def _json(body: object) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _answer(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def _completion(**choice: object) -> dict[str, object]:
    return {"id": "chatcmpl-bench", "created": 1_700_000_000, "model": MODEL, "choices": [choice]}


def _event(body: bytes) -> bytes:
    data = b"data: " + body + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


def _delta(word: str, finish: str | None) -> bytes:
    choice = _completion(index=0, delta={"content": word}, finish_reason=finish)
    return _event(_json({**choice, "object": "chat.completion.chunk"}))


_UNARY: Final = _answer(
    "200 OK",
    _json(
        {
            **_completion(
                index=0,
                message={"role": "assistant", "content": "".join(_WORDS)},
                finish_reason="stop",
            ),
            "object": "chat.completion",
            "usage": _USAGE,
        }
    ),
)
_MODELS: Final = _answer(
    "200 OK",
    _json({"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": 4096}]}),
)
_HEALTHY: Final = _answer("200 OK", b"{}")
_UNKNOWN: Final = _answer("404 Not Found", b'{"error":{"message":"no such path"}}')
_UNSUPPORTED: Final = _answer("505 HTTP Version Not Supported", b"{}")
_STREAM_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_DELTAS: Final = tuple(
    _delta(word, "stop" if index == TOKENS - 1 else None) for index, word in enumerate(_WORDS)
)
_STREAM_END: Final = _event(b"[DONE]") + b"0\r\n\r\n"


class Pace(NamedTuple):
    """How streams are spoken."""

    deltas: int = TOKENS
    interval_s: float = DELTA_INTERVAL_S


class Connection(asyncio.Protocol):
    """One keep-alive connection; requests one after another, bodies with a Content-Length."""

    def __init__(self, pace: Pace) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._pace = pace
        self._buffer = bytearray()
        self._missing = 0  # bytes of the body that did not come yet
        self._unsent = 0
        self._is_held = False
        self._due = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport: the base protocol has no other way to answer."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop what was being streamed."""
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Answer each whole request in what has arrived; of long bodies only the start is kept."""
        while data:
            if self._missing:
                body, data = data[: self._missing], data[self._missing :]
                self._missing -= len(body)
                self._buffer += body[: max(0, _ASKED_IN_FIRST - len(self._buffer))]
            else:
                self._buffer += data
                head_ends = self._buffer.find(b"\r\n\r\n")
                if head_ends < 0:
                    return
                length = _LENGTH.search(self._buffer, 0, head_ends)
                self._missing = int(length[1]) if length else 0
                data = bytes(self._buffer[head_ends + 4 :])
                del self._buffer[head_ends + 4 :]
                if self._missing:
                    continue
            if not self._missing:
                request = bytes(self._buffer)
                self._buffer.clear()
                self._serve(request)

    def pause_writing(self) -> None:
        """Send no more of a long answer."""
        self._is_held = True

    def resume_writing(self) -> None:
        """Go on with a long answer."""
        self._is_held = False
        self._send_long()

    def _serve(self, request: bytes) -> None:
        _, _, target = request.partition(b" ")
        path, _, rest = target.partition(b" ")
        if not rest.startswith(b"HTTP/1."):
            self._write(_UNSUPPORTED)  # some routers first try HTTP/2
        elif path == b"/v1/completions":
            asked = _MAX_TOKENS.search(request)
            self._unsent = int(asked[1]) if asked else 0
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {self._unsent}"
            self._write(head.encode() + b"\r\n\r\n")
            self._send_long()
        elif path != b"/v1/chat/completions":
            answers = {b"/v1/models": _MODELS, b"/health": _HEALTHY}
            self._write(answers.get(path, _UNKNOWN))
        elif _STREAM.search(request):
            self._write(_STREAM_HEAD + _DELTAS[0])
            self._due = self._loop.time()
            self._then(1)
        else:
            self._write(_UNARY)

    def _send_long(self) -> None:
        while self._unsent and not self._is_held and self._transport is not None:
            part = _PART[: self._unsent]
            self._unsent -= len(part)
            self._transport.write(part)

    def _then(self, index: int) -> None:
        # From when it was due, lest a late turn slows the whole stream down.
        self._due += self._pace.interval_s
        self._loop.call_at(self._due, self._next, index)

    def _next(self, index: int) -> None:
        if index == self._pace.deltas:
            self._write(_STREAM_END)
        elif self._transport is not None:
            is_last = index == self._pace.deltas - 1
            self._write(_DELTAS[-1] if is_last else _DELTAS[index % (TOKENS - 1)])
            self._then(index + 1)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


async def serve(host: str, port: int, announce: Path | None, pace: Pace) -> None:
    """Serve until the process ends; tell the port and pid in *announce*."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(pace), host, port, backlog=BACKLOG)
    if announce is not None:
        bound = server.sockets[0].getsockname()[1]
        fresh = announce.with_suffix(".new")
        fresh.write_text(json.dumps({"port": bound, "pid": os.getpid()}))
        fresh.replace(announce)
    async with server:
        await server.serve_forever()


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--announce", type=Path)
    parser.add_argument("--deltas", type=int, default=TOKENS, help="of a stream")
    parser.add_argument("--interval-s", type=float, default=DELTA_INTERVAL_S, help="between two")
    options = parser.parse_args()
    pace = Pace(options.deltas, options.interval_s)
    uvloop.run(serve(options.host, options.port, options.announce, pace))


if __name__ == "__main__":
    main()
