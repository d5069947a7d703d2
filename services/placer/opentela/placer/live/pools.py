"""Agents that are alike, as the solver sees them: nodes of one pool."""

from collections.abc import Iterable, Mapping

import msgspec

from opentela.placer import catalogue
from opentela.placer.live.fleet import Agent
from opentela.placer.live.hardware import gpu_of
from opentela.placer.problem import Pool


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


def priced(pool: PoolSeen, hardware: Mapping[str, str]) -> Pool:
    """Return the pool as the solver sees it; *hardware* is what the operator says of names."""
    listed = catalogue.gpus().get(gpu_of(pool.hardware, hardware))
    price = listed.price_usd_h if listed and listed.price_usd_h > 0 else 1.0
    return Pool(
        name=pool.name,
        gpu=pool.name,
        nodes=pool.agents,
        gpus_per_node=pool.gpus,
        site=pool.site,
        usd_h=price,
    )
