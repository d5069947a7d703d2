"""What befalls a mesh: each nemesis does one kind of harm for a while, and any mix may be composed.

A nemesis schedules its faults when it is called; `repair` undoes them all. It draws from the source
it is given and touches nothing but nodes, links and engines.
"""

from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

from opentela.testing.sim.cluster import Cluster
from opentela.testing.world_network import LinkForm
from opentela.testing.world_node import Node
from opentela.wire import subjects

Nemesis: TypeAlias = Callable[[Cluster, Random, float], None]
"""Harms a mesh for some seconds, beginning now."""

PAUSE_MAX_S: Final = 32.0
CLOCK_JUMP_S: Final = 600.0


def partition(cluster: Cluster, rng: Random, for_s: float) -> None:
    """Cut some sites off from the others, both ways, in the open or silently."""
    sites = cluster.sites
    rng.shuffle(sites)
    size = 1 + rng.randrange(max(1, len(sites) - 1))
    network = cluster.world.network
    network.partition(sites[:size], sites[size:], noticed=rng.random() < 0.5)  # noqa: PLR2004
    cluster.world.after(for_s, network.heal)


def cut_one_way(cluster: Cluster, rng: Random, for_s: float) -> None:
    """Let one direction between two sites go silent."""
    if len(cluster.sites) == 1:
        return
    source, target = rng.sample(cluster.sites, 2)
    cluster.world.network.cut(source, target)
    cluster.world.after(for_s, cluster.world.network.heal)


def lossy_links(cluster: Cluster, rng: Random, for_s: float) -> None:
    """Lose, double, delay and reorder messages on every link."""
    network = cluster.world.network
    for source in cluster.sites:
        for target in cluster.sites:
            form = LinkForm(
                delay_s=rng.uniform(0.001, 0.05),
                loss=rng.uniform(0.0, 0.3),
                duplicate=rng.uniform(0.0, 0.1),
                reorder=rng.uniform(0.0, 0.1),
            )
            network.shape(source, target, form)
    cluster.world.after(for_s, network.unshape)


def clog(cluster: Cluster, rng: Random, for_s: float) -> None:
    """Hold links back one after the other and let them go in another order."""
    for source in cluster.sites:
        for target in cluster.sites:
            if source != target:
                begin_s = rng.uniform(0.0, for_s / 2)
                length_s = rng.uniform(0.1, for_s / 2)
                cluster.world.after(begin_s, cluster.world.network.clog, source, target, length_s)


def crash_nodes(cluster: Cluster, rng: Random, for_s: float) -> None:
    """Kill processes of any kind and start them again, supervisors as somebody new."""
    names = list(cluster.world.nodes)
    for _ in range(1 + rng.randrange(4)):
        name = names[rng.randrange(len(names))]
        at_s = rng.uniform(0.0, for_s)
        cluster.world.after(at_s, cluster.crash, name)
        cluster.world.after(at_s + rng.uniform(0.1, 10.0), cluster.start, name)


def pause_nodes(cluster: Cluster, rng: Random, for_s: float) -> None:
    """Stop processes as SIGSTOP does, for up to half a minute."""
    nodes = list(cluster.world.nodes.values())
    for node in rng.sample(nodes, 1 + rng.randrange(2)):
        at_s = rng.uniform(0.0, for_s / 2)
        length_s = rng.uniform(1.0, PAUSE_MAX_S)
        cluster.world.after(at_s, node.pause)
        cluster.world.after(at_s + length_s, node.resume)


def slow_nodes(cluster: Cluster, rng: Random, for_s: float) -> None:
    """Let processes take long over each message, as starved ones do."""
    nodes = list(cluster.world.nodes.values())
    for node in rng.sample(nodes, 1 + rng.randrange(3)):
        node.service_s = rng.uniform(0.002, 0.02)
        cluster.world.after(for_s, _speed_up, node)


def _speed_up(node: Node) -> None:
    node.service_s = 0.0


