"""Load that costs little: raw keep-alive connections, open loop, targets taken in turn.

What a system adds is `percentile(target) - percentile(direct)` of one run in one process, with
requests sent A B A B; only such differences mean anything on a shared machine.
"""

import asyncio
import re
import ssl
import statistics
import time
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, cast

RESPONSE_WITHIN_S: Final = 30.0
FIRST_WITHIN: Final = 64 * 1024
"""Bytes in which the first event of a stream is looked for: answers may be long."""
_LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_STAMPS: Final = re.compile(rb"(?i)\r\nx-otela-timing: *([^\r]*)")
_LAST_CHUNK: Final = b"\r\n0\r\n\r\n"


class Sample(NamedTuple):
    """One request as its client saw it; instants of `time.perf_counter`."""

    sent_at: float
    first_at: float
    done_at: float
    deltas: int
    stamps: bytes = b""


class FailedRequestError(Exception):
    """A request of a benchmark did not end as it should; its figures would mean nothing."""


class _Connection(asyncio.Protocol):
    """One keep-alive connection with one request at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Sample] | None = None
        self._buffer = bytearray()
        self._sent_at = self._first_at = 0.0
        self._whole = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fail(f"the connection was lost: {exc}")

    def send(self, request: bytes) -> asyncio.Future[Sample]:
        assert self._transport is not None
        assert self._waiter is None
        self._waiter = self._loop.create_future()
        self._buffer.clear()
        self._whole = 0
        self._first_at = 0.0
        self._sent_at = time.perf_counter()
        self._transport.write(request)
        return self._waiter

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        self._buffer += data
        if not self._first_at and self._buffer.find(b"data:", 0, FIRST_WITHIN) >= 0:
            self._first_at = now
        if not self._whole:
            head_ends = self._buffer.find(b"\r\n\r\n")
            if head_ends < 0:
                return
            length = _LENGTH.search(self._buffer, 0, head_ends)
            self._whole = head_ends + 4 + int(length[1]) if length else -1
        if len(self._buffer) >= self._whole > 0 or (
            self._whole < 0 and self._buffer.endswith(_LAST_CHUNK)
        ):
            self._finish(now)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def _finish(self, now: float) -> None:
        if not self._buffer.startswith(b"HTTP/1.1 200"):
            self._fail(f"the answer was {bytes(self._buffer[:400])!r}")
            return
        stamps = _STAMPS.search(self._buffer)
        sample = Sample(
            self._sent_at,
            self._first_at or now,
            now,
            self._buffer.count(b"data:"),
            bytes(stamps[1]) if stamps else b"",
        )
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(sample)

    def _fail(self, why: str) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(FailedRequestError(why))


class Measured(Protocol):
    """What can be put under load."""

    name: str
    samples: list[Sample]

    async def once(self) -> Sample:
        """Do it once."""

    async def measure(self) -> None:
        """Do it once and keep the sample."""


class Target:
    """Where requests go: one address, one prepared request, a pool of idle connections."""

    def __init__(
        self, name: str, host: str, port: int, request: bytes, tls: ssl.SSLContext | None = None
    ) -> None:
        self.name = name
        self.request = request
        self.samples: list[Sample] = []
        self._address = (host, port)
        self._tls = tls
        self._idle: list[_Connection] = []

    async def once(self) -> Sample:
        """Send one request on a connection that is free, and return what was seen."""
        connection = await self._free()
        try:
            async with asyncio.timeout(RESPONSE_WITHIN_S):
                sample = await connection.send(self.request)
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return sample

    async def _free(self) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
        _, connection = await asyncio.get_running_loop().create_connection(
            _Connection, *self._address, ssl=self._tls
        )
        return connection

    async def measure(self) -> None:
        """Send one request and keep its sample."""
        self.samples.append(await self.once())

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()


async def open_loop(targets: Sequence[Measured], *, rate: float, count: int) -> None:
    """Send *count* requests to each target, *rate* a second, the targets evenly in between.

    A request is sent when it is due whether or not earlier ones were answered, so that a slow
    target cannot slow its own load down.
    """
    loop = asyncio.get_running_loop()
    step = 1.0 / rate / len(targets)
    start = loop.time() + step
    async with asyncio.TaskGroup() as group:
        for turn in range(count * len(targets)):
            await asyncio.sleep(start + turn * step - loop.time())
            group.create_task(targets[turn % len(targets)].measure())


async def closed_loop(target: Target, *, concurrency: int, seconds: float) -> float:
    """Keep *concurrency* requests running for *seconds*; return requests a second."""
    until = time.perf_counter() + seconds
    before = len(target.samples)

    async def client() -> None:
        while time.perf_counter() < until:
            await target.measure()

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(client())
    return (len(target.samples) - before) / (time.perf_counter() - started)


def chat_request(
    model: str, *, stream: bool, headers: Sequence[str] = (), size: int = 250
) -> bytes:
    """Return a whole HTTP request for a chat completion whose body has about *size* bytes."""
    body = b'{"model":"%b","stream":%b,"max_tokens":16,"messages":[{"role":"user","content":"%b"}]}'
    empty = body % (model.encode(), b"true" if stream else b"false", b"")
    words = (b"How many words are in this? " * (size // 28 + 1))[: max(8, size - len(empty))]
    filled = body % (model.encode(), b"true" if stream else b"false", words)
    lines = (
        "POST /v1/chat/completions HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        "Accept: */*",
        "User-Agent: bench",
        *headers,
        f"Content-Length: {len(filled)}",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + filled


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the value below which *percent* of *values* lie, between neighbours."""
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
