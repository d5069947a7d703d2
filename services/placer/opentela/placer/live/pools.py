"""Agents that are alike, as the solver sees them: nodes of one pool."""

from collections.abc import Iterable

from opentela.placer.live.decide import PoolSeen
from opentela.placer.live.fleet import Agent


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