def kill_engines(cluster: Cluster, rng: Random, for_s: float) -> None:
    """Let engines die under supervisors that live."""
    for name in cluster.form.supervisors:
        if rng.random() < 0.5:  # noqa: PLR2004
            cluster.world.after(rng.uniform(0.0, for_s), _kill_engine, cluster, name)


def _kill_engine(cluster: Cluster, name: str) -> None:
    supervisor = cluster.supervisors.get(name)
    if supervisor is not None:
        supervisor.kill_engine()


def hang_engines(cluster: Cluster, rng: Random, for_s: float) -> None:
    """Let an engine take connections and do nothing."""
    names = list(cluster.form.supervisors)
    name = names[rng.randrange(len(names))]
    cluster.world.after(rng.uniform(0.0, for_s), _hang_engine, cluster, name)


def _hang_engine(cluster: Cluster, name: str) -> None:
    supervisor = cluster.supervisors.get(name)
    if supervisor is not None:
        supervisor.hang_engine()


def stop_supervisors(cluster: Cluster, rng: Random, for_s: float) -> None:
    """Ask supervisors to leave, as a scheduler does at the end of a job."""
    for name in cluster.form.supervisors:
        if rng.random() < 0.4:  # noqa: PLR2004
            cluster.world.after(rng.uniform(0.0, for_s), _stop_supervisor, cluster, name)


def _stop_supervisor(cluster: Cluster, name: str) -> None:
    supervisor = cluster.supervisors.get(name)
    if supervisor is not None:
        supervisor.stop("asked to")


def stop_registries(cluster: Cluster, rng: Random, for_s: float) -> None:
    """Let registries leave in order, as an upgrade does one by one, and come back."""
    for name in cluster.form.registries:
        if rng.random() < 0.5:  # noqa: PLR2004
            at_s = rng.uniform(0.0, for_s)
            cluster.world.after(at_s, cluster.leave, name)
            cluster.world.after(at_s + rng.uniform(0.1, 10.0), cluster.start, name)


def isolate_nodes(cluster: Cluster, rng: Random, for_s: float) -> None:
    """Cut single processes off from their own server."""
    nodes = list(cluster.world.nodes.values())
    for node in rng.sample(nodes, 1 + rng.randrange(2)):
        cluster.world.network.isolate(node)
    cluster.world.after(for_s, cluster.world.network.heal)


def lose_deltas(cluster: Cluster, rng: Random, for_s: float) -> None:
    """Lose what owners publish, and nothing else: gossip and probes must make up for it."""
    prefix, share = subjects.whole("delta").removesuffix(">"), rng.uniform(0.3, 1.0)
    cluster.world.network.lose_if(
        lambda _source, _target, subject: subject.startswith(prefix) and rng.random() < share
    )
    cluster.world.after(for_s, cluster.world.network.heal)


def jump_clocks(cluster: Cluster, rng: Random, for_s: float) -> None:
    """Set wall clocks, forth and back by up to ten minutes."""
    for node in cluster.world.nodes.values():
        if rng.random() < 0.5:  # noqa: PLR2004
            offset_s = rng.uniform(-CLOCK_JUMP_S, CLOCK_JUMP_S)
            cluster.world.after(rng.uniform(0.0, for_s), node.jump, offset_s)


def repair(cluster: Cluster) -> None:
    """Undo every fault: links, processes, engines and clocks work from now on."""
    network = cluster.world.network
    network.heal()
    network.unshape()
    for node in cluster.world.nodes.values():
        node.service_s = 0.0
        node.resume()
        cluster.start(node.name)


SWARM: Final[tuple[Nemesis, ...]] = (
    partition,
    cut_one_way,
    lossy_links,
    clog,
    crash_nodes,
    pause_nodes,
    slow_nodes,
    kill_engines,
    hang_engines,
    stop_supervisors,
    stop_registries,
    isolate_nodes,
    lose_deltas,
    jump_clocks,
)
"""What a swarm draws from."""
