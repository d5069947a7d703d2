"""Many members in one mesh: cut in two and healed, and what they say to each other."""

import pytest

from opentela.core.record import is_routable
from opentela.testing.sim.checkers import Violation
from opentela.testing.sim.population import Population
from opentela.testing.sim.split import Split, begin, mesh, spoken
from opentela.testing.world import World
from opentela.view import exchange


def test_views_are_equal_soon_after_a_partition() -> None:
    """Sessions were born and died on both sides; none of them is lost, none rises."""
    healed = Split(60, seed=1).result()
    assert healed.equal_s < 5.0
    assert healed.served_s < 5.0
    assert healed.born == healed.died > 30


def test_who_is_back_is_not_ended_before_its_first_beat() -> None:
    """The word of its registry arrives first, after a silence longer than the grace."""
    assert Split(128, seed=11).result().equal_s < 5.0


def test_views_that_stay_different_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nobody looked closer where digests differ."""
    monkeypatch.setattr(exchange, "asks", lambda *_: [])
    with pytest.raises(Violation, match="partition: views are not equal"):
        Split(12, seed=1).result()


def test_what_a_member_says_does_not_grow_with_the_mesh() -> None:
    """Idle, a node stays below 0.6 KB a second on the wire; nobody hears others' beats."""
    rates = [
        sum(flow.wire_bytes for flow in spoken(count, 0, churn=False, seconds=6.0).member.values())
        for count in (10, 60)
    ]
    assert abs(rates[0] - rates[1]) < 0.1 * rates[0]
    assert max(rates) < 600


def test_churn_costs_members_what_they_say_themselves() -> None:
    """Ten registrations in three seconds stay below 4 KB a second for each node."""
    said = spoken(60, 0, churn=True, seconds=6.0)
    assert sum(flow.wire_bytes for flow in said.member.values()) < 4000
    assert said.member["delta"].messages > 0
    assert said.router["delta"].nats_bytes > said.member["delta"].nats_bytes


def test_a_farewell_is_known_everywhere_at_once() -> None:
    """And who comes is routable everywhere."""
    world = World(3)
    population = Population(world, mesh(8))
    begin(population)
    claim = population.members["member-0"].claim
    assert claim is not None
    population.leave("member-0")
    population.add("member-8", "east")
    world.run(world.now + 0.5)
    for _, held in population.views():
        assert not is_routable(held.records[claim.session])
        assert set(population.living()) == set(held.living)
    assert population.ghosts() == []
