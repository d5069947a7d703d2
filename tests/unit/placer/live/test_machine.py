"""Whole placers against agents that obey the contract, under virtual time and a seed."""

import random

import msgspec
import pytest
from tests.unit.placer.live import ledger, parts
from tests.unit.placer.live.world import World

from opentela.core import ids
from opentela.placer.live import messages as m
from opentela.placer.live.config import LeaseConfig
from opentela.placer.live.machine import PlacerMachine
from opentela.wire.command import Holding, Replica, Start


def world(
    seed: int = 0, *, agents: int = 2, gpus: int = 1, placers: int = 1, **given: float
) -> World:
    """Return a world of models a, b and c."""
    made = World(seed, parts.config("a", "b", "c"), **given)
    for _ in range(agents):
        made.agent(gpus)
    for _ in range(placers):
        made.placer()
    return made


def test_a_model_that_is_asked_for_gets_a_replica() -> None:
    """Although nobody ever served it: requests that were turned away are demand."""
    one = world()
    one.run(10)
    assert one.started == []
    one.rates = {"a": 1.0}
    one.run(20, until=lambda: bool(one.kinds("SERVES")))
    assert one.serving("a") == 1
    assert [event.kind for event in one.kinds("START") + one.kinds("SERVES")] == ["START", "SERVES"]


def test_the_plan_follows_a_demand_that_shifts() -> None:
    """One replica gives its place up; the last of a model that is asked for stays."""
    one = world()
    one.rates = {"a": 3.0}
    one.run(40, until=lambda: one.serving("a") == 2)
    assert one.serving("a") == 2
    one.rates = {"a": 0.3, "b": 2.0}
    one.run(60, until=lambda: one.serving("b") == 1)
    assert (one.serving("a"), one.serving("b")) == (1, 1)
    one.rates = {"b": 3.0}
    one.run(90, until=lambda: one.serving("b") == 2)
    assert (one.serving("a"), one.serving("b")) == (0, 2)


def test_what_runs_stays_when_nothing_is_asked_any_more() -> None:
    """Nothing else needs its GPUs, and somebody may ask again."""
    one = world()
    one.rates = {"a": 1.0}
    one.run(60, until=lambda: one.serving("a") == 2)
    one.rates = {}
    one.run(100)
    assert one.serving("a") == 2
    assert one.kinds("STOP") == []


def test_a_demand_that_swings_does_not_make_models_swing() -> None:
    """A replica stays for its cool-down, and what was stopped is not started at once."""
    one = world()
    for turn in range(20):
        one.rates = {"a": 3.0, "b": 0.5} if turn % 2 else {"a": 0.5, "b": 3.0}
        one.run(5)
    assert len(one.started) <= 4


def test_a_leader_that_is_killed_in_the_middle_of_a_move_has_a_successor() -> None:
    """It acts within five seconds and starts nothing that is under way already."""
    one = world(placers=2)
    one.run(2, until=lambda: one.leader() is not None)
    one.rates = {"a": 0.4}
    one.run(20, until=lambda: len(one.started) == 1)
    (dead,) = [at for at, placer in enumerate(one.placers) if placer.is_leading]
    first = one.placers[dead].term
    one.dead.add(dead)
    took_s = one.run(10, until=lambda: bool(one.kinds("ADOPTED")))
    assert took_s < 5
    leader = one.leader()
    assert leader is not None
    assert leader.term > first
    before = list(one.started)
    one.run(40)
    assert before == one.started[: len(before)]
    assert len(one.started) == one.serving("a") <= 2
    assert ledger.faults(one.events) == []


@pytest.mark.parametrize("seed", range(3))
def test_every_command_has_its_decision_and_its_outcome(seed: int) -> None:
    """Whoever led when it came: who takes over tells what has ended meanwhile."""
    one = world(seed, placers=2, gpus=2)
    for rates in ({"a": 3.0}, {"b": 3.0}, {"c": 3.0}):
        one.rates = rates
        moves = len(one.kinds("START")) + len(one.kinds("STOP"))
        one.run(40, until=lambda: len(one.kinds("START")) + len(one.kinds("STOP")) > moves)  # noqa: B023
        leading = [at for at, placer in enumerate(one.placers) if placer.is_leading]
        if leading:
            one.pause(leading[0])
            one.run(6)
            one.resume(leading[0])
    one.rates = {}
    one.run(60)
    assert len({event.command for event in one.kinds("START")}) > 2
    assert ledger.faults(one.events) == []


def test_who_follows_says_who_decides() -> None:
    """What it has decided itself once is long past."""
    one = world(placers=2)
    one.run(4, until=lambda: one.leader() is not None)
    one.run(2)
    told = {placer.is_leading: placer.status(one.now, 0.0) for placer in one.placers}
    assert told[False]["reason"] == f"{told[True]['leader']} decides"
    assert "decides" not in str(told[True]["reason"])


