"""What the mesh costs in bytes: of IP packets, both directions, by what is said.

A node is a supervisor with its engine. Its traffic is what crosses the network for its sake: its
own two connections to its site's leaf and its share of the leaf's link to the hub; or, where each
node has a leaf of its own, that leaf's link alone, as the rest stays on the node.
"""

import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.bench import procfs
from tests.bench.registry_mesh import PROVIDER, BenchMesh
from tests.bench.report import Figure
from tests.e2e import nodes
from tests.e2e.lines import Lines
from tests.e2e.processes import Process
from tests.e2e.product import OTELA

from opentela.mesh.listeners import TlsMode

SIZES: Final = (10, 50, 200)
CHURNED: Final = 50
CHURN_EVERY_S: Final = 0.3
"""Ten nodes in three seconds leave and come back as new sessions, with new connections."""
NODES_A_PROCESS: Final = 100
REGISTRIES: Final = 2
SETTLE_S: Final = 8.0
WINDOW_S: Final = 30.0
QUICK_WINDOW_S: Final = 10.0
UP_WITHIN_S: Final = 120.0
IDLE_TARGET_KB: Final = 0.6
CHURN_TARGET_KB: Final = 4.0
KB: Final = 1e3
PUBLISHED_IDLE: Final = "7.9 published, elsewhere"
PUBLISHED_CHURN: Final = "40.6 published, elsewhere"
_KIND_SHOWN_B: Final = 0.5


class Setting(NamedTuple):
    """One mesh whose traffic is counted.

    Attributes:
        has_leaf_each: Each node has a leaf server of its own; else all share one.
        tls: Whether everything is encrypted: then kinds cannot be told apart.
    """

    nodes: int
    has_leaf_each: bool = False
    churn: bool = False
    tls: TlsMode = "none"

    @property
    def name(self) -> str:
        """What its figures are called."""
        place = "a leaf each" if self.has_leaf_each else "one site"
        words = [f"{self.nodes} nodes", place, "churn" if self.churn else "idle"]
        return ", ".join(words + ["TLS"] * (self.tls == "auto"))


class Traffic(NamedTuple):
    """Bytes a second by kind."""

    node: dict[str, float]
    view: dict[str, float]
    registry: dict[str, float]


GROUPS: Final = {
    "site": [Setting(nodes) for nodes in SIZES],
    "leaves": [Setting(nodes, has_leaf_each=True) for nodes in SIZES],
    "churn": [Setting(CHURNED, churn=True), Setting(CHURNED, has_leaf_each=True, churn=True)],
    "tls": [
        Setting(CHURNED, tls="auto"),
        Setting(CHURNED, has_leaf_each=True, tls="auto"),
        Setting(CHURNED, churn=True, tls="auto"),
    ],
}


def run(group: str, *, quick: bool) -> list[Figure]:
    """Count a group of settings."""
    settings = GROUPS[group][:1] if quick else GROUPS[group]
    window_s = QUICK_WINDOW_S if quick else WINDOW_S
    return [
        figure
        for setting in settings
        for figure in _figures(setting, measured(setting, window_s=window_s))
    ]


