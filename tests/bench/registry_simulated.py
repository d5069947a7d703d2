"""What a node says and hears in a simulated mesh, to sizes that one machine cannot run."""

from collections.abc import Iterator
from typing import Final

from tests.bench.report import Figure

from opentela.testing.sim.cluster import Cluster
from opentela.testing.sim.scenarios import mesh
from opentela.testing.sim.traffic import Traffic
from opentela.testing.world import World

SIZES: Final = (50, 1000)
"""The smaller is measured on real servers, too: it tells what the larger is worth."""
QUICK_SIZES: Final = (50,)
SEED: Final = 1
UP_WITHIN_S: Final = 60.0
WINDOW_S: Final = 30.0
TARGET_B: Final = 600.0


def run(*, quick: bool) -> list[Figure]:
    """Count at each size."""
    return [figure for size in (QUICK_SIZES if quick else SIZES) for figure in _figures(size)]


def _figures(nodes: int) -> Iterator[Figure]:
    world = World(SEED)
    sites = tuple(("north", "south")[number % 2] for number in range(nodes))
    cluster = Cluster(world, mesh(registries=("hub", "hub"), routers=("hub",), supervisors=sites))
    cluster.begin()
    if not world.run_until(cluster.is_ready, within_s=UP_WITHIN_S):
        raise RuntimeError(f"a simulated mesh of {nodes} nodes does not come up")
    meter = world.network.meter = Traffic()
    world.run(world.now + WINDOW_S)
    rates = meter.rates(list(cluster.supervisors), WINDOW_S)
    name = f"{nodes} nodes, simulated"
    wire = sum(flow.wire_bytes for flow in rates.values())
    yield Figure(f"traffic of a node at its server, {name}, at most", wire / 1e3, "KB/s")
    for kind, flow in rates.items():
        yield Figure(f"… {kind}, without headers", flow.nats_bytes, "B/s")
