"""What the mesh adds to a request: a router's link to a gateway and its engine, against direct.

`python -m tests.bench.data_path [--topology one|leaf|lhl] [--rates 1,4,16] [--seconds 20]`

The link, its load and the direct connection share one process; servers, gateway and engine have
their own. Requests go direct and through the mesh by turns, so that both meet the same machine.
The client's hop to the router is not in these figures.
"""

import argparse
import asyncio
import contextlib
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, NamedTuple

import uvloop
from tests.bench import procfs, report
from tests.bench.load import percentile
from tests.bench.report import Figure

from opentela.core.ids import ProviderId, SessionId, SiteId
from opentela.engine.connection import AnswerHead
from opentela.engine.pool import EngineAddress, EngineHttp
from opentela.mesh import access as access_files
from opentela.mesh import data_client
from opentela.mesh.nats_wire import Message
from opentela.router.link import MeshLink
from opentela.supervisor.gateway import Gateway
from opentela.testing.mesh import HUB, TestMesh, until
from opentela.wire import subjects
from opentela.wire.frames import Fail, FailKind, Headers, Open, Timings
from opentela.wire.subjects import SessionPath

PATH: Final = SessionPath(ProviderId("p"), SiteId("a"), SessionId("01JDBENCH"))
ECHO: Final = PATH._replace(session=SessionId("ECHO"))
HEADERS: Final[Headers] = (("content-type", "application/json"), ("accept", "*/*"))
URL: Final = "/v1/chat/completions"
PLACES: Final = {"one": (HUB, HUB), "leaf": (HUB, "a"), "lhl": ("b", "a")}
LEAVES: Final = {"one": (), "leaf": ("a",), "lhl": ("a", "b")}
MS: Final = 1e3


def body(*, stream: bool) -> bytes:
    """Return a request of about 250 bytes."""
    return json.dumps(
        {"model": "bench", "stream": stream, "messages": [{"role": "user", "content": "x" * 180}]}
    ).encode()


class Timed:
    """One request, link's sink and engine's listener at once."""

    def __init__(self) -> None:
        self.sent_at = time.perf_counter()
        self.first_at = 0.0
        self.done: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def on_ack(self) -> None:
        """The session has it."""

    def on_answer(self, status: int, headers: Headers, body: bytes, timings: Timings) -> None:
        """All came at once."""
        self.first_at = time.perf_counter()
        self.done.set_result(self.first_at)

    def on_head(self, status: int, headers: Headers) -> None:
        """The engine answers."""

    def on_data(self, data: bytes) -> None:
        """A part came."""
        self.first_at = self.first_at or time.perf_counter()

    def on_end(self, timings: Timings) -> None:
        """All came."""
        self.done.set_result(time.perf_counter())

    def on_fail(self, fail: Fail) -> None:
        """A figure would mean nothing."""
        self.done.set_exception(RuntimeError(str(fail)))

    def on_connected(self) -> None:
        """The direct way has a connection."""

    def on_took(self, size: int) -> None:
        """The direct way sent a part."""

    def on_read(self, head: AnswerHead | None, data: bytes, *, ended: bool) -> None:
        """The direct way got a part."""
        if data:
            self.first_at = self.first_at or time.perf_counter()
        if ended:
            self.done.set_result(time.perf_counter())

    def on_failed(self, kind: FailKind, message: str) -> None:
        """A figure would mean nothing."""
        self.done.set_exception(RuntimeError(message))


class Sample(NamedTuple):
    """Seconds to the first byte and to the end."""

    first_s: float
    whole_s: float


class Bench:
    """A link, a direct way, and the processes between."""

    def __init__(self, link: MeshLink, direct: EngineHttp, pids: dict[str, int]) -> None:
        self.link = link
        self.direct = direct
        self.pids = pids
        self._echoed: asyncio.Future[None]
        link.client.subscribe(subjects.replies("router1", "echo"), self._on_echo)

    async def through(self, payload: bytes) -> Sample:
        """Send one request through the mesh."""
        timed = Timed()
        self.link.open(
            PATH,
            method="POST",
            path_and_query=URL,
            headers=HEADERS,
            body=payload,
            deadline_s=60.0,
            trace="",
            sink=timed,
        )
        return await self._finished(timed)

    async def directly(self, payload: bytes) -> Sample:
        """Send one request to the engine."""
        timed = Timed()
        self.direct.ask(Open(0, "POST", URL, HEADERS, payload), timed)
        return await self._finished(timed)

    async def bare(self, payload: bytes) -> Sample:
        """Send a message to the gateway's process and back: the mesh alone."""
        sent_at = time.perf_counter()
        self._echoed = asyncio.get_running_loop().create_future()
        reply = subjects.reply("router1", PATH.provider, "echo", "x")
        self.link.client.publish(subjects.data(ECHO), payload, reply)
        await self._echoed
        whole_s = time.perf_counter() - sent_at
        return Sample(whole_s, whole_s)

    def _on_echo(self, _: Message) -> None:
        self._echoed.set_result(None)

    async def _finished(self, timed: Timed) -> Sample:
        done_at = await timed.done
        return Sample(timed.first_at - timed.sent_at, done_at - timed.sent_at)

    async def paced(self, rate: float, seconds: float, payload: bytes) -> list[Figure]:
        """Return what is added at *rate* requests a second each way."""
        ways = {"direct": self.directly, "mesh": self.through, "bare": self.bare}
        samples: dict[str, list[Sample]] = {way: [] for way in ways}
        started, turns = time.perf_counter(), 0
        for _ in range(max(30, int(rate * seconds))):
            for way, send in ways.items():
                due = started + turns / (len(ways) * rate)
                turns += 1
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                samples[way].append(await send(payload))
        is_stream = b'"stream": true' in payload
        name = "stream, first byte" if is_stream else "unary"
        figures = []
        for percent in (50, 99):
            each = {
                way: percentile(
                    [one.first_s if is_stream else one.whole_s for one in taken], percent
                )
                for way, taken in samples.items()
            }
            added = (each["mesh"] - each["direct"]) * MS
            figures.append(Figure(f"{name}, {rate:g}/s: added p{percent}", added, "ms"))
            bare = each["bare"] * MS
            figures.append(Figure(f"of that, a bare round trip p{percent}", bare, "ms"))
        return figures

    async def saturated(self, seconds: float, payload: bytes) -> list[Figure]:
        """Return requests a second and CPU of each with 16 clients that never pause."""
        before = {name: procfs.cpu_s(pid) for name, pid in self.pids.items()}
        stop_at = time.perf_counter() + seconds
        count = 0

        async def client() -> None:
            nonlocal count
            while time.perf_counter() < stop_at:
                await self.through(payload)
                count += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(16):
                group.create_task(client())
        figures = [Figure("unary, 16 clients", count / seconds, "1/s")]
        for name, pid in self.pids.items():
            spent = (procfs.cpu_s(pid) - before[name]) / count
            figures.append(Figure(f"unary, 16 clients: CPU of {name}", spent * 1e6, "µs"))
        return figures