def measured(setting: Setting, *, window_s: float) -> Traffic:
    """Return the traffic of one mesh."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return Scene(stack, folder, setting).counted(window_s)


def _figures(setting: Setting, traffic: Traffic) -> Iterator[Figure]:
    limit = CHURN_TARGET_KB if setting.churn else IDLE_TARGET_KB
    published = PUBLISHED_CHURN if setting.churn else PUBLISHED_IDLE
    whole = sum(traffic.node.values()) / KB
    yield Figure.below(f"traffic of a node, {setting.name}", whole, "KB/s", limit, published)
    for kind, rate in sorted(traffic.node.items(), key=lambda item: -item[1]):
        if rate >= _KIND_SHOWN_B:
            yield Figure(f"… {kind}", rate, "B/s")
    for who, rates in (("a router's view", traffic.view), ("a registry", traffic.registry)):
        whole = sum(rates.values()) / KB
        most = ", ".join(
            f"{kind} {rate / KB:.1f}"
            for kind, rate in sorted(rates.items(), key=lambda item: -item[1])[:4]
        )
        yield Figure(f"traffic of {who}, {setting.name}", whole, "KB/s", baseline=most)


class Scene:
    """A mesh whose packets are counted from its beginning."""

    def __init__(self, stack: ExitStack, folder: Path, setting: Setting) -> None:
        self._setting = setting
        self._mesh = mesh = BenchMesh(stack, folder, tls=setting.tls)
        count = setting.nodes if setting.has_leaf_each else 1
        ports = mesh.reserve_ports(count)
        every = (mesh.hub.port, mesh.hub.leaf_port, *ports)
        self._tap = Lines(
            mesh.start("tap", [sys.executable, "-m", "tests.bench.registry_tap", *map(str, every)])
        )
        self._tap.wait_for("tapping", within_s=UP_WITHIN_S)
        self._leaves = mesh.add_leaves({f"site-{number}": () for number in range(count)})
        self._registries = [self._start_registry(number) for number in range(REGISTRIES)]
        self._view = self._start_view()
        self._crowds = [self._start_crowd(*part) for part in self._parts()]
        for crowd in self._crowds:
            crowd.wait_for("serving", within_s=UP_WITHIN_S)

    def counted(self, window_s: float) -> Traffic:
        """Return what crosses in *window_s* seconds once all has settled."""
        if self._setting.churn:
            for crowd in self._crowds:
                os.kill(crowd.process.pid, nodes.BEGIN)
        time.sleep(SETTLE_S)
        since = self._report(0.0)["at"]
        time.sleep(window_s)
        ports_of_view = procfs.tcp_ports(self._view.process.pid)
        ports_of_registries = frozenset[int]().union(
            *(procfs.tcp_ports(process.pid) for process in self._registries)
        )
        counted = self._report(since)
        if counted["dropped"]:
            raise RuntimeError(f"{counted['dropped']} packets were not counted")
        hub = self._mesh.hub
        node: Counter[str] = Counter()
        view: Counter[str] = Counter()
        registries: Counter[str] = Counter()
        for flow, kinds in counted["flows"].items():
            server, client = map(int, flow.split())
            if client in ports_of_view:
                view.update(kinds)
            elif client in ports_of_registries:
                registries.update(kinds)
            elif server == hub.leaf_port or not self._setting.has_leaf_each:
                node.update(kinds)
        seconds = counted["seconds"]
        return Traffic(
            _rates(node, seconds * self._setting.nodes),
            _rates(view, seconds),
            _rates(registries, seconds * REGISTRIES),
        )

    def _report(self, since: float) -> dict[str, Any]:
        self._tap.process.send(signal.SIGUSR1)
        return self._tap.wait_for("counted", within_s=UP_WITHIN_S, since=since)[0]

    # Who takes part

    def _start_registry(self, number: int) -> Process:
        name = f"registry-{number}"
        access = self._mesh.access("registry", name, self._mesh.hub)
        argv = [*OTELA, "registry", "--set", f"access={access}"]
        process = self._mesh.start(name, argv)
        Lines(process).wait_for("registry_started", within_s=UP_WITHIN_S)
        return process

    def _start_view(self) -> Lines:
        access = self._mesh.access("router", "router", self._mesh.hub)
        argv = [sys.executable, "-m", "tests.e2e.watcher", str(access)]
        view = Lines(self._mesh.start("view", argv))
        view.wait_for("watching", within_s=UP_WITHIN_S)
        return view

    def _parts(self) -> Iterator[tuple[str, list[str]]]:
        """Yield a name and the arguments of each process of nodes."""
        accesses = [str(self._mesh.access("provider", PROVIDER, leaf)) for leaf in self._leaves]
        nodes = self._setting.nodes
        for begin in range(0, nodes, NODES_A_PROCESS):
            count = min(NODES_A_PROCESS, nodes - begin)
            each = accesses if len(accesses) == 1 else accesses[begin : begin + count]
            options = ["--count", str(count)]
            if self._setting.churn:
                options += ["--churn-every", str(CHURN_EVERY_S)]
            yield f"crowd-{begin}", [*options, *each]

    def _start_crowd(self, name: str, arguments: list[str]) -> Lines:
        argv = [sys.executable, "-m", "tests.e2e.nodes", *arguments]
        return Lines(self._mesh.start(name, argv))


def _rates(counted: Mapping[str, int], units: float) -> dict[str, float]:
    return {kind: count / units for kind, count in counted.items()}
