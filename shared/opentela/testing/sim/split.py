"""A mesh of many members is cut in two for a minute; both sides go on, lose some and get new ones.

Also what such a mesh says to itself while nothing happens, and under churn.
"""

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from opentela.core.ids import SessionId
from opentela.core.record import is_routable
from opentela.registry.config import LAN, RegistryConfig
from opentela.testing.sim.checkers import LatticeClimbs, Violation
from opentela.testing.sim.population import Population, PopulationForm
from opentela.testing.sim.traffic import Flow, Traffic
from opentela.testing.world import World
from opentela.testing.world_trace import Silence

LEFT_SIDE: Final = ("hub", "north")
RIGHT_SIDE: Final = ("east", "west", "south")
CUT_S: Final = 60.0
TURN_S: Final = 3.0
"""At each turn somebody comes and somebody goes, on both sides."""
EQUAL_S: Final = 5.0
"""From healing until all views are equal, at most."""
BEGIN_S: Final = 40.0
CHURN_S: Final = 3.0
CHURNED: Final = 10
"""Members that register again every `CHURN_S`: the load of the published comparison."""
_STEP_S: Final = 0.05


def mesh(count: int, *, registry: RegistryConfig = LAN) -> PopulationForm:
    """Return a mesh of *count* members, with registries and routers on both sides."""
    homes = (*LEFT_SIDE[1:], *RIGHT_SIDE)
    return PopulationForm(
        registries={"registry-0": "hub", "registry-1": "east", "registry-2": "west"},
        routers={"router-0": "hub", "router-1": "east", "router-2": "north"},
        members={f"member-{number}": homes[number % len(homes)] for number in range(count)},
        registry=registry,
    )


class Healed(NamedTuple):
    """How a partition ended.

    Attributes:
        equal_s: From healing until all views held the same.
        served_s: ... and every living session was routable in all of them.
        born: Sessions that began while it lasted.
        died: ... and that ended.
        events: What the simulator did.
    """

    equal_s: float
    served_s: float
    born: int
    died: int
    events: int


class Split:
    """One partition under one seed."""

    def __init__(self, count: int, seed: int, *, registry: RegistryConfig = LAN) -> None:
        self.world = World(seed, trace=Silence())
        self.population = Population(self.world, mesh(count, registry=registry))
        self._rng = self.world.fork("split")
        self._born = self._died = 0
        self._count = count
        self._gone: set[SessionId] = set()
        LatticeClimbs(self.population)

    def result(self) -> Healed:
        """Run it.

        Raises:
            Violation: Views differ for too long, or somebody was lost, or rose from the dead.
        """
        world, population = self.world, self.population
        begin(population)
        world.network.partition(list(LEFT_SIDE), list(RIGHT_SIDE))
        for turn in range(1, int(CUT_S / TURN_S) - 1):
            for side in (LEFT_SIDE, RIGHT_SIDE):
                world.after(turn * TURN_S + self._rng.random(), self._turn, side)
        world.run(world.now + CUT_S)
        world.network.heal()
        healed_at = world.now
        equal_s = self._within(population.agree, EQUAL_S, "views are not equal")
        self._within(self._all_serve, EQUAL_S, "not everybody is routable everywhere")
        served_s = world.now - healed_at
        self._none_rose()
        if any(member.renewals for member in population.members.values()):
            raise Violation("eviction: a member had to begin a new session")
        return Healed(equal_s, served_s, self._born, self._died, world.events)

    def _within(self, holds: Callable[[], bool], within_s: float, otherwise: str) -> float:
        began = self.world.now
        if not self.world.run_until(holds, within_s=within_s, step_s=_STEP_S):
            raise Violation(f"partition: {otherwise} {within_s:.0f} s after it")
        return self.world.now - began

    def _turn(self, side: tuple[str, ...]) -> None:
        """One comes; one goes, with or without a word."""
        population, rng = self.population, self._rng
        homes = [site for site in side if site != "hub"]
        population.add(f"member-{self._count + self._born}", homes[rng.randrange(len(homes))])
        self._born += 1
        here = [name for name, member in population.members.items() if member.node.site in side]
        name = here[rng.randrange(len(here))]
        claim = population.members[name].claim
        assert claim is not None
        self._gone.add(claim.session)
        (population.leave if rng.random() < 0.5 else population.crash)(name)  # noqa: PLR2004
        self._died += 1

    def _all_serve(self) -> bool:
        living = self.population.living()
        return all(
            (record := held.get(session)) is not None and is_routable(record)
            for _, held in self.population.views()
            for session in living
        )

    def _none_rose(self) -> None:
        for name, held in self.population.views():
            for session in self._gone:
                record = held.get(session)
                if record is not None and is_routable(record):
                    raise Violation(f"resurrection: {name} would route to {session}, which died")


def begin(population: Population) -> None:
    """Start a mesh and wait until everybody knows everybody.

    Raises:
        Violation: It does not come to that.
    """
    population.begin()
    if not population.world.run_until(population.is_ready, within_s=BEGIN_S):
        raise Violation("start: the mesh does not come up")


class Spoken(NamedTuple):
    """Bytes a second by kind: of a member, a router and a registry, each in the mean."""

    member: dict[str, Flow]
    router: dict[str, Flow]
    registry: dict[str, Flow]


def spoken(count: int, seed: int, *, churn: bool, seconds: float = 30.0) -> Spoken:
    """Measure what a mesh of *count* members says, idle or under churn."""
    world = World(seed, trace=Silence())
    form = mesh(count)
    population = Population(world, form)
    begin(population)
    world.run(world.now + 5.0)
    traffic = world.network.meter = Traffic()
    if churn:
        rng = world.fork("churn")
        for turn in range(int(seconds / CHURN_S)):
            for name in rng.sample(list(form.members), min(CHURNED, count)):
                at_s = turn * CHURN_S + rng.uniform(0.0, CHURN_S)
                world.after(at_s, _register_again, population, name, rng)
    world.run(world.now + seconds)
    return Spoken(
        *(
            traffic.rates(list(names), seconds)
            for names in (form.members, form.routers, form.registries)
        )
    )


def _register_again(population: Population, name: str, rng: Random) -> None:
    population.leave(name)
    population.world.after(rng.uniform(0.0, 0.5), population.start, name)
