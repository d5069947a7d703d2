"""The product as a system of a trial: three registries, three routers, whose views count."""

from typing import Final

from opentela.core.ids import SessionId
from opentela.core.record import SessionRecord, is_final, is_routable
from opentela.core.session_map import SessionMap
from opentela.registry import config
from opentela.registry.config import RegistryConfig
from opentela.testing.sim.campaign.ground import REGISTRIES, ROUTERS, Ground, members
from opentela.testing.sim.campaign.sightings import Tell
from opentela.testing.sim.campaign.trial import Setting
from opentela.testing.sim.checkers import LatticeClimbs
from opentela.testing.sim.maps import follow
from opentela.testing.sim.population import Population, PopulationForm
from opentela.testing.world import World
from opentela.testing.world_node import Node

_ROUNDS: Final = 2
"""After a lease and its probes, so many rounds of registries: by then a silence is a suspicion,
or refuted."""


class Product:
    """Registries and routers over members; `out` is what no router sends requests to."""

    def __init__(self, world: World, tell: Tell, registry: RegistryConfig) -> None:
        self._tell = tell
        form = PopulationForm(
            registries=REGISTRIES, routers=ROUTERS, members=members(), registry=registry
        )
        self.population = Population(world, form)
        self.ground = Ground(world=world, members=form.members, watchers=(*REGISTRIES, *ROUTERS))
        self.viewers = tuple(ROUTERS)
        detector = registry.detector
        found_s = detector.lease_beats + detector.probes_min * detector.probe_timeout_s
        self.tail_s = found_s + _ROUNDS * (1.0 + registry.peers.gossip_s)
        self.grace_s = detector.grace_s
        LatticeClimbs(self.population)
        self.population.on_map.append(self._follow)

    def begin(self) -> None:
        """Start everybody."""
        self.population.begin()

    def is_ready(self) -> bool:
        """Return whether everybody knows everybody."""
        return self.population.is_ready()

    def crash(self, name: str) -> None:
        """Kill a process."""
        self.population.crash(name)

    def knows(self, viewer: str, member: str) -> bool:
        """Return whether a router would send requests to a member now."""
        claim = self.population.members[member].claim
        if claim is None:
            return False
        record = self.population.routers[viewer].held.get(claim.session)
        return record is not None and is_routable(record)

    def called(self, member: str) -> str:
        """Return the first session of a member."""
        owners = self.population.owners.items()
        return next((session for session, (name, _) in owners if name == member), "")

    def _follow(self, node: Node, held: SessionMap) -> None:
        is_router, name = node.name in ROUTERS, node.name

        def stored(session: SessionId, before: SessionRecord | None, after: SessionRecord) -> None:
            member = self.population.owners[session][0]
            was = before is not None and is_routable(before)
            if is_router and was != is_routable(after):
                self._tell(name, member, "out" if was else "back")
            was_final = before is not None and is_final(before.ending)
            # Else its owner has said so itself; what one registry says alone can be taken back.
            if is_final(after.ending) and not was_final:
                self._tell(name, member, "removed")

        follow(held, stored, lambda _session, _record: None)


def product(registry: RegistryConfig) -> Setting:
    """Return a setting of the product."""
    return lambda world, tell: Product(world, tell, registry)


def presets() -> dict[str, RegistryConfig]:
    """Return what the product calls its presets, by name."""
    names = ("LOCAL", "LAN", "WAN")
    return {name: getattr(config, name) for name in names if hasattr(config, name)}
