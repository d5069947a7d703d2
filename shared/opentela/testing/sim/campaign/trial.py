"""One trial: a seed, a system that watches, one harm, three deaths; and what was seen."""

import time
from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from opentela.testing.sim.campaign.ground import Ground
from opentela.testing.sim.campaign.harms import CELLS, DEATHS, Harm, die
from opentela.testing.sim.campaign.rows import Row
from opentela.testing.sim.campaign.sightings import Sighting, Sightings, Tell
from opentela.testing.world import World
from opentela.testing.world_trace import Silence, Trace

SPREAD_S: Final = 4.0
"""Deaths happen within so many seconds of the beginning of the harm."""
LONG_EVERY: Final = 4
"""Of calm trials every fourth goes on until the dead have been removed for good."""


class System(Protocol):
    """Who watches over the members: registries and routers, or the members each other.

    Attributes:
        ground: Whom it watches over.
        viewers: Whose views count.
        tail_s: From the end of the harm until what it caused is over.
        grace_s: From a member's being out until it is removed.
    """

    ground: Ground
    viewers: tuple[str, ...]
    tail_s: float
    grace_s: float

    def begin(self) -> None:
        """Start everybody."""

    def is_ready(self) -> bool:
        """Return whether everybody knows everybody."""

    def crash(self, name: str) -> None:
        """Kill a process."""

    def knows(self, viewer: str, member: str) -> bool:
        """Return whether a view would use a member now."""

    def called(self, member: str) -> str:
        """Return what messages about a member name it by."""


Setting = Callable[[World, Tell], System]
"""Makes a system with one choice of knobs."""


class Trial:
    """One seed under one setting.

    Attributes:
        cell: Which harm; seeds take turns.
        world: Where it happens.
        sightings: All that views thought.
        wronged: Living members that were removed or lost, once it is over.
    """

    def __init__(self, setting: Setting, seed: int, *, trace: Trace | None = None) -> None:
        names = list(CELLS)
        self.seed, self.cell = seed, names[seed % len(names)]
        self.world = World(seed, trace=Silence() if trace is None else trace)
        self.sightings = Sightings()
        self.system = setting(self.world, self._saw)
        self.wronged: list[str] = []
        self._died_at: dict[str, tuple[str, float]] = {}

    def _saw(self, viewer: str, member: str, what: str) -> None:
        self.sightings.add(Sighting(self.world.now, viewer, member, what))
        self.world.trace.add(self.world.now, viewer, ".", f"{member} {what}")

    def row(self) -> Row:
        """Run it and return what it saw."""
        began = time.process_time()
        harm, broken = Harm(0.0, frozenset(), ""), ""
        try:
            harm = self._go()
        except Exception as error:  # noqa: BLE001  whatever a machine raises is what was seen
            broken = f"{type(error).__name__}: {error}"
        cpu_s = time.process_time() - began
        sighted = {viewer for viewer in self.system.viewers if not self._is_blind(viewer, harm)}
        seen = self.sightings.of(self._died_at, self.world.now, sighted)
        lost = [] if broken else self._lost()
        self.wronged = [*sorted(seen.removed), *lost]
        return Row(
            seed=self.seed,
            cell=self.cell,
            detail=harm.detail,
            victims=len(harm.victims),
            removed=len(seen.removed),
            out_victims=len(seen.out_s.keys() & harm.victims),
            out_others=len(seen.out_s.keys() - harm.victims),
            out_s=round(
                sum(s for member, s in seen.out_s.items() if member not in harm.victims)
                / len(sighted),
                3,
            ),
            lost=len(lost),
            deaths=self.sightings.deaths(self._died_at, self._judging(harm)),
            virtual_s=round(self.world.now, 2),
            events=self.world.events,
            cpu_s=round(cpu_s, 3),
            broken=broken,
        )

    def _go(self) -> Harm:
        world, system = self.world, self.system
        system.begin()
        if not world.run_until(system.is_ready, within_s=30.0):
            raise AssertionError("the mesh does not come up")
        self.sightings.clear()
        rng = world.fork("harm")
        harm = CELLS[self.cell](system.ground, rng)
        self._schedule_deaths(rng, harm)
        is_long = self.cell == "calm" and self.seed // len(CELLS) % LONG_EVERY == 0
        tail_s = system.tail_s + (system.grace_s if is_long else 0.0)
        world.run(world.now + max(harm.length_s, SPREAD_S) + tail_s)
        return harm

    def _schedule_deaths(self, rng: Random, harm: Harm) -> None:
        ground = self.system.ground
        is_everybody = len(harm.victims) == len(ground.members)
        able = [name for name in ground.members if is_everybody or name not in harm.victims]
        for how, name in zip(DEATHS, rng.sample(able, len(DEATHS)), strict=True):
            self.world.after(rng.uniform(0.0, min(SPREAD_S, harm.length_s)), self._die, how, name)

    def _die(self, how: str, name: str) -> None:
        self._died_at[name] = (how, self.world.now)
        die(self.system.ground, how, name, self.system.crash)

    def _lost(self) -> list[str]:
        return [
            member
            for member in self.system.ground.members
            if member not in self._died_at
            and not all(self.system.knows(viewer, member) for viewer in self._looking())
        ]

    def _judging(self, harm: Harm) -> list[str]:
        """Return whose views can be expected to learn of a death: the harmed know little."""
        looking = [viewer for viewer in self._looking() if not self._is_blind(viewer, harm)]
        return [viewer for viewer in looking if viewer not in harm.victims] or looking

    def _is_blind(self, viewer: str, harm: Harm) -> bool:
        return self.world.nodes[viewer].site in harm.blind

    def _looking(self) -> list[str]:
        return [viewer for viewer in self.system.viewers if viewer not in self._died_at]
