"""Whether the model of SWIM is true to what is published of Serf: how a rumour spreads."""

import math
from typing import Final, NamedTuple

from opentela.testing.sim.campaign.swim_parts import Rumour, SwimConfig
from opentela.testing.sim.campaign.swim_system import Swim
from opentela.testing.world import World
from opentela.testing.world_trace import Silence

_STEP_S: Final = 0.02
_NEWS: Final = 2
"""The incarnation that everybody is to learn of."""


def published_s(config: SwimConfig, members: int, share: float) -> float:
    """Return when *share* of a group knows a rumour by the formula of Serf's own simulator.

    It is the logistic curve of an epidemic in which each contact counts half.
    """
    rate = config.gossip_nodes / 2
    rounds = math.log((members + 1) / (1 / share - 1)) / rate
    return rounds * config.gossip_s


class Spread(NamedTuple):
    """How one update reached a group: seconds until half, until 95 % and until everybody knew."""

    half_s: float
    most_s: float
    all_s: float


def spread(config: SwimConfig, seed: int, *, within_s: float = 20.0) -> Spread:
    """Let one member of a quiet group say something new of itself, and watch who hears of it."""
    world = World(seed, trace=Silence())
    group = Swim(world, lambda *_: None, config)
    group.begin()
    world.run(3.0)
    names = list(group.ground.members)
    teller = names[world.fork("teller").randrange(len(names))]
    machine = group.shells[teller].machine
    machine.peers[teller].incarnation = _NEWS
    group.shells[teller].say(Rumour("alive", teller, _NEWS, teller))
    began, times = world.now, list[float]()
    for share in (0.5, 0.95, 1.0):
        wanted = share * len(names)

        def is_known(wanted: float = wanted) -> bool:
            shells = group.shells.values()
            return sum(s.machine.peers[teller].incarnation == _NEWS for s in shells) >= wanted

        world.run_until(is_known, within_s=within_s, step_s=_STEP_S)
        times.append(world.now - began)
    return Spread(*times)
