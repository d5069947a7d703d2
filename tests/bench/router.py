"""What the whole path adds: router, hub, leaf, supervisor, each a process started by its command.

Requests alternate between the engine itself and the router in front of hub and leaf (and, when
asked for, peers in front of the same engine). The published figure to compare with is that of the
system that this one follows: 1.42 ms added at the median, of which ingress takes 0.33, look-up
0.07, the way there 0.5, the way back 0.5, other things 0.23.
"""

import argparse
import re
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import uvloop
from tests.bench import paths, peers, procfs
from tests.bench.bare import NAME, BareRoundTrip
from tests.bench.engine import MODEL
from tests.bench.load import Sample, Target, chat_request, percentile
from tests.bench.measure import (
    QUICK_ROUNDS,
    ROUNDS,
    Round,
    added,
    first_ms,
    paced,
    saturated,
    total_ms,
    warmed,
)
from tests.bench.peers import SGLANG_ROUTER, Peer
from tests.bench.report import Figure
from tests.e2e.product import Product

from opentela.mesh import access as accesses
from opentela.mesh import data_client

PUBLISHED_MS: Final = 1.42
PUBLISHED: Final = "1.42 published, elsewhere"
STAGES: Final = {"ingress": "0.33", "lookup": "0.07", "mesh": "1.00 (0.5 there, 0.5 back)"}
"""Stages that the router tells, and the published times, in ms."""
SATURATED_S: Final = 4.0
CONCURRENCY: Final = 16
LINKS: Final = {"plain": (False,), "tls": (True,), "both": (False, True)}
MESH: Final = "mesh"
HOME: Final = "called home"
DIALLED: Final = "dialled"
LENT: Final = "lent"
"""The ways from a router to the session: by hub and leaf, or over its own connection, which one of
the two opened. (What the figures call direct is the engine, without any router.)"""
TTFT_RATIO_MAX: Final = 0.1
RATIOS_MAX: Final = {HOME: 0.85, DIALLED: 0.6, LENT: 0.6}
"""Of what a peer adds at the median, at `BUSY_RATE` and above."""
WAYS: Final = 4
"""Of ours."""
BUSY_RATE: Final = 16.0
P99_ADDED_MAX_MS: Final = 3.0
RPS_PER_CORE_RATIO_MIN: Final = 1.1
CPU_RATIO_MAX: Final = 0.6
PSS_RATIO_MAX: Final = 0.75
_STAGE: Final = re.compile(rb"([a-z]+);dur=([0-9.]+)")