def test_a_leader_says_which_term_is_over_and_why() -> None:
    """It may not know who leads now."""
    one = world(placers=2)
    one.run(2, until=lambda: one.leader() is not None)
    (place,) = [at for at, placer in enumerate(one.placers) if placer.is_leading]
    term = one.placers[place].term
    one.pause(place)
    one.run(6)
    one.resume(place)
    (deposed,) = one.kinds("DEPOSED")
    assert deposed.term == term > 0
    assert deposed.reason == "its lease ran out before it was renewed"


def test_a_leader_that_lost_its_lease_acts_no_more() -> None:
    """Whatever it believed; agents never hear of an older term from one that obeys its clock."""
    one = world(placers=2, agents=1)
    one.rates = {"a": 0.4}
    one.run(2, until=lambda: one.leader() is not None)
    (paused,) = [at for at, placer in enumerate(one.placers) if placer.is_leading]
    one.dead.add(paused)
    one.run(30, until=lambda: one.serving("a") == 1)
    one.dead.clear()
    one.run(20)
    assert one.outdated == 0
    assert not one.placers[paused].is_leading
    assert len(one.started) == 1


def test_a_start_that_fails_is_tried_at_another_agent() -> None:
    """The one at which it failed is left alone for a while."""
    one = world()
    one.failing = 1.0
    one.rates = {"a": 1.0}
    one.run(20, until=lambda: len(one.started) == 1)
    one.failing = 0.0
    one.run(20, until=lambda: one.serving("a") == 1)
    first, second, *_ = (event.agent for event in one.kinds("START"))
    assert first != second
    assert len(one.kinds("FAILED")) == 1


def test_a_replica_whose_agent_ends_gets_a_successor_in_time() -> None:
    """And nothing is started where time is short."""
    one = world(agents=0)
    one.agent(1, lasts_s=60)
    one.placer()
    one.rates = {"a": 1.0}
    one.run(25, until=lambda: one.serving("a") == 1)
    assert one.serving("a") == 1
    one.agent(1)
    one.agent(1, lasts_s=20)
    one.run(40, until=lambda: one.serving("a") == 2)
    assert one.serving("a") == 2
    assert len(one.agents[2].starts) == 0


def test_an_engine_that_somebody_started_counts() -> None:
    """No replica of ours is needed beside it."""
    one = world()
    one.tell(parts.engine(900, "a"))
    one.rates = {"a": 0.1}
    one.run(30)
    assert one.started == []


def test_in_a_dry_run_it_is_said_and_not_done() -> None:
    """Without a lease, too."""
    one = World(0, parts.config("a", dry_run=True))
    one.agent(1)
    one.placer()
    one.rates = {"a": 1.0}
    one.run(20)
    assert one.started == []
    assert one.lease.revision == 0
    (first, *_) = one.kinds("PLANNED")
    assert first.dry_run
    assert [(p.model, p.running, p.planned) for p in first.placed] == [("a", 0, 1)]
    assert [(a.model, a.refused_rps > 0) for a in first.asked] == [("a", True)]


def test_it_tells_what_it_does() -> None:
    """On the health page: who leads, what is asked, what runs where."""
    one = world()
    one.rates = {"a": 1.0}
    one.run(20, until=lambda: one.serving("a") == 1)
    one.run(1)
    status = one.placers[0].status(one.now, 0.0)
    assert status["leads"] is True
    replicas, agents = status["replicas"], status["agents"]
    assert isinstance(replicas, list)
    assert isinstance(agents, list)
    assert ("a", "serving") in [(one["model"], one["state"]) for one in replicas]
    assert sum(one["free"] for one in agents) == len(agents) - len(replicas)


def test_what_an_agent_said_to_an_earlier_leader_counts_no_more() -> None:
    """It may have been told to do something else since; nor does another provider's word count."""
    one = world(agents=1)
    one.run(5, until=lambda: one.leader() is not None)
    machine, (agent,) = one.placers[0], one.agents
    replica = Replica(
        start=ids.ulid(1, bytes(10)),
        template="fake",
        model="a",
        tp=1,
        pp=1,
        gpus=("0",),
        state="ready",
    )
    told = Holding(hardware="cpu", gpus=("0",), replicas=(replica,))
    for epoch, provider, found in ((-1, "p", 0), (0, "q", 0), (0, "p", 1)):
        held = m.Held(
            epoch=machine.epoch + epoch, provider=provider, agent=agent.session, holding=told
        )
        one.feed(0, held)
        assert len(machine.fleet.lives) == found


def test_before_the_map_is_known_nothing_is_done() -> None:
    """An empty map says nothing of what runs."""
    config = parts.config("a", lease=LeaseConfig(kind="none"))
    machine = PlacerMachine(
        config, name="one", instance="i", rng=random.Random(0), now=0.0, wall=0.0
    )
    machine.step(1.0, 1.0, m.Used(records=(parts.used("a", status=503),)))
    machine.step(1.0, 1.0, m.Tick())
    assert machine.is_leading
    assert machine.why_not() == "no registry has told yet who is there"
    actions = machine.step(2.0, 2.0, m.Changed(records=(parts.agent(1),)))
    assert not any(isinstance(action, m.Tell | m.Plan) for action in actions)
    actions = machine.step(3.0, 3.0, m.Changed(is_whole=True))
    assert any(isinstance(action, m.Tell) for action in actions)
    assert machine.why_not() == ""


