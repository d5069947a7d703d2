"""Large bodies, one after another, from a process of its own: the load must not delay itself.

`python -m tests.bench.large PORT up|down BYTES` sends until it is told to end by SIGTERM, and
then prints the seconds that each body took. Nothing is kept of what comes.
"""

import asyncio
import json
import re
import signal
import sys
import time
from typing import Final

import uvloop
from tests.bench.engine import MODEL

PART_BYTES: Final = 256 * 1024
READ_BYTES: Final = 1024 * 1024
_LENGTH: Final = re.compile(rb"(?i)content-length: *(\d+)")
_LAST_CHUNK: Final = b"0\r\n\r\n"


async def send(port: int, way: str, size: int) -> list[float]:
    """Return the seconds of each body; the first one is not among them."""
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, told.set)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=READ_BYTES)
    times: list[float] = []
    while not told.is_set():
        started = time.perf_counter()
        await (_up(writer, size) if way == "up" else _down(writer, size))
        await _answer(reader)
        times.append(time.perf_counter() - started)
        if len(times) == 1:
            sys.stdout.write("begun\n")
            sys.stdout.flush()
    writer.close()
    return times[1:]


async def _up(writer: asyncio.StreamWriter, size: int) -> None:
    before = b'{"model":"%b","messages":[{"role":"user","content":"' % MODEL.encode()
    after = b'"}]}'
    left = size - len(before) - len(after)
    writer.write(_head("/v1/chat/completions", size) + before)
    part = b"How many words are in this? " * (PART_BYTES // 28)
    while left:
        writer.write(part[:left])
        left -= min(left, len(part))
        await writer.drain()
    writer.write(after)


async def _down(writer: asyncio.StreamWriter, size: int) -> None:
    body = b'{"model":"%b","max_tokens":%d,"prompt":"hello"}' % (MODEL.encode(), size)
    writer.write(_head("/v1/completions", len(body)) + body)


async def _answer(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"the answer was {head!r}")
    length = _LENGTH.search(head)
    left = int(length[1]) if length else -1
    end = b""
    while left and not end.endswith(_LAST_CHUNK):
        part = await reader.read(READ_BYTES)
        if not part:
            raise RuntimeError("the answer was cut off")
        if left > 0:
            left -= len(part)
        else:
            end = (end + part)[-len(_LAST_CHUNK) :]


def _head(path: str, size: int) -> bytes:
    lines = (
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {size}",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(uvloop.run(send(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))))