class Scene(NamedTuple):
    """What is measured in one run.

    Attributes:
        tls: Whether the mesh's links are encrypted; a label of the figures.
    """

    path: paths.ServingPath
    peers: Sequence[Peer]
    rounds: Sequence[Round]
    tls: bool

    @property
    def label(self) -> str:
        """What the figures of this run are called."""
        return "hub+leaf, TLS" if self.tls else "hub+leaf"

    def targets(self, *, stream: bool) -> list[Target]:
        """Return the engine, our routers and the peers as targets."""
        request = chat_request(MODEL, stream=stream)
        ports = {"direct": self.path.engine_port, MESH: self.path.router_port}
        ports[HOME] = self.path.home_port
        ports[DIALLED] = self.path.dialled_port
        ports[LENT] = self.path.lent_port
        ports |= {peer.name: peer.port for peer in self.peers}
        return [Target(name, "127.0.0.1", port, request) for name, port in ports.items()]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this area."""
    parser.add_argument("--peers", default="", help="by pip; separated by commas, or empty")
    parser.add_argument(
        "--links", choices=tuple(LINKS), default="both", help="how those of the mesh are encrypted"
    )
    parser.add_argument("--quick", action="store_true", help="fewer requests, none of rate 1")
    parser.add_argument("--rates", default="", help="only these, separated by commas")


def run(options: argparse.Namespace) -> list[Figure]:
    """Measure everything, with and without TLS."""
    rates = {float(rate) for rate in filter(None, options.rates.split(","))}
    rounds = [
        round_
        for round_ in (QUICK_ROUNDS if options.quick else ROUNDS)
        if not rates or round_.rate in rates
    ]
    figures: list[Figure] = []
    for tls in LINKS[options.links]:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            product = stack.enter_context(Product(folder, tls=tls))
            path = paths.start(product)
            started: list[Peer] = []
            for name in () if tls else filter(None, options.peers.split(",")):
                process, port = peers.start(name, f"http://127.0.0.1:{path.engine_port}", folder)
                stack.callback(process.end)
                started.append(peers.when_up(name, process, port))
            figures.extend(uvloop.run(_measure(Scene(path, started, rounds, tls))))
    return figures


async def _measure(scene: Scene) -> list[Figure]:
    figures: list[Figure] = []
    for stream in (False, True):
        targets = scene.targets(stream=stream)
        await warmed(targets)
        for round_ in scene.rounds:
            await paced(targets, round_)
            figures.extend(_added(scene, targets, round_, stream=stream))
    figures.extend(await _control(scene))
    figures.extend(await _breakdown(scene))
    figures.extend(await _cost(scene))
    return figures


def _added(
    scene: Scene, targets: Sequence[Target], round_: Round, *, stream: bool
) -> Iterator[Figure]:
    """Return what each router and the peer added in one round."""
    direct, *rest = targets
    for router in rest[:WAYS]:
        yield from _added_by(scene, router, direct, rest[WAYS:], round_, stream=stream)


def _added_by(
    scene: Scene,
    router: Target,
    direct: Target,
    peers: Sequence[Target],
    round_: Round,
    *,
    stream: bool,
) -> Iterator[Figure]:
    what, kind = (first_ms, "TTFT") if stream else (total_ms, "unary")
    where = f"{kind}, {router.name}, {round_.rate:g}/s, {scene.label}"
    ours = added(router.samples, direct.samples, what)
    told = {peer.name: added(peer.samples, direct.samples, what) for peer in peers}
    for name, theirs in told.items():
        ratio, named = ours.p50_ms / theirs.p50_ms, f"added p50, {where}, of {name}"
        is_judged = name == SGLANG_ROUTER
        if is_judged and stream and round_ == scene.rounds[-1]:
            yield Figure.below(named, ratio, "x", TTFT_RATIO_MAX)
        elif is_judged and not stream and round_.rate >= BUSY_RATE and router.name in RATIOS_MAX:
            yield Figure.below(named, ratio, "x", RATIOS_MAX[router.name])
        else:
            yield Figure(named, ratio, "x")
    middles = "; ".join(f"{theirs.p50_ms:.2f} {name}" for name, theirs in told.items())
    tails = "; ".join(f"{theirs.p99_ms:.2f} {name}" for name, theirs in told.items())
    if stream:
        yield Figure(f"added p50, {where}", ours.p50_ms, "ms", baseline=middles)
    else:
        baseline = middles or PUBLISHED
        yield Figure.below(f"added p50, {where}", ours.p50_ms, "ms", PUBLISHED_MS, baseline)
    if round_.rate >= BUSY_RATE:
        yield Figure.below(f"added p99, {where}", ours.p99_ms, "ms", P99_ADDED_MAX_MS, tails)
    else:
        yield Figure(f"added p99, {where}", ours.p99_ms, "ms", baseline=tails)


async def _control(scene: Scene) -> list[Figure]:
    """Return what a bare message there and back costs on the same servers, beside the product."""
    unary = scene.targets(stream=False)[:2]  # the engine, and by the mesh
    figures = []
    async with await data_client.connect(accesses.read(scene.path.access), name=NAME) as client:
        control = await BareRoundTrip.open(client, scene.path.bare)
        await warmed([control])
        for round_ in scene.rounds:
            await paced([*unary, control], round_)
            bare_ms = percentile([total_ms(sample) for sample in control.samples], 50)
            where = f"{round_.rate:g}/s, {scene.label}"
            ours_ms = added(unary[1].samples, unary[0].samples, total_ms).p50_ms
            told = f"{ours_ms:.2f} added by the product, same run"
            figures.append(
                Figure(f"control: bare round trip, {where}", bare_ms, "ms", baseline=told)
            )
    return figures


async def _breakdown(scene: Scene) -> list[Figure]:
    """Return where the time of a request goes, as the router's `Server-Timing` tells it."""
    request = chat_request(MODEL, stream=False)
    direct = Target("direct", "127.0.0.1", scene.path.engine_port, request)
    timed = Target("timed", "127.0.0.1", scene.path.timed_port, request)
    await warmed([timed])
    await paced((direct, timed), scene.rounds[-1])
    stages = [_stages(sample) for sample in timed.samples]
    middle = {name: statistics.median(stage[name] for stage in stages) for name in stages[0]}
    whole = added(timed.samples, direct.samples, total_ms).p50_ms
    engine = percentile([total_ms(sample) for sample in direct.samples], 50)
    # The session's time holds the engine's own, which the direct way has as well.
    middle["other"] = whole + engine - sum(middle.values())
    return [
        Figure(
            f"stage {name}, {scene.label}",
            value,
            "ms",
            baseline=f"{STAGES[name]} published" if name in STAGES else "",
        )
        for name, value in middle.items()
    ]


