"""Agents that are alike are one pool."""

from tests.unit.placer.live import parts

from opentela.core.record import claim_of
from opentela.placer.live.fleet import Agent
from opentela.placer.live.pools import pools_of
from opentela.wire.command import Holding


def agent(number: int, gpus: int, *templates: str, site: str = "a") -> Agent:
    made = Agent(claim_of(parts.agent(number, site=site)), is_live=True)
    names = tuple(map(str, range(gpus)))
    made.holding = Holding(hardware="cpu", gpus=names, templates=templates)
    return made


def test_site_hardware_and_size_tell_pools_apart() -> None:
    """As many nodes as there are agents."""
    found = pools_of([agent(1, 2), agent(2, 2), agent(3, 4), agent(4, 2, site="b")])
    assert [(pool.name, pool.agents, pool.gpus) for pool in found] == [
        ("a/cpu/2", 2, 2),
        ("a/cpu/4", 1, 4),
        ("b/cpu/2", 1, 2),
    ]


def test_a_pool_can_what_each_of_its_agents_can() -> None:
    """Whichever of them gets the start."""
    (pool,) = pools_of([agent(1, 2, "x", "y"), agent(2, 2, "y", "z")])
    assert pool.templates == ("y",)
