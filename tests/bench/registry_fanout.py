"""How long an owner's new offer takes to every map of the mesh.

A member is whoever holds the map: a registry, or the view of a router, placer or tool. Supervisors
do not. 128 members are 126 views and two registries, each with its own connection, in few processes
of one machine; the servers between them are real, one hub and so many leaves, and so are
credentials, signatures and the owner (a supervisor with a played engine at a leaf of its own).

On one machine all members share its few cores, which members of a real mesh do not. So it is
measured in three ways: everybody in full; only every eighth in full while the others only take
their messages, so that servers have all their work and members' work is that of their own; and as
a control, bare subscribers in everybody's place.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Self

from tests.bench.load import percentile
from tests.bench.registry_mesh import PROVIDER, BenchMesh, Server
from tests.bench.report import Figure
from tests.e2e import nodes
from tests.e2e.lines import Lines
from tests.e2e.processes import wait_until

from opentela.mesh.permissions import Member, Role

MEMBERS: Final = 128
REGISTRIES: Final = 2
NODES: Final = 50
"""Sessions that are there meanwhile; a map of one would be too easy."""
CHURN_EVERY_S: Final = 0.3
"""Ten nodes in three seconds leave and come back: four deltas each."""
PROCESSES: Final = 2
"""For all views together: as many as this machine has cores."""
FLUSH_S: Final = 2.0
EIGHTH: Final = 8
OFFERS: Final = 100
QUICK_OFFERS: Final = 20
OFFER_EVERY_S: Final = 0.12
WARM_UP: Final = 20
"""Offers that are not counted: Python specialises code that has run a few dozen times."""
UP_WITHIN_S: Final = 60.0
MS: Final = 1e3
TARGET_95_MS: Final = 25.0
TARGET_ALL_MS: Final = 100.0
PUBLISHED: Final = {50: "7-13", 75: "26", 95: "1000", 100: "10000"}
"""Of the followed system, 128 nodes, over a real network."""
MOST: Final = 95
ALL: Final = 100


class Topology(NamedTuple):
    """How the members hang together."""

    name: str
    leaves: int


TOPOLOGIES: Final = {
    "sites-8": Topology("8 sites", 8),
    "sites-2": Topology("2 sites", 2),
    "leaves": Topology("126 leaf servers", MEMBERS - REGISTRIES),
}


class Spread(NamedTuple):
    """When members had learnt of each offer.

    Attributes:
        name: Of the curve.
        latencies_ms: Of each offer, when each member had it; sorted.
    """

    name: str
    latencies_ms: list[list[float]]

    @property
    def pooled_ms(self) -> list[float]:
        """Every offer at every member."""
        return sorted(one for offer in self.latencies_ms for one in offer)


def run(topology: Topology, *, quick: bool) -> tuple[list[Figure], list[Spread]]:
    """Measure one topology, idle and under churn, in each way."""
    spreads: list[Spread] = []
    for churn in (False, True):
        with Scene(topology, churn=churn, offers=QUICK_OFFERS if quick else OFFERS) as scene:
            spreads += [scene.everybody(), scene.every_eighth()]
            if not churn:
                spreads.append(scene.control())
    return [figure for spread in spreads for figure in _figures(spread)], spreads


def _figures(spread: Spread) -> Iterator[Figure]:
    pooled = spread.pooled_ms
    limits = {MOST: TARGET_95_MS, ALL: TARGET_ALL_MS}
    for percent, published in PUBLISHED.items():
        value = pooled[-1] if percent == ALL else percentile(pooled, percent)
        name = f"an offer at {percent} % of members, {spread.name}"
        if percent in limits and not spread.name.startswith("control"):
            yield Figure.below(name, value, "ms", limits[percent], f"{published} published")
        else:
            yield Figure(name, value, "ms")
    whole = [offer[-1] for offer in spread.latencies_ms]
    yield Figure(
        f"an offer at all members, median of offers, {spread.name}", percentile(whole, 50), "ms"
    )


class Scene:
    """One mesh with all its members."""

    def __init__(self, topology: Topology, *, churn: bool, offers: int) -> None:
        self._topology = topology
        self._churn = churn
        self._offers = offers
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            self._mesh = BenchMesh(stack, folder, tls="none")
            self._leaves = self._mesh.add_leaves(self._sites())
            self._own, self._crowded = self._mesh.add_leaves({"own": (), "crowd": ()})
            self._registries = self._watch("registries", self._registry_accesses())
            self._crowd = self._start_crowd()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def name(self) -> str:
        """What its figures are called."""
        return f"{self._topology.name}, {'churn' if self._churn else 'idle'}"

    def everybody(self) -> Spread:
        """Return how offers spread to the members, all of which work on this machine."""
        with ExitStack() as stack:
            return self._spread(stack, self.name, self._watched(stack, "all", self._accesses()))

    def every_eighth(self) -> Spread:
        """Return how offers spread to some, while the others only take them off the servers."""
        accesses = self._accesses()
        full = accesses[::EIGHTH]
        rest = [one for one in accesses if one not in full]
        with ExitStack() as stack:
            self._watch("rest", ("--drain", *rest), stack)
            name = f"every eighth in full, {self.name}"
            return self._spread(stack, name, self._watched(stack, "eighth", full))

    def control(self) -> Spread:
        """Return how the same messages reach subscribers that only take the time."""
        with ExitStack() as stack:
            name = f"control: bare subscribers, {self.name}"
            watched = self._watched(stack, "bare", self._accesses(), "--bare")
            return self._spread(stack, name, watched)

    def _spread(self, stack: ExitStack, name: str, watched: dict[Lines, int]) -> Spread:
        watched[self._registries] = REGISTRIES
        return Spread(name, self._offer(stack, name, list(watched), sum(watched.values())))

    def _watched(
        self, stack: ExitStack, name: str, accesses: Sequence[str], *options: str
    ) -> dict[Lines, int]:
        """Return processes and how many views each holds."""
        return {
            self._watch(f"{name}-{part}", (*options, *accesses[part::PROCESSES]), stack): len(
                accesses[part::PROCESSES]
            )
            for part in range(PROCESSES)
        }

    def _offer(
        self, stack: ExitStack, name: str, watchers: Sequence[Lines], members: int
    ) -> list[list[float]]:
        access = self._mesh.access("provider", PROVIDER, self._own)
        offers = self._offers + WARM_UP
        options = ("--offers", str(offers), "--offer-every", str(OFFER_EVERY_S))
        owner = self._start(stack, f"owner-{name}", "tests.e2e.nodes", *options, str(access))
        owner.wait_for("serving", within_s=UP_WITHIN_S)
        _begin(owner)
        if self._churn:
            _begin(self._crowd)
        owner.wait_for("offered", within_s=offers * OFFER_EVERY_S * 2 + UP_WITHIN_S)
        counted = list(owner.all("offering"))[WARM_UP:]
        offered = {(one["session"], one["incarnation"]): one["at"] for one in counted}
        arrived: dict[tuple[str, int], dict[str, float]] = {key: {} for key in offered}

        def have_all() -> bool:
            for watcher in watchers:
                for one in watcher.all("changed"):
                    key = (one["session"], one["incarnation"])
                    if key in arrived:
                        arrived[key].setdefault(one["view"], one["at"])
            return all(len(views) == members for views in arrived.values())

        wait_until(have_all, f"every offer at {members} members", within_s=UP_WITHIN_S)
        return [
            sorted((at - offered[key]) * MS for at in views.values())
            for key, views in arrived.items()
        ]

    # Who takes part

    def _sites(self) -> dict[str, Sequence[Member]]:
        count, leaves = MEMBERS - REGISTRIES, self._topology.leaves
        names = [f"router-{number}" for number in range(count)]
        return {
            f"site-{leaf}": [Member(role=Role.ROUTER, name=name) for name in names[leaf::leaves]]
            for leaf in range(leaves)
        }

    def _accesses(self) -> list[str]:
        at: dict[str, Server] = {server.site: server for server in self._leaves}
        return [
            str(self._mesh.access("router", member.name, at[site]))
            for site, members in self._sites().items()
            for member in members
        ]

    def _registry_accesses(self) -> list[str]:
        hub = self._mesh.hub
        names = [f"registry-{number}" for number in range(REGISTRIES)]
        return [str(self._mesh.access("registry", name, hub)) for name in names]

    def _start_crowd(self) -> Lines:
        access = self._mesh.access("provider", PROVIDER, self._crowded)
        options = ["--count", str(NODES)]
        if self._churn:
            options += ["--churn-every", str(CHURN_EVERY_S)]
        crowd = self._start(None, "crowd", "tests.e2e.nodes", *options, str(access))
        crowd.wait_for("serving", within_s=UP_WITHIN_S)
        return crowd

    def _watch(self, name: str, arguments: Sequence[str], stack: ExitStack | None = None) -> Lines:
        lines = self._start(stack, name, "tests.e2e.watcher", "--flush-s", str(FLUSH_S), *arguments)
        lines.wait_for("watching", within_s=UP_WITHIN_S)
        return lines

    def _start(self, stack: ExitStack | None, name: str, module: str, *arguments: str) -> Lines:
        process = self._mesh.start(name, [sys.executable, "-m", module, *arguments])
        if stack is not None:
            stack.callback(process.end)
        return Lines(process)


def _begin(crowd: Lines) -> None:
    os.kill(crowd.process.pid, nodes.BEGIN)
