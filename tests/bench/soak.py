"""Memory over very many requests: whole answers and short streams, over the mesh and called home.

After each twentieth the proportional set sizes are read; what grows between the first fifth and the
end grows with the number of requests. It stops after `--minutes` at the latest, and says how many
requests there were.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import uvloop
from tests.bench import paths, procfs, report
from tests.bench.capacity import HOME, MESH, Scene
from tests.bench.engine import MODEL
from tests.bench.load import Target, chat_request, closed_loop
from tests.bench.report import Figure
from tests.e2e.product import Product

REQUESTS: Final = 1_000_000
MINUTES: Final = 10.0
CONCURRENCY: Final = 32
SLICE_S: Final = 2.0
WATCHED: Final = ("router", "home", "supervisor", "hub", "leaf")
SETTLED: Final = 0.2
"""Of all requests: by then caches, tables of what has ended and pools have their size."""
GROWTH_MAX_MB: Final = 3.0
"""Of one process between then and the end: what an allocator scatters, and no leak: a hundred bytes
a request would be eighty."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this area."""
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="at most")


def run(options: argparse.Namespace) -> list[Figure]:
    """Ask, and watch the memory."""
    load = report.load_before()
    with tempfile.TemporaryDirectory() as folder, Product(Path(folder), tls=False) as product:
        path = paths.start(product, engine=("--interval-s", "0"))
        soaked = _soak(Scene(path, ()), options.requests, options.minutes * 60)
        return [load, *uvloop.run(soaked)]


async def _soak(scene: Scene, wanted: int, seconds: float) -> list[Figure]:
    ports = scene.ports()
    targets = [
        Target(way, "127.0.0.1", ports[way], chat_request(MODEL, stream=stream))
        for stream in (False, True)
        for way in (MESH, HOME)
    ]
    started, done = time.perf_counter(), 0
    sizes: list[tuple[int, dict[str, float]]] = []
    while done < wanted and time.perf_counter() - started < seconds:
        for target in targets:
            await closed_loop(target, concurrency=CONCURRENCY, seconds=SLICE_S)
            done += len(target.samples)
            target.samples.clear()
        sizes.append((done, {role: procfs.pss_mb(scene.path.pids[role]) for role in WATCHED}))
    for target in targets:
        target.close()
    return list(_figures(sizes, wanted))


def _figures(sizes: Sequence[tuple[int, Mapping[str, float]]], wanted: int) -> Iterator[Figure]:
    done, last = sizes[-1]
    yield Figure("requests", done, "", f">= {wanted}", done >= wanted)
    settled = next(held for count, held in sizes if count >= done * SETTLED)
    for role in WATCHED:
        told = f"{settled[role]:.1f} MB after a fifth, {last[role]:.1f} MB at the end"
        growth = last[role] - settled[role]
        yield Figure.below(f"growth of {role}", growth, "MB", GROWTH_MAX_MB, told)
