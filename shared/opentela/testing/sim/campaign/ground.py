"""Who there is in every trial, whichever system watches over them."""

from collections.abc import Mapping
from random import Random
from typing import Final

import msgspec

from opentela.testing.world import World
from opentela.testing.world_node import Node

SITES: Final = ("hub", "east", "west", "north", "south")
"""A site each with a registry but the last two, which therefore are only heard from afar."""
REGISTRIES: Final = {"registry-0": "hub", "registry-1": "east", "registry-2": "west"}
ROUTERS: Final = {"router-0": "hub", "router-1": "east", "router-2": "north"}
MEMBERS: Final = 128


def members(count: int = MEMBERS) -> dict[str, str]:
    """Return *count* members and their sites; nobody computes at the hub."""
    homes = SITES[1:]
    return {f"member-{number}": homes[number % len(homes)] for number in range(count)}


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What harm may be done to.

    Attributes:
        members: Name to site, the same under every system.
        watchers: Other processes that judge members; none where members judge each other.
    """

    world: World
    members: Mapping[str, str]
    watchers: tuple[str, ...] = ()

    def node(self, name: str) -> Node:
        """Return a process."""
        return self.world.nodes[name]

    def some(self, rng: Random, count: int) -> list[str]:
        """Return *count* random members."""
        return rng.sample(list(self.members), count)

    def at_sites(self, sites: set[str]) -> list[str]:
        """Return the members of *sites*."""
        return [name for name, site in self.members.items() if site in sites]