def _spawned(*command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", *command])


def _exists(file: Path) -> bool:
    return file.exists()


def _read(file: Path) -> dict[str, int]:
    read: dict[str, int] = json.loads(file.read_text())
    return read


@contextlib.asynccontextmanager
async def child(*command: str, announce: Path) -> AsyncIterator[dict[str, int]]:
    """Run a Python module beside us until the block ends; yield what it announces."""
    process = _spawned(*command, str(announce))
    try:
        await until(lambda: _exists(announce))
        yield _read(announce)
    finally:
        process.terminate()
        process.wait()


@contextlib.asynccontextmanager
async def opened(topology: str, folder: Path) -> AsyncIterator[Bench]:
    """Start servers, engine and gateway, and connect a link."""
    router_at, session_at = PLACES[topology]
    async with contextlib.AsyncExitStack() as stack:
        mesh = await stack.enter_async_context(TestMesh(leaves=LEAVES[topology]))
        engine = await stack.enter_async_context(
            child("tests.bench.engine", "--announce", announce=folder / "engine.json")
        )
        credentials = folder / "gateway.toml"
        access_files.write(credentials, mesh.access(role="provider", provider="p", at=session_at))
        gateway = await stack.enter_async_context(
            child(
                "tests.bench.data_path",
                "--gateway",
                str(credentials),
                "--engine-port",
                str(engine["port"]),
                "--announce",
                announce=folder / "gateway.json",
            )
        )
        client = await data_client.connect(mesh.access(role="router", at=router_at), name="bench")
        stack.push_async_callback(client.close)
        link = MeshLink(client, role="router1", rng=random.Random(1))
        await link.start()
        stack.callback(link.close)
        direct = EngineHttp(EngineAddress("127.0.0.1", engine["port"]))
        stack.callback(direct.close)
        pids = {"link and load": os.getpid(), "gateway": gateway["pid"]}
        pids |= {f"server {at}": mesh.server(at).pid for at in (HUB, *LEAVES[topology])}
        bench = Bench(link, direct, pids)
        await until(lambda: _answers(bench))
        yield bench


async def _answers(bench: Bench) -> bool:
    try:
        await bench.through(body(stream=False))
    except RuntimeError:
        return False
    return True


async def run(options: argparse.Namespace) -> list[Figure]:
    """Return every figure."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        async with opened(options.topology, Path(folder)) as bench:
            for payload in (body(stream=False), body(stream=True)):
                for _ in range(50):
                    await bench.through(payload)
                    await bench.directly(payload)
                gc.collect()
                gc.disable()
                for rate in map(float, options.rates.split(",")):
                    figures += await bench.paced(rate, options.seconds, payload)
                gc.enable()
            figures += await bench.saturated(3.0, body(stream=False))
    return figures


async def serve_gateway(credentials: Path, port: int, announce: Path) -> None:
    """Be the gateway of a session until the process ends."""
    access = access_files.read(credentials)
    client = await data_client.connect(access, name="gateway")
    gateway = Gateway(client, PATH, EngineHttp(EngineAddress("127.0.0.1", port)))
    await gateway.start()

    def echo(message: Message) -> None:
        client.publish(message.reply, message.payload)

    client.subscribe(subjects.data(ECHO), echo)
    await client.round_trip()
    fresh = announce.with_suffix(".new")
    fresh.write_text(json.dumps({"pid": os.getpid()}))
    fresh.replace(announce)
    await asyncio.Event().wait()


def main() -> None:
    """Parse the command line and measure, or be the gateway of a measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topology", choices=PLACES, default="leaf")
    parser.add_argument("--rates", default="1,4,16")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--gateway", type=Path)
    parser.add_argument("--engine-port", type=int)
    parser.add_argument("--announce", type=Path)
    options = parser.parse_args()
    if options.gateway:
        uvloop.run(serve_gateway(options.gateway, options.engine_port, options.announce))
        return
    figures = uvloop.run(run(options))
    command = f"python -m tests.bench.data_path --topology {options.topology}"
    report.write(f"data_path_{options.topology}", figures, command)
    report.show(f"The mesh's share of a request ({options.topology})", figures)


if __name__ == "__main__":
    main()
