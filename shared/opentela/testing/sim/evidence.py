"""No eviction of a session while one of its evidence paths lived."""

from typing import Final

from opentela.core.ids import SessionId
from opentela.core.record import Lifecycle, SessionRecord, claim_of
from opentela.core.session_map import SessionMap
from opentela.testing.sim.checkers import Violation
from opentela.testing.sim.cluster import Cluster
from opentela.testing.sim.maps import follow
from opentela.testing.world_node import Node

SAMPLE_S: Final = 0.5
LIVED_S: Final = 10.0
"""A path that was open for so long without a break must have been noticed: some beats, a probe and
an exchange between registries fit several times."""


class EvictsOnlyTheDead:
    """A session whose owner lives, and that a registry within reach could hear, is not evicted.

    Attributes:
        evictions: Living sessions that were evicted all the same, because no path lived.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.evictions: dict[SessionId, float] = {}
        self._cluster = cluster
        self._since: dict[tuple[str, str], float] = {}
        self._judged: set[SessionId] = set()
        cluster.on_map.append(self._follow)
        cluster.world.after(SAMPLE_S, self._sample)

    def _sample(self) -> None:
        world, cluster = self._cluster.world, self._cluster
        registries = [world.nodes[name] for name in cluster.form.registries]
        others = [world.nodes[name] for name in cluster.form.supervisors]
        for registry in registries:
            for other in (*registries, *others):
                pair = (other.name, registry.name)
                if self._is_open(other, registry):
                    self._since.setdefault(pair, world.now)
                else:
                    self._since.pop(pair, None)
        world.after(SAMPLE_S, self._sample)

    def _is_open(self, one: Node, other: Node) -> bool:
        network = self._cluster.world.network
        return (
            all(node.alive and not node.paused for node in (one, other))
            and network.passes(one, other)
            and network.passes(other, one)
        )

    def _follow(self, node: Node, held: SessionMap) -> None:
        if node.name not in self._cluster.form.registries:
            return

        def stored(session: SessionId, _: SessionRecord | None, record: SessionRecord) -> None:
            if record.ending and session not in self._judged:
                self._judged.add(session)
                # Else its owner had spoken of the end, or is gone.
                if claim_of(record).lifecycle < Lifecycle.DOWN and self._cluster.lives(session):
                    self._judge(node, session)

        follow(held, stored, lambda _session, _record: None)

    def _judge(self, registry: Node, session: SessionId) -> None:
        world = self._cluster.world
        owner, _ = self._cluster.owners[session]
        self.evictions[session] = world.now
        for name in self._cluster.form.registries:
            heard = self._lived((owner, name))
            reached = name == registry.name or self._lived((name, registry.name))
            if heard and reached:
                raise Violation(
                    f"eviction: {registry.name} ends {session}, whose owner {owner} lives and was"
                    f" within reach of {name} all the time"
                )

    def _lived(self, pair: tuple[str, str]) -> bool:
        since = self._since.get(pair)
        return since is not None and self._cluster.world.now - since >= LIVED_S