def test_agents_are_heard_before_anything_is_decided_though_the_map_comes_late() -> None:
    """What they run is known only then: else all of it would be too much."""
    config = parts.config("a", lease=LeaseConfig(kind="none"))
    machine = PlacerMachine(
        config, name="one", instance="i", rng=random.Random(0), now=0.0, wall=0.0
    )
    machine.step(1.0, 1.0, m.Tick())
    changed = m.Changed(records=(parts.agent(1), parts.engine(2, "a")), is_whole=True)
    actions = machine.step(60.0, 60.0, changed)
    assert any(isinstance(action, m.Tell) for action in actions)
    assert not any(isinstance(action, m.Plan) for action in actions)
    waited = machine.step(61.0, 61.0, m.Tick())
    assert not any(isinstance(action, m.Plan) for action in waited)
    late = machine.step(62.5, 62.5, m.Tick())
    assert any(isinstance(action, m.Plan) for action in late)


@pytest.mark.parametrize("seed", range(10))
def test_through_loss_deaths_and_shifts_the_plan_is_reached(seed: int) -> None:
    """No GPU is held twice, no last replica stopped, no move done twice; at the end all is well."""
    one = world(seed, agents=3, gpus=2, placers=2, loss=0.1)
    one.failing = 0.1
    rng = one.rng
    for _ in range(6):
        one.rates = {model: rng.choice([0.0, 0.5, 2.0]) for model in "abc"}
        one.run(rng.uniform(5, 15))
        harm = rng.random()
        if harm < 0.4:
            living = [at for at in range(len(one.placers)) if at not in one.dead]
            leading = [at for at in living if one.placers[at].is_leading]
            one.dead.add(leading[0] if leading else living[0])
            one.placer()
        elif harm < 0.7:
            victim = rng.choice([agent for agent in one.agents if agent.is_alive])
            victim.die()
            one.agent(2)
    one.loss = one.failing = 0.0
    one.rates = {"a": 1.5, "b": 0.5, "c": 0.5}
    one.run(90, until=lambda: all(one.serving(model) for model in "abc"))
    assert all(one.serving(model) for model in "abc")
    one.run(120, until=lambda: is_settled(one))
    assert is_settled(one)
    commands = [start.command for start in one.started]
    assert len(commands) == len(set(commands))


@pytest.mark.parametrize("seed", range(3))
def test_a_replica_steps_aside_for_one_that_needs_a_whole_agent(seed: int) -> None:
    """It runs elsewhere first; the GPUs were there, but not at one agent."""
    config = parts.config("a", "b", "c")
    sized = zip(config.models, (2, 2, 4), strict=True)
    models = tuple(msgspec.structs.replace(model, tp=(size,)) for model, size in sized)
    one = World(seed, msgspec.structs.replace(config, models=models))
    for model in "ab":
        agent = one.agent(4)
        command = ids.ulid(1, bytes([ord(model)] * 10))
        agent.start(Start(command=command, term=0, template=parts.TEMPLATE, model=model, tp=2))
    one.run(10)
    one.placer()
    one.rates = {"a": 0.4, "b": 0.4}
    one.run(10)
    one.rates["c"] = 0.4
    one.run(60, until=lambda: one.serving("c") == 1)
    one.run(60)
    assert all(one.serving(model) for model in "abc")
    assert len(one.started) <= 6


def is_settled(one: World) -> bool:
    """Return whether what the leader plans is what runs, and nothing is under way."""
    leader = one.leader()
    if leader is None or any(not life.is_serving for life in leader.fleet.lives.values()):
        return False
    planned: dict[str, int] = {}
    for group, count in (leader.mover.target or {}).items():
        planned[group.model] = planned.get(group.model, 0) + count
    return planned == {model: one.serving(model) for model in planned}


def test_nobody_waits_for_ever_where_all_have_their_turn() -> None:
    """Three models, one GPU."""
    plan = msgspec.structs.replace(parts.QUICK, wait_max_s=20.0, turn_s=10.0)
    one = World(1, parts.config("a", "b", "c", plan=plan))
    one.agent(1)
    one.placer()
    one.may_rob = True
    one.rates = {"a": 2.0, "b": 0.5, "c": 0.5}
    served = dict.fromkeys("abc", 0.0)
    for _ in range(300):
        one.run(1)
        for model in served:
            served[model] += one.serving(model)
    assert min(served.values()) > 20
    told = [event.reason for event in one.kinds("PLANNED")]
    assert any("expected to use its GPUs least" in reason for reason in told)
    one.rates = {}
    one.run(60)
    assert ledger.faults(one.events) == []
