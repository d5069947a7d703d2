"""What is believed of agents and their replicas follows from what they and registries say."""

import math
from typing import Any

import msgspec
import pytest
from tests.unit.placer.live import parts

from opentela.core import ids
from opentela.core.record import Lifecycle
from opentela.placer.live.fleet import Agent, Fleet, Life
from opentela.wire.command import Holding, Replica, Start

NAMES = {"a": "a", "alias": "a", "b": "b"}
WALL = 1_800_000_100.0
NEW = ids.ulid(int((WALL - 5) * 1000), bytes(10))
OTHER = ids.ulid(int((WALL - 4) * 1000), bytes(10))


def fleet() -> tuple[Fleet, Agent]:
    """Return a fleet with one agent of two GPUs."""
    one = Fleet(NAMES)
    one.apply(0.0, [parts.agent(1)])
    (agent,) = one.agents.values()
    one.hear(0.0, WALL, agent, holding())
    return one, agent


def holding(*replicas: Replica) -> Holding:
    return Holding(hardware="cpu", gpus=("0", "1"), templates=("fake",), replicas=replicas)


def replica(state: str = "loading", start: str = NEW) -> Replica:
    return Replica(start=start, template="fake", model="a", tp=1, pp=1, gpus=("0",), state=state)


def test_a_replica_that_an_earlier_leader_started_is_found() -> None:
    """It is as old as its command says, so that it is not stopped too early."""
    one, agent = fleet()
    (found,), ended = one.hear(10.0, WALL, agent, holding(replica()))
    assert ended == []
    assert (found.model, found.began_at, found.is_known) == ("a", 5.0, True)
    assert one.free(agent) == 1
    assert one.group(found).pool == "a/cpu/2"


def test_a_replica_holds_its_gpu_until_its_agent_says_that_it_has_ended() -> None:
    """While it drains, too."""
    one, agent = fleet()
    one.hear(0.0, WALL, agent, holding(replica()))
    one.hear(1.0, WALL, agent, holding(replica("draining")))
    assert one.free(agent) == 1
    assert one.lives[NEW].is_leaving
    _, ended = one.hear(2.0, WALL, agent, holding(replica("stopped")))
    assert [life.start.command for life, _ in ended] == [NEW]
    assert one.free(agent) == 2


def test_a_late_answer_neither_brings_a_replica_back_nor_ends_one() -> None:
    """Answers may pass one another on their way."""
    one, agent = fleet()
    one.hear(0.0, WALL, agent, holding(replica()))
    _, ended = one.hear(0.1, WALL, agent, holding())
    assert ended == []
    one.hear(0.2, WALL, agent, holding(replica("failed")))
    found, _ = one.hear(0.3, WALL, agent, holding(replica()))
    assert found == []
    assert one.lives == {}


def test_what_an_agent_tells_of_no_more_has_ended() -> None:
    """As after it was started again."""
    one, agent = fleet()
    one.hear(0.0, WALL, agent, holding(replica()))
    one.hear(1.0, WALL, agent, holding())
    _, ended = one.hear(2.0, WALL, agent, holding())
    assert len(ended) == 1


def test_a_start_that_was_sent_holds_its_gpu_before_anybody_answers() -> None:
    """Else a second one would be sent to the same."""
    one, agent = fleet()
    start = Start(command=NEW, term=1, template="fake", model="a", tp=2)
    one.lives[NEW] = Life(start, agent, began_at=0.0, now=0.0)
    one.hear(5.0, WALL, agent, holding())
    one.hear(9.0, WALL, agent, holding())
    assert one.free(agent) == 0


def test_a_replica_serves_while_a_session_of_it_can_be_routed_to() -> None:
    """Under any name of its model, and only then."""
    one, agent = fleet()
    one.hear(0.0, WALL, agent, holding(replica("ready")))
    assert not one.lives[NEW].is_serving
    one.apply(1.0, [parts.engine(5, "alias", made_by=NEW)])
    assert one.lives[NEW].down_at == math.inf
    one.apply(2.0, [parts.engine(5, "alias", made_by=NEW, lifecycle=Lifecycle.DRAINING)])
    assert one.lives[NEW].down_at == 2.0
    one.apply(3.0, [parts.engine(6, "b", made_by=NEW)])
    assert not one.lives[NEW].is_serving


