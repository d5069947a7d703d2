"""Hundreds of clients that are slow in every way cost what is written, and nobody else anything."""

import asyncio
import gc
import socket
from pathlib import Path
from urllib.parse import urlsplit

from tests.integration.router.conftest import Bench
from tests.integration.router.raw import Raw, post
from tests.integration.router.test_forwarding import ANSWER, DELTA

from opentela.core.clock import Clock
from opentela.router.connection import OUT_BYTES_MAX, Connection
from opentela.testing.fake_link import EVENTS, FakeStream
from opentela.wire.frames import PART_BYTES, WINDOW_BYTES

EACH = 30
"""Of each kind: in parts of a head, in parts of a body, readers that do not read, those that have
closed their half, and those that say nothing."""
STREAM = post(b'{"model":"m","stream":true}')
ANSWER_BYTES = 1 << 20
ANSWER_EVENTS = DELTA * (ANSWER_BYTES // len(DELTA))
"""More than may be on its way to one client."""
KERNEL_BYTES = 8192
FAR_S = 1e6


class Later:
    """A clock that is far ahead."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> float:
        """Return monotonic seconds."""
        return self._clock.now() + FAR_S

    def wall(self) -> float:
        """Return Unix time."""
        return self._clock.wall()


async def connect(bench: Bench) -> Raw:
    """Return a connection of which the kernel holds little."""
    where = urlsplit(bench.front.url)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BYTES)
    sock.setblocking(False)  # noqa: FBT003 - the standard library's way
    await asyncio.get_running_loop().sock_connect(sock, (where.hostname, where.port))
    return Raw(*await asyncio.open_connection(sock=sock))


def connections(bench: Bench) -> list[Connection]:
    """Return the router's side of all."""
    return list(bench.front.gate._connections)


def descriptors() -> int:
    """Return the open files of this process."""
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def answer(stream: FakeStream) -> None:
    """Stream more than anybody takes, or answer at once."""
    if b"stream" not in stream.body:
        stream.answer(ANSWER)
        return
    stream.head(200, EVENTS).data(ANSWER_EVENTS)


async def slow_down(bench: Bench, crowd: list[Raw]) -> None:
    """Let each be slow in its own way; return once all of them are."""
    in_head, in_body, deaf, half = (crowd[kind::5] for kind in range(4))
    for client in in_head:
        client.send(STREAM[:40])
    for client in in_body:
        client.send(STREAM[:-5])
    for client in (*deaf, *half):
        client.stop_reading()
        client.send(STREAM)

    def are_slow() -> bool:
        sides = connections(bench)
        reading = sum(one._intake.reading is not None for one in sides)
        return (sum(one.is_paused for one in sides), reading) == (2 * EACH, 2 * EACH)

    await bench.until(are_slow)
    for client in half:
        client.writer.write_eof()


def pass_time(bench: Bench, sides: list[Connection]) -> None:
    """Let the time of these be over, whatever they have begun."""
    desk = bench.front.desk
    clock, desk.clock = desk.clock, Later(desk.clock)
    for one in sides:
        if one._exchange is not None:
            one._exchange.on_deadline()
        one.check(desk.clock.now())
    desk.clock = clock


async def test_slow_clients_cost_a_window_each_and_nobody_else_anything(bench: Bench) -> None:
    """They are told or cut off when their time is over, and leave nothing behind."""
    bench.link.script = answer
    before = descriptors()
    crowd = [await connect(bench) for _ in range(5 * EACH)]
    await bench.until(lambda: len(connections(bench)) == len(crowd))
    sides = connections(bench)
    for transport in filter(None, (one._transport for one in sides)):
        end = transport.get_extra_info("socket")
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)
    await slow_down(bench, crowd)
    for transport in filter(None, (one._transport for one in sides)):
        assert transport.get_write_buffer_size() <= WINDOW_BYTES + OUT_BYTES_MAX + PART_BYTES
    assert len(bench.link.streams) == 2 * EACH
    assert all(one.waiting_bytes > ANSWER_BYTES // 4 for one in bench.link.streams)
    sane = await bench.client()
    for _ in range(50):
        assert (await sane.ask(post())).body == ANSWER
    pass_time(bench, sides)
    for client in (*crowd[0::5], *crowd[1::5]):
        assert (await client.answer()).status == 408
    assert {one.cancelled for one in bench.link.streams[: 2 * EACH]} == {"the client left"}
    pass_time(bench, [one for one in sides if one._is_lingering])
    await bench.until(lambda: len(connections(bench)) == 1)
    assert (await sane.ask(post())).body == ANSWER
    for client in (*crowd, sane):
        await client.close()
    await bench.until(lambda: not connections(bench) and descriptors() <= before)
