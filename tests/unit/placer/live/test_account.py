"""What is told of decisions."""

from tests.unit.placer.live import parts

from opentela.core.record import claim_of
from opentela.placer.live import account
from opentela.placer.live.decide import Decided
from opentela.placer.live.demand import Asked
from opentela.placer.live.fleet import Agent, Life
from opentela.placer.problem import Group
from opentela.wire.command import Start


def test_times_are_those_of_lifecycle_events() -> None:
    """RFC 3339, UTC."""
    assert account.at(0.0) == "1970-01-01T00:00:00.000Z"


def test_a_decision_tells_what_runs_and_what_shall() -> None:
    """Also what is to go altogether."""
    told = Decided(target={Group("a", "x", 1): 2}, wanted_rps={"a": 3.0})
    placed = account.placed(told, {Group("b", "x", 1): 1})
    assert [(one.model, one.running, one.planned) for one in placed] == [("a", 0, 2), ("b", 1, 0)]
    (asked,) = account.asked(told, [Asked(model="a", rate_rps=1.0)])
    assert (asked.rate_rps, asked.wanted_rps) == (1.0, 3.0)


def test_a_replica_is_told_starting_serving_or_stopping() -> None:
    """In that order."""
    start = Start(command="c", term=1, template="t", model="a")
    agent = Agent(claim_of(parts.agent(1)), is_live=True)
    life = Life(start, agent, began_at=0.0, now=0.0)
    seen = [account.state(life)]
    life.is_known = True
    seen.append(account.state(life))
    life.down_at = float("inf")
    seen.append(account.state(life))
    life.stop = "s"
    seen.append(account.state(life))
    assert seen == ["told", "starting", "serving", "stopping"]
