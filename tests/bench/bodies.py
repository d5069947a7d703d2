"""Large bodies: how fast they pass, and what small requests notice of them.

Bodies of 50 MB go up, one after another, and come down again, through each target in its turn, from
a process of its own. Meanwhile small requests are sent at a steady pace through the same target;
their latency is compared with that of the same pace without large bodies.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import uvloop
from tests.bench import paths, peers, report
from tests.bench.capacity import DIRECT, ROUTERS, Scene
from tests.bench.engine import MODEL
from tests.bench.load import Target, chat_request, open_loop, percentile
from tests.bench.measure import no_gc, total_ms, warmed
from tests.bench.peers import Peer
from tests.bench.report import Figure
from tests.e2e.product import Product

MB: Final = 1_000_000
SIZE: Final = 50 * MB
SMALL_RATE: Final = 50.0
SMALL: Final = 250
"""Small requests, with and without large bodies: five seconds each."""
LARGE_WITHIN_S: Final = 60.0
RATE_MIN_MBS: Final = 60.0
SLOWER_MAX: Final = 3.0


class Passed(NamedTuple):
    """What large bodies did in one direction.

    Attributes:
        rate_mbs: Megabytes a second, of the median body.
        busy_ms: Of small requests meanwhile.
    """

    rate_mbs: float
    busy_ms: list[float]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this area."""
    parser.add_argument(
        "--peers", default=peers.SGLANG_ROUTER, help="by pip; separated by commas, or empty"
    )


def run(options: argparse.Namespace) -> list[Figure]:
    """Measure every target."""
    load = report.load_before()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        product = stack.enter_context(Product(folder, tls=False))
        path = paths.start(product)
        started: list[Peer] = []
        for name in filter(None, options.peers.split(",")):
            process, port = peers.start(name, f"http://127.0.0.1:{path.engine_port}", folder)
            stack.callback(process.end)
            started.append(peers.when_up(name, process, port))
        return [load, *uvloop.run(_measure(Scene(path, started)))]


async def _measure(scene: Scene) -> list[Figure]:
    figures: list[Figure] = []
    for name, port in scene.ports().items():
        small = Target(name, "127.0.0.1", port, chat_request(MODEL, stream=False))
        await warmed([small])
        with no_gc():
            await open_loop([small], rate=SMALL_RATE, count=SMALL)
        idle_ms = [total_ms(sample) for sample in small.samples]
        for way in ("up", "down"):
            passed = await _pass(port, way, small)
            figures += _figures(name, way, passed, idle_ms)
        small.close()
    return figures


async def _pass(port: int, way: str, small: Target) -> Passed:
    """Send large bodies from another process, and small requests all the while."""
    small.samples.clear()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.large", str(port), way, str(SIZE)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(LARGE_WITHIN_S):
            await process.stdout.readline()
            with no_gc():
                await open_loop([small], rate=SMALL_RATE, count=SMALL)
            process.terminate()
            told, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    rate_mbs = SIZE / MB / percentile(json.loads(told), 50)
    return Passed(rate_mbs, [total_ms(sample) for sample in small.samples])


def _figures(name: str, way: str, passed: Passed, idle_ms: list[float]) -> Iterator[Figure]:
    is_ours = name in ROUTERS
    rate, what = passed.rate_mbs, f"50 MB {way}, {name}"
    if is_ours:
        holds = rate >= RATE_MIN_MBS
        yield Figure(what, rate, "MB/s", f">= {RATE_MIN_MBS:g}", holds)
    else:
        yield Figure(what, rate, "MB/s")
    for percent in (50, 99):
        idle, busy = percentile(idle_ms, percent), percentile(passed.busy_ms, percent)
        told = f"{busy:.2f} ms, {idle:.2f} ms idle"
        slower = f"small requests meanwhile, p{percent}, {what}, of idle"
        if is_ours and percent == 50:
            yield Figure.below(slower, busy / idle, "x", SLOWER_MAX, told)
        else:
            yield Figure(slower, busy / idle, "x", baseline=told)
    if name == DIRECT:
        yield Figure(f"small requests idle, p50, {name}", percentile(idle_ms, 50), "ms")