def _stages(sample: Sample) -> dict[str, float]:
    return {name.decode(): float(value) for name, value in _STAGE.findall(sample.stamps)}


async def _cost(scene: Scene) -> list[Figure]:
    """Return throughput, CPU a request and memory, of ours and of the peer."""
    targets = {target.name: target for target in scene.targets(stream=False)}
    label = f"c={CONCURRENCY}, {scene.label}"
    ours = {
        role: pid for role, pid in scene.path.pids.items() if role not in ("registry", "engine")
    }
    home = ours.pop("home")
    ours.pop("dialled")
    ours.pop("lent")
    at_home = {"home": home, "supervisor": ours["supervisor"]}
    short = await saturated(targets[HOME], at_home, concurrency=CONCURRENCY, seconds=SATURATED_S)
    run = await saturated(targets[MESH], ours, concurrency=CONCURRENCY, seconds=SATURATED_S)
    whole_us = sum(run.cpu_us.values())
    figures = [
        Figure(f"requests a second, {HOME}, {label}", short.rps, "1/s"),
        Figure(f"CPU a request, {HOME}, {label}", sum(short.cpu_us.values()), "us"),
        Figure(f"requests a second, {label}", run.rps, "1/s"),
        *(Figure(f"CPU a request, {role}, {label}", us, "us") for role, us in run.cpu_us.items()),
        Figure(f"CPU a request, whole path, {label}", whole_us, "us"),
        *(
            Figure(f"PSS, {role}, {scene.label}", procfs.pss_mb(pid), "MB")
            for role, pid in scene.path.pids.items()
        ),
    ]
    router_us = run.cpu_us["router"]
    for peer in scene.peers:
        figures += await _cost_beside(
            scene, peer, targets[peer.name], router_us=router_us, whole_us=whole_us
        )
    return figures


async def _cost_beside(
    scene: Scene, peer: Peer, target: Target, *, router_us: float, whole_us: float
) -> list[Figure]:
    """Return what ours costs in shares of what the peer costs, in the same run."""
    theirs = await saturated(
        target, {peer.name: peer.pid}, concurrency=CONCURRENCY, seconds=SATURATED_S
    )
    peer_us, peer_mb = theirs.cpu_us[peer.name], procfs.pss_mb(peer.pid)
    router_mb = procfs.pss_mb(scene.path.pids["router"])
    told = f"{peer_us:.0f} us {peer.name}, same run"
    ratio, of_memory = peer_us / whole_us, f"{peer_mb:.0f} MB {peer.name}"
    rate, cpu = f"requests a second a core, whole path, of {peer.name}", router_us / peer_us
    cpu_name, memory_name = (f"{what}, router, of {peer.name}" for what in ("CPU a request", "PSS"))
    if peer.name != SGLANG_ROUTER:
        return [
            Figure(rate, ratio, "x", baseline=told),
            Figure(cpu_name, cpu, "x", baseline=told),
            Figure(memory_name, router_mb / peer_mb, "x", baseline=of_memory),
        ]
    least = RPS_PER_CORE_RATIO_MIN
    return [
        Figure(rate, ratio, "x", f">= {least:g}", ratio >= least, told),
        Figure.below(cpu_name, cpu, "x", CPU_RATIO_MAX, told),
        Figure.below(memory_name, router_mb / peer_mb, "x", PSS_RATIO_MAX, of_memory),
    ]
