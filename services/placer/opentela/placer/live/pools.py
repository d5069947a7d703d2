"""Agents that are alike, as the solver sees them: nodes of one pool."""

from collections.abc import Iterable

import msgspec

from opentela.placer.live.fleet import Agent


class PoolSeen(msgspec.Struct, frozen=True, kw_only=True):
    """Agents that are alike.

    Attributes:
        templates: Those that all of them have.
    """

    name: str
    site: str
    hardware: str
    agents: int
    gpus: int
    templates: tuple[str, ...] = ()


def pools_of(agents: Iterable[Agent]) -> tuple[PoolSeen, ...]:
    """Return the pools of *agents* that have said what they have; their common templates."""
    by_name: dict[str, list[Agent]] = {}
    for agent in agents:
        by_name.setdefault(agent.pool, []).append(agent)
    found = []
    for name, members in sorted(by_name.items()):
        first = members[0]
        offered = [one.holding.templates for one in members if one.holding]
        shared = [word for word in offered[0] if all(word in other for other in offered)]
        found.append(
            PoolSeen(
                name=name,
                site=first.path.site,
                hardware=first.hardware,
                agents=len(members),
                gpus=first.gpus,
                templates=tuple(sorted(shared)),
            )
        )
    return tuple(found)
