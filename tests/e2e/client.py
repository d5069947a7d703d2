"""A client with a memory: keeps requests running against a router and writes their history.

`python -m tests.e2e.client --url U --model M --history FILE` sends unary and streaming chats,
mixed, until `--count` is reached or, without it, until SIGTERM; what runs is then finished.
It is a process of its own so that it can stand in another network.
"""

import argparse
import asyncio
import itertools
import json
import os
import signal
import time
from pathlib import Path
from typing import Any, BinaryIO, Final

import aiohttp
from multidict import CIMultiDict
from tests.e2e.history import Exchange, to_line

REQUEST_WITHIN_S: Final = 60.0
_DONE: Final = "[DONE]"


class Reading:
    """What has been understood of one answer so far."""

    def __init__(self) -> None:
        self.first_at = 0.0
        self.text = ""
        self.finish: list[str] = []
        self.is_done = False
        self.error = ""

    def take(self, body: dict[str, Any]) -> None:
        """Take in one JSON object: an error, a whole completion or a chunk."""
        if error := body.get("error"):
            self.error = str(error.get("code") or error.get("type") or error)
        for choice in body.get("choices", ()):
            said = choice.get("message") or choice.get("delta") or {}
            self.text += said.get("content") or ""
            if choice.get("finish_reason"):
                self.finish.append(choice["finish_reason"])

    def take_line(self, line: bytes) -> None:
        """Take in one line of an event stream."""
        if not line.startswith(b"data:"):
            return
        self.first_at = self.first_at or time.monotonic()
        data = line.removeprefix(b"data:").strip().decode()
        if data == _DONE:
            self.is_done = True
        else:
            self.take(json.loads(data))


class Client:
    """Sends numbered requests and writes each one's line when it has ended."""

    def __init__(self, options: argparse.Namespace, output: BinaryIO) -> None:
        self._url = f"{options.url}/v1/chat/completions"
        self._model = options.model
        self._tokens = options.tokens
        key = os.environ.get("OPENAI_API_KEY")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._output = output
        self._numbers = iter(range(options.count) if options.count else itertools.count())
        self.is_stopping = False

    async def worker(self, http: aiohttp.ClientSession) -> None:
        """Send one request after another, until there are enough."""
        for number in self._numbers:
            exchange = await self.exchange(http, number, stream=number % 2 == 1)
            self._output.write(to_line(exchange))
            self._output.flush()
            if self.is_stopping:
                return

    async def exchange(self, http: aiohttp.ClientSession, number: int, *, stream: bool) -> Exchange:
        """Send request *number* and return what became of it."""
        body = {
            "model": self._model,
            "stream": stream,
            "max_tokens": self._tokens,
            "messages": [{"role": "user", "content": f"request {number}"}],
        }
        reading, started_at = Reading(), time.monotonic()
        status, cut, headers = 0, "", CIMultiDict[str]()
        try:
            async with http.post(self._url, json=body, headers=self._headers) as response:
                status, headers = response.status, CIMultiDict(response.headers)
                if response.content_type == "text/event-stream":
                    async for line in response.content:
                        reading.take_line(line)
                else:
                    reading.take(await response.json())
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            cut = f"{type(error).__name__}: {error}"
        return Exchange(
            number=number,
            stream=stream,
            started_at=started_at,
            ended_at=time.monotonic(),
            first_at=reading.first_at,
            status=status,
            text=reading.text,
            finish=tuple(reading.finish),
            is_done=reading.is_done,
            error=reading.error,
            cut=cut,
            session=headers.get("x-otela-session", ""),
            attempts=int(headers.get("x-otela-attempts", "0")),
        )


async def run(options: argparse.Namespace) -> None:
    """Run the workers until they are done."""
    with options.history.open("ab") as output:
        client = Client(options, output)

        def stop() -> None:
            client.is_stopping = True

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
        limits = aiohttp.ClientTimeout(total=REQUEST_WITHIN_S)
        connector = aiohttp.TCPConnector(limit=options.concurrency)
        async with (
            aiohttp.ClientSession(timeout=limits, connector=connector) as http,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(options.concurrency):
                group.create_task(client.worker(http))


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--history", type=Path, required=True)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=16)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
