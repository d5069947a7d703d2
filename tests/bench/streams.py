"""Many streams at once: how evenly their chunks come, and what each chunk costs.

`STREAMS` streams of 25 chunks a second run through each target in its turn, the engine itself
first, and then through each once more. What a target adds is the difference of percentiles of the
time between two chunks.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, cast

import uvloop
from tests.bench import paths, peers, procfs, report
from tests.bench.capacity import DIRECT, ON_THE_WAY, ROUTERS, Scene
from tests.bench.engine import MODEL
from tests.bench.load import FailedRequestError, chat_request, percentile
from tests.bench.measure import MS, no_gc
from tests.bench.peers import Peer
from tests.bench.report import Figure
from tests.e2e.product import Product

STREAMS: Final = 500
A_SECOND: Final = 25
SPREAD_S: Final = 1.0
"""Over which the streams begin."""
SETTLED_S: Final = 2.0
MEASURED_S: Final = 5.0
TURNS: Final = 2
"""Of each target: the machine's pace differs from one minute to the next."""
LASTS_S: Final = SETTLED_S + MEASURED_S + 1.0
ENDED_WITHIN_S: Final = 10.0
P99_ADDED_MAX_MS: Final = 10.0
CPU_RATIO_MAX: Final = 0.8
_EVENT: Final = b"data:"
_DONE: Final = b"[DONE]"


class _Reader(asyncio.Protocol):
    """One stream: the instants of its chunks, while they are wanted."""

    def __init__(self, request: bytes) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gaps: list[float] = []
        self.is_measured = False
        self._request = request
        self._last_at = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        count = data.count(_EVENT)
        if count and self.is_measured:
            self.gaps.append(now - self._last_at)
            self.gaps.extend([0.0] * (count - 1))
        if count:
            self._last_at = now
        if _DONE in data and not self.ended.done():
            self.ended.set_result(None)
            assert self._transport is not None
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_exception(FailedRequestError(f"a stream was cut: {exc}"))


class Flow(NamedTuple):
    """What the streams of one target did while they were measured."""

    gaps_ms: Sequence[float]
    cpu_us: Mapping[str, float]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this area."""
    parser.add_argument(
        "--peers", default=",".join(peers.NAMES), help="by pip; separated by commas, or empty"
    )
    parser.add_argument("--streams", type=int, default=STREAMS, help="at once")


def run(options: argparse.Namespace) -> list[Figure]:
    """Measure every target."""
    load = report.load_before()
    deltas = int(A_SECOND * LASTS_S)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        product = stack.enter_context(Product(folder, tls=False))
        engine = ("--deltas", str(deltas), "--interval-s", str(1 / A_SECOND))
        path = paths.start(product, engine=engine)
        started: list[Peer] = []
        for name in filter(None, options.peers.split(",")):
            process, port = peers.start(name, f"http://127.0.0.1:{path.engine_port}", folder)
            stack.callback(process.end)
            started.append(peers.when_up(name, process, port))
        return [load, *uvloop.run(_measure(Scene(path, started), options.streams))]


async def _measure(scene: Scene, streams: int) -> list[Figure]:
    turns: dict[str, list[Flow]] = {name: [] for name in scene.ports()}
    for _ in range(TURNS):
        for name, port in scene.ports().items():
            turns[name].append(await _flow(port, scene.watched(name), streams))
    flows = {name: _together(of_one) for name, of_one in turns.items()}
    return list(_figures(flows, [peer.name for peer in scene.peers], streams))


def _together(turns: Sequence[Flow]) -> Flow:
    """Return all gaps of the turns, and the mean of what a chunk cost."""
    return Flow(
        [gap for turn in turns for gap in turn.gaps_ms],
        {role: statistics.fmean(turn.cpu_us[role] for turn in turns) for role in turns[0].cpu_us},
    )


async def _flow(port: int, watched: Mapping[str, int], streams: int) -> Flow:
    """Run *streams* streams from their beginning to their end."""
    loop = asyncio.get_running_loop()
    request = chat_request(MODEL, stream=True)
    readers: list[_Reader] = []
    started = loop.time()
    with no_gc():
        for number in range(streams):
            await asyncio.sleep(started + number * SPREAD_S / streams - loop.time())
            _, reader = await loop.create_connection(lambda: _Reader(request), "127.0.0.1", port)
            readers.append(reader)
        await asyncio.sleep(started + SETTLED_S - loop.time())
        before = {role: procfs.cpu_s(pid) for role, pid in watched.items()}
        for reader in readers:
            reader.is_measured = True
        await asyncio.sleep(MEASURED_S)
        for reader in readers:
            reader.is_measured = False
        spent = {role: procfs.cpu_s(pid) - before[role] for role, pid in watched.items()}
    async with asyncio.timeout(ENDED_WITHIN_S):
        await asyncio.gather(*(reader.ended for reader in readers))
    # The first gap of each began before the measurement did.
    gaps = [gap * MS for reader in readers for gap in reader.gaps[1:]]
    chunks = sum(len(reader.gaps) for reader in readers)
    return Flow(gaps, {role: cpu_s * 1e6 / chunks for role, cpu_s in spent.items()})


def _figures(
    flows: Mapping[str, Flow], peer_names: Sequence[str], streams: int
) -> Iterator[Figure]:
    direct, load = flows[DIRECT], f"{streams} streams"
    for name, flow in flows.items():
        rate = len(flow.gaps_ms) / (MEASURED_S * TURNS)
        yield Figure(f"chunks a second, {name}, {load}", rate, "1/s")
        if name == DIRECT:
            continue
        for percent in (50, 99):
            added = percentile(flow.gaps_ms, percent) - percentile(direct.gaps_ms, percent)
            what = f"added between chunks, p{percent}, {name}, {load}"
            if name in ON_THE_WAY and percent > 50:
                yield Figure.below(what, added, "ms", P99_ADDED_MAX_MS)
            else:
                yield Figure(what, added, "ms")
        for role, cpu_us in flow.cpu_us.items():
            yield Figure(f"CPU a chunk, {name}, of {role}, {load}", cpu_us, "us")
    for peer in peer_names:
        theirs = flows[peer].cpu_us[peer]
        for way in ROUTERS:
            ours, told = flows[way].cpu_us, f"{theirs:.0f} us {peer}, same run"
            limit = CPU_RATIO_MAX if peer == peers.SGLANG_ROUTER else None
            for what, cpu_us in (
                ("router", ours[ROUTERS[way]]),
                ("together", sum(ours.values())),
            ):
                name = f"CPU a chunk, {what}, {way}, {load}, of {peer}"
                if limit is None:
                    yield Figure(name, cpu_us / theirs, "x", baseline=told)
                else:
                    yield Figure.below(name, cpu_us / theirs, "x", limit, told)
