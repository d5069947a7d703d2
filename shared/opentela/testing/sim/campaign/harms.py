"""What befalls the living in a trial, and the three deaths that happen meanwhile."""

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from opentela.testing.sim.campaign.ground import SITES, Ground
from opentela.testing.world_node import Node

STOPPED: Final = (1, 2, 4, 8, 16, 32)
"""So many members are stopped together."""
LOSS_S: Final = 15.0
STARVED_S: Final = 15.0
STALL_MAX_S: Final = 5.0
"""A starved process never stands still longer; what is longer is a stopped one."""
AWAKE_S: Final = 0.03
"""What it runs between two stalls, in the mean: enough to work off what has queued up."""
ONE_WAY_S: Final = (8.0, 40.0)
CLOCK_TURNS: Final = 5
CLOCK_TURN_S: Final = 3.0
CLOCK_JUMP_S: Final = 600.0


class Harm(NamedTuple):
    """What was done.

    Attributes:
        length_s: When it is over, counted from its beginning.
        victims: Members that it befell: to leave them out of routing meanwhile may be right.
        detail: In words, for the row.
        blind: Sites from where little can be seen: what is thought there says nothing.
    """

    length_s: float
    victims: frozenset[str]
    detail: str
    blind: frozenset[str] = frozenset()


Cell: TypeAlias = Callable[[Ground, Random], Harm]


def calm(_ground: Ground, _rng: Random) -> Harm:
    """Do nothing."""
    return Harm(6.0, frozenset(), "")


def stopped(length_s: float) -> Cell:
    """Return a harm that stops members as SIGSTOP does, all at once, for *length_s*."""

    def stop(ground: Ground, rng: Random) -> Harm:
        count = rng.choice(STOPPED)
        victims = ground.some(rng, count)
        for name in victims:
            ground.node(name).pause()
            ground.world.after(length_s, ground.node(name).resume)
        return Harm(length_s, frozenset(victims), f"{count}")

    return stop


def lossy(share: float) -> Cell:
    """Return a harm that loses *share* of the messages on every link, also within sites."""

    def lose(ground: Ground, _rng: Random) -> Harm:
        network = ground.world.network
        for source in SITES:
            for target in SITES:
                form = network.local if source == target else network.wide
                network.shape(source, target, replace(form, loss=share))
        ground.world.after(LOSS_S, network.unshape)
        return Harm(LOSS_S, frozenset(ground.members), f"{share:.0%}")

    return lose


def one_way(ground: Ground, rng: Random) -> Harm:
    """Cut one direction: a site that hears and is not heard, or the other way, or one link."""
    network, site = ground.world.network, rng.choice(SITES[1:])
    others = [other for other in SITES if other != site]
    kind = rng.choice(("mute", "deaf", "link"))
    length_s = rng.uniform(*ONE_WAY_S)
    for other in others if kind != "link" else [rng.choice(others)]:
        source, target = (other, site) if kind == "deaf" else (site, other)
        network.cut(source, target)
    ground.world.after(length_s, network.heal_cuts)
    victims = frozenset(ground.at_sites({site}))
    return Harm(length_s, victims, f"{kind} {site} {length_s:.0f} s", frozenset({site}))


def starved(ground: Ground, rng: Random) -> Harm:
    """Let processes run only now and then: members, and mostly a watcher or two as well."""
    count = rng.choice(STOPPED)
    victims = ground.some(rng, count)
    stall_s = rng.uniform(0.2, 2.0)
    # Their own draws: under a system without watchers the same befalls the same members.
    others = ground.world.fork("watchers")
    watchers = [name for name in ground.watchers if others.random() < 0.3]  # noqa: PLR2004
    for name in (*victims, *watchers):
        own = ground.world.fork(f"stalls/{name}")
        _stall(ground, ground.node(name), own, stall_s, ground.world.now + STARVED_S)
    return Harm(
        STARVED_S, frozenset(victims), f"{count} and {','.join(watchers) or '-'} {stall_s:.1f} s"
    )


def _stall(ground: Ground, node: Node, rng: Random, mean_s: float, until: float) -> None:
    node.pause()
    ground.world.after(
        min(rng.expovariate(1 / mean_s), STALL_MAX_S), _run_on, ground, node, rng, mean_s, until
    )


def _run_on(ground: Ground, node: Node, rng: Random, mean_s: float, until: float) -> None:
    node.resume()
    if ground.world.now < until:
        ground.world.after(rng.expovariate(1 / AWAKE_S), _stall, ground, node, rng, mean_s, until)


def clocks(ground: Ground, rng: Random) -> Harm:
    """Set everybody's wall clock again and again, by up to ten minutes either way."""
    others = ground.world.fork("watchers")
    for turn in range(CLOCK_TURNS):
        for name in (*ground.members, *ground.watchers):
            draws = rng if name in ground.members else others
            offset_s = draws.uniform(-CLOCK_JUMP_S, CLOCK_JUMP_S)
            ground.world.after(CLOCK_TURN_S * turn, ground.node(name).jump, offset_s)
    return Harm(CLOCK_TURN_S * CLOCK_TURNS, frozenset(), "")


CELLS: Final[dict[str, Cell]] = {
    "calm": calm,
    "stopped 1 s": stopped(1.0),
    "stopped 4 s": stopped(4.0),
    "stopped 8 s": stopped(8.0),
    "stopped 16 s": stopped(16.0),
    "stopped 32 s": stopped(32.0),
    "loss 5 %": lossy(0.05),
    "loss 10 %": lossy(0.10),
    "loss 30 %": lossy(0.30),
    "one-way cut": one_way,
    "starved": starved,
    "clocks": clocks,
}
"""Seeds take turns with them."""

DEATHS: Final = ("killed", "link lost", "half-open")
"""Each trial has one of each: a process that ends, a link that closes, a link that goes silent."""


def die(ground: Ground, how: str, name: str, crash: Callable[[str], None]) -> None:
    """Let a member die; nothing is heard of it again."""
    node = ground.node(name)
    match how:
        case "killed":
            crash(name)
        case "link lost":
            ground.world.network.isolate(node)
            node.detach()
        case _:
            ground.world.network.isolate(node)