def test_nobody_serves_in_the_name_of_another_provider() -> None:
    """A label is quickly written."""
    one, agent = fleet()
    one.hear(0.0, WALL, agent, holding(replica("ready")))
    one.apply(1.0, [parts.engine(5, "a", made_by=NEW, provider="q")])
    assert not one.lives[NEW].is_serving
    assert one.by_hand() == {("a", "a", "cpu", 1): 1}


def test_a_model_that_is_listed_no_more_serves_all_the_same() -> None:
    """It is not stopped for not being known."""
    one, agent = fleet()
    old = msgspec.structs.replace(replica("ready"), model="old")
    one.hear(0.0, WALL, agent, holding(old))
    one.apply(1.0, [parts.engine(5, "old", made_by=NEW)])
    assert one.lives[NEW].is_serving


def test_the_replicas_of_an_agent_that_is_gone_are_gone() -> None:
    """Nobody could stop them."""
    one, agent = fleet()
    one.hear(0.0, WALL, agent, holding(replica()))
    ((life, why),) = one.apply(1.0, [parts.agent(1, Lifecycle.LEFT)])
    assert (life.start.command, why) == (NEW, "its agent is gone")
    assert one.agents == {}


def test_what_ended_under_an_earlier_leader_is_told_once() -> None:
    """By the first answer that a leader hears: later ones hold nothing that it did not start."""
    one, _ = fleet()
    for agent in one.agents.values():
        agent.holding = None
        failed = msgspec.structs.replace(replica("failed"), reason="it broke")
        found, ((life, why),) = one.hear(1.0, WALL, agent, holding(failed))
        assert (found, why, life.is_leaving, one.lives) == ([], "it broke", False, {})
        late = msgspec.structs.replace(failed, start=OTHER)
        assert one.hear(2.0, WALL, agent, holding(failed, late)) == ([], [])


def test_an_agent_under_another_session_has_its_replicas_back() -> None:
    """Registries may give up one that lives."""
    one, agent = fleet()
    one.hear(0.0, WALL, agent, holding(replica()))
    one.apply(1.0, [parts.agent(1, Lifecycle.LEFT), parts.agent(2)])
    (again,) = one.agents.values()
    found, _ = one.hear(2.0, WALL, again, holding(replica()))
    assert [life.agent for life in found] == [again.session]


def test_engines_that_others_started_are_counted() -> None:
    """By model, place and size; what ours run is not among them."""
    one, agent = fleet()
    one.hear(0.0, WALL, agent, holding(replica("ready")))
    one.apply(
        0.0,
        [
            parts.engine(5, "a", made_by=NEW),
            parts.engine(6, "a"),
            parts.engine(7, "alias", "unknown"),
            parts.engine(8, "b", lifecycle=Lifecycle.DRAINING),
        ],
    )
    assert one.by_hand() == {("a", "a", "cpu", 1): 2}


@pytest.mark.parametrize(
    ("gpus", "replicas"),
    [
        (1, [{}, {"start": OTHER}]),
        (2, [{"tp": 3}]),
        (4, [{"tp": -1}]),
        (2, [{"tp": 0}]),
        (2, [{"pp": 0}]),
        (2, [{"tp": 64}]),
        (2, [{"start": "nonsense"}]),
        (5000, []),
    ],
)
def test_an_answer_that_cannot_be_true_is_none(gpus: int, replicas: list[dict[str, Any]]) -> None:
    """Else one agent that tells nonsense would keep anything from being planned at all."""
    one, agent = fleet()
    told = Holding(
        hardware="cpu",
        gpus=("0",) * gpus,
        templates=("fake",),
        replicas=tuple(msgspec.structs.replace(replica(), **changes) for changes in replicas),
    )
    assert one.hear(1.0, WALL, agent, told) == ([], [])
    assert agent.fault.startswith("it tells of")
    assert (agent.heard_at, agent.gpus, one.lives) == (0.0, 2, {})
    one.hear(2.0, WALL, agent, holding(replica()))
    assert agent.fault == ""
    assert len(one.lives) == 1
