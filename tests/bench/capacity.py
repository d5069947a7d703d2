"""What one core can do: the whole product on one core, peers on the same core in their turn.

Everything of the product that works on a request (router, hub, leaf, supervisor) shares one core;
the engine and the load share the other. Targets take turns, and each figure is the median of its
turns. A share of a peer counts only within one run.
"""

import argparse
import os
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import uvloop
from tests.bench import paths, peers, procfs, report
from tests.bench.engine import MODEL
from tests.bench.load import Target, chat_request
from tests.bench.measure import Saturation, saturated, warmed
from tests.bench.peers import Peer
from tests.bench.pinning import Cores, pin
from tests.bench.report import Figure
from tests.e2e.product import Product

CONCURRENCIES: Final = (16, 64)
TURNS: Final = 3
SECONDS: Final = 2.0
MESH: Final = "mesh"
HOME: Final = "called home"
DIALLED: Final = "dialled"
LENT: Final = "lent"
DIRECT: Final = "direct"
ON_THE_WAY: Final = {
    MESH: ("router", "hub", "leaf", "supervisor"),
    HOME: ("home", "supervisor"),
    DIALLED: ("dialled", "supervisor"),
    LENT: ("lent", "supervisor"),
}
"""By the way that a request takes: whose CPU it costs."""
ROUTERS: Final = {MESH: "router", HOME: "home", DIALLED: "dialled", LENT: "lent"}
RPS_RATIO_MIN: Final = 1.1
CPU_RATIO_MAX: Final = 0.6
PSS_RATIO_MAX: Final = 0.75


class Scene(NamedTuple):
    """What takes turns on the core."""

    path: paths.ServingPath
    peers: Sequence[Peer]

    def ports(self) -> dict[str, int]:
        """Return where everything that is measured is dialled, the engine itself first."""
        return {
            DIRECT: self.path.engine_port,
            MESH: self.path.router_port,
            HOME: self.path.home_port,
            DIALLED: self.path.dialled_port,
            LENT: self.path.lent_port,
            **{peer.name: peer.port for peer in self.peers},
        }

    def targets(self) -> list[Target]:
        """Return everything that is measured, asked for short whole answers."""
        request = chat_request(MODEL, stream=False)
        return [Target(name, "127.0.0.1", port, request) for name, port in self.ports().items()]

    def watched(self, target: str) -> dict[str, int]:
        """Return whose CPU a request to *target* costs."""
        for peer in self.peers:
            if peer.name == target:
                return {target: peer.pid}
        return {role: self.path.pids[role] for role in ON_THE_WAY.get(target, ("engine",))}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this area."""
    parser.add_argument(
        "--peers", default=",".join(peers.NAMES), help="by pip; separated by commas, or empty"
    )
    parser.add_argument("--turns", type=int, default=TURNS, help="of each target")


def run(options: argparse.Namespace) -> list[Figure]:
    """Measure everything on one core."""
    load = report.load_before()
    cores, usable = Cores.of_this_machine(), os.sched_getaffinity(0)
    with ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, usable)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        product = stack.enter_context(Product(folder, tls=False))
        path = paths.start(product)
        started: list[Peer] = []
        for name in filter(None, options.peers.split(",")):
            process, port = peers.start(name, f"http://127.0.0.1:{path.engine_port}", folder)
            stack.callback(process.end)
            started.append(peers.when_up(name, process, port))
        pin((service.process.pid for service in product.services), cores.measured)
        pin((peer.pid for peer in started), cores.measured)
        pin((os.getpid(), path.pids["engine"]), cores.other)
        return [load, *uvloop.run(_measure(Scene(path, started), options.turns))]


async def _measure(scene: Scene, turns: int) -> list[Figure]:
    figures: list[Figure] = []
    targets = scene.targets()
    await warmed(targets)
    for concurrency in CONCURRENCIES:
        taken: dict[str, list[Saturation]] = {target.name: [] for target in targets}
        for _ in range(turns):
            for target in targets:
                watched = scene.watched(target.name)
                taken[target.name].append(
                    await saturated(target, watched, concurrency=concurrency, seconds=SECONDS)
                )
        middle = {name: _middle(turns) for name, turns in taken.items()}
        figures += _figures(scene, middle, f"c={concurrency}", is_judged=concurrency == 16)
    figures += _memory(scene)
    for target in targets:
        target.close()
    return figures


def _middle(turns: Sequence[Saturation]) -> Saturation:
    """Return the median of each number."""
    return Saturation(
        statistics.median(turn.rps for turn in turns),
        statistics.median(turn.p50_ms for turn in turns),
        {role: statistics.median(turn.cpu_us[role] for turn in turns) for role in turns[0].cpu_us},
    )


def _figures(
    scene: Scene, middle: Mapping[str, Saturation], load: str, *, is_judged: bool
) -> Iterator[Figure]:
    """Return what each did, and ours in shares of the peers'."""
    for name, done in middle.items():
        yield Figure(f"requests a second on one core, {name}, {load}", done.rps, "1/s")
        yield Figure(f"p50, {name}, {load}", done.p50_ms, "ms")
        for role, cpu_us in done.cpu_us.items():
            yield Figure(f"CPU a request, {name}, of {role}, {load}", cpu_us, "us")
        if len(done.cpu_us) > 1:
            whole_us = sum(done.cpu_us.values())
            yield Figure(f"CPU a request, {name}, together, {load}", whole_us, "us")
    for peer in scene.peers:
        theirs = middle[peer.name]
        for way, router in ROUTERS.items():
            ours = middle[way]
            told = f"{ours.rps:.0f}/s and {theirs.rps:.0f}/s {peer.name}"
            spent = sum(ours.cpu_us.values())
            ratio = theirs.cpu_us[peer.name] / spent
            counts = is_judged and peer.name == peers.SGLANG_ROUTER
            yield Figure(
                f"requests a second of a core's time, {way}, {load}, of {peer.name}",
                ratio,
                "x",
                f">= {RPS_RATIO_MIN:g}" if counts else "",
                ratio >= RPS_RATIO_MIN if counts else None,
                told,
            )
            yield _share(
                f"CPU a request, router, {way}, {load}, of {peer.name}",
                ours.cpu_us[router] / theirs.cpu_us[peer.name],
                CPU_RATIO_MAX if counts else None,
                f"{theirs.cpu_us[peer.name]:.0f} us {peer.name}",
            )


def _memory(scene: Scene) -> Iterator[Figure]:
    """Return what each process holds after the load."""
    held = {role: procfs.pss_mb(pid) for role, pid in scene.path.pids.items()}
    for role, pss_mb in held.items():
        yield Figure(f"PSS, {role}", pss_mb, "MB")
    yield Figure("PSS, everything for one site", sum(held[role] for role in ON_THE_WAY[MESH]), "MB")
    for peer in scene.peers:
        theirs = procfs.pss_mb(peer.pid)
        counts = peer.name == peers.SGLANG_ROUTER
        yield _share(
            f"PSS, router, of {peer.name}",
            held["router"] / theirs,
            PSS_RATIO_MAX if counts else None,
            f"{theirs:.0f} MB {peer.name}",
        )


def _share(name: str, ratio: float, limit: float | None, told: str) -> Figure:
    if limit is None:
        return Figure(name, ratio, "x", baseline=told)
    return Figure.below(name, ratio, "x", limit, told)
