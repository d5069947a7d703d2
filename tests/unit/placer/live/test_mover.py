"""Moves, one at a time: what is sent, repeated, given up, and never done."""

import itertools

import msgspec
from tests.unit.placer.live import parts

from opentela.core import ids
from opentela.core.ids import SiteId
from opentela.core.record import claim_of
from opentela.placer.live.config import PlanConfig
from opentela.placer.live.fleet import Agent, Fleet, Life
from opentela.placer.live.mover import Mover, Say, Send, Step
from opentela.placer.problem import Group
from opentela.wire.command import Holding, Replica, Start, Stop

WALL = 1_800_000_000.0
POOL = "a/cpu/1"


class Scene:
    """A mover, and agents of one GPU each."""

    def __init__(self, agents: int = 2) -> None:
        config = parts.config("a", "b")
        self.fleet = Fleet({"a": "a", "b": "b"})
        numbers = itertools.count()
        self.mover = Mover(
            config,
            self.fleet,
            lambda: ids.ulid(int(WALL * 1000), next(numbers).to_bytes(10, "big")),
        )
        self.now = 0.0
        records = [parts.agent(number) for number in range(agents)]
        self.fleet.apply(0.0, records)
        self.agents = [self.fleet.agents[claim_of(record).session] for record in records]
        for agent in self.agents:
            self.hear(agent)

    def hear(
        self, agent: Agent, *replicas: Replica, command: str = "", reason: str = ""
    ) -> list[Step]:
        """Have *agent* answer."""
        holding = Holding(
            command=command,
            accepted=not reason,
            reason=reason,
            hardware="cpu",
            gpus=("0",),
            templates=(parts.TEMPLATE,),
            replicas=replicas,
        )
        steps = self.mover.answered(self.now, agent, holding)
        _, ended = self.fleet.hear(self.now, WALL, agent, holding)
        return steps + [self.mover.ended(self.now, life, why) for life, why in ended]

    def step(self, *demanded: str, **target: int) -> list[Step]:
        """Let the mover go on towards *target*."""
        self.mover.target = {Group(model, POOL, 1): count for model, count in target.items()}
        return self.mover.step(self.now, WALL, term=7, demanded=demanded)

    def serve(self, place: int, model: str, *, began_at: float = -100.0) -> Life:
        """Have a replica of *model* serve at an agent."""
        command = ids.ulid(1, bytes([place, *model.encode(), *bytes(8)]))
        start = Start(command=command, term=1, template=parts.TEMPLATE, model=model)
        life = Life(start, self.agents[place], began_at=began_at, now=0.0)
        life.is_known = life.was_told_serving = True
        self.fleet.lives[command] = life
        self.fleet.apply(self.now, [parts.engine(100 + place, model, made_by=command)])
        return life


def sent(steps: list[Step]) -> list[Start | Stop]:
    """Return the commands among *steps*."""
    commands = [step.command for step in steps if isinstance(step, Send)]
    return [one for one in commands if isinstance(one, Start | Stop)]


def said(steps: list[Step]) -> list[str]:
    """Return what is told."""
    return [step.kind for step in steps if isinstance(step, Say)]


def test_a_start_is_repeated_under_its_id_until_it_is_answered() -> None:
    """An agent does it once."""
    one = Scene()
    (first,) = sent(one.step(a=1))
    assert isinstance(first, Start)
    assert (first.term, first.model) == (7, "a")
    one.now = 0.4
    assert sent(one.step(a=1)) == []
    one.now = 0.5
    assert sent(one.step(a=1)) == [first]
    agent = one.fleet.agents[one.fleet.lives[first.command].agent]
    one.hear(agent, command=first.command)
    one.now = 3.0
    assert sent(one.step(a=1)) == []


def test_a_start_that_is_refused_goes_elsewhere() -> None:
    """And not to the same agent for a while."""
    one = Scene()
    (first,) = sent(one.step(a=1))
    refused = one.fleet.agents[one.fleet.lives[first.command].agent]
    assert said(one.hear(refused, command=first.command, reason="no GPU")) == ["FAILED"]
    (second,) = sent(one.step(a=1))
    assert one.fleet.lives[second.command].agent != refused.session
    assert second.command != first.command


def test_a_start_that_nobody_answers_is_forbidden_before_it_is_tried_elsewhere() -> None:
    """It may still be on its way; until its agent has answered, its GPU is held."""
    one = Scene()
    (first,) = sent(one.step(a=1))
    silent = one.fleet.agents[one.fleet.lives[first.command].agent]
    one.now = 3.9
    for agent in one.agents:
        one.hear(agent)
    one.now = 4.0
    stop, second = sent(one.step(a=1))
    assert isinstance(stop, Stop)
    assert stop.start == first.command
    assert isinstance(second, Start)
    assert one.fleet.free(silent) == 0
    assert said(one.hear(silent, command=stop.command)) == ["FREED"]
    assert one.fleet.free(silent) == 1


def test_a_replica_that_does_not_come_to_serve_is_stopped() -> None:
    """After the time that loading may take."""
    one = Scene(agents=1)
    (first,) = sent(one.step(a=1))
    one.hear(one.agents[0], command=first.command)
    one.now = 19.0
    assert sent(one.step(a=1)) == []
    one.now = 20.0
    steps = one.step(a=1)
    assert said(steps) == ["FAILED", "STOP"]


def test_the_last_that_serves_a_model_stays_until_another_serves() -> None:
    """However much its GPU is wanted."""
    one = Scene(agents=1)
    life = one.serve(0, "a")
    assert sent(one.step("a", "b", b=1)) == []
    assert Group("b", POOL, 1) in one.mover.shut
    (stop,) = sent(one.step("b", b=1))
    assert isinstance(stop, Stop)
    assert stop.start == life.start.command


def test_room_is_made_by_what_is_too_much() -> None:
    """And nothing is started before the GPU is free."""
    one = Scene()
    one.serve(0, "a")
    one.serve(1, "a")
    (stop,) = sent(one.step("a", "b", a=1, b=1))
    assert isinstance(stop, Stop)
    one.now = 0.1
    assert sent(one.step("a", "b", a=1, b=1)) == []
    life = one.fleet.lives[stop.start]
    agent = one.fleet.agents[life.agent]
    ended = Replica(start=stop.start, template="", model="a", tp=1, pp=1, gpus=(), state="stopped")
    assert said(one.hear(agent, ended, command=stop.command)) == ["FREED"]
    (start,) = sent(one.step("a", "b", a=1, b=1))
    assert isinstance(start, Start)
    assert one.fleet.lives[start.command].agent == agent.session


def test_a_young_replica_is_not_stopped() -> None:
    """It has its cool-down."""
    one = Scene(agents=1)
    one.serve(0, "a", began_at=-3.0)
    assert sent(one.step("b", b=1)) == []
    one.now = 1.0
    one.hear(one.agents[0])
    assert len(sent(one.step("b", b=1))) == 1


def test_nothing_is_started_where_nobody_answers_or_time_is_short() -> None:
    """Such an agent is no place."""
    one = Scene(agents=1)
    one.now = 5.0
    assert sent(one.step(a=1)) == []
    one.hear(one.agents[0])
    one.agents[0].ends_at = WALL + 10
    assert sent(one.step(a=1)) == []
    one.agents[0].ends_at = WALL + 31
    assert len(sent(one.step(a=1))) == 1


def test_no_more_is_under_way_than_may_be() -> None:
    """A mesh that begins does not load everything at once."""
    one = Scene(agents=12)
    assert len(sent(one.step(a=12))) == parts.MOVES.moves_max


def test_a_repeated_failure_waits_longer_each_time() -> None:
    """Up to the greatest wait."""
    one = Scene(agents=1)
    waits = []
    for _ in range(4):
        (start,) = sent(one.step(a=1))
        one.hear(one.agents[0], command=start.command, reason="broken")
        began = one.now
        while not any(isinstance(command, Start) for command in sent(one.step(a=1))):
            one.now += 1.0
            one.hear(one.agents[0])
        (life,) = one.fleet.lives.values()
        del one.fleet.lives[life.start.command]
        waits.append(one.now - began)
    assert waits == [4.0, 8.0, 16.0, 32.0]


def test_a_place_where_nothing_failed_is_better() -> None:
    """Also once the wait for the other is over."""
    one = Scene()
    (start,) = sent(one.step(a=1))
    bad = one.fleet.agents[one.fleet.lives[start.command].agent]
    one.hear(bad, command=start.command, reason="broken")
    one.now = parts.MOVES.backoff_s
    for agent in one.agents:
        one.hear(agent)
    (again,) = sent(one.step(a=1))
    assert one.fleet.lives[again.command].agent != bad.session


def test_a_replica_that_drains_before_it_served_has_failed() -> None:
    """What is started in its place is not started where it was; its end is no second failure."""
    one = Scene()
    (start,) = sent(one.step("a", a=1))
    agent = one.fleet.agents[one.fleet.lives[start.command].agent]
    told = Replica(
        start=start.command, template="", model="a", tp=1, pp=1, gpus=("0",), state="draining",
        reason="it crashed",
    )  # fmt: skip
    one.hear(agent, told, command=start.command)
    steps = one.step("a", a=1)
    assert said(steps) == ["FAILED", "START"]
    assert one.mover.blame.told(0.0)[0].reason == "it crashed"
    (again,) = sent(steps)
    assert one.fleet.lives[again.command].agent != agent.session
    assert said(one.hear(agent, msgspec.structs.replace(told, state="failed"))) == ["FREED"]
    assert one.mover.blame.count(agent.session, "a") == 1


def test_a_replica_that_served_and_fails_for_good_has_failed() -> None:
    """Although it drained meanwhile; one that was asked to leave has not."""
    one = Scene()
    for place, state, kind in ((0, "failed", "FAILED"), (1, "stopped", "FREED")):
        life = one.serve(place, "a")
        told = Replica(
            start=life.start.command, template="", model="a", tp=1, pp=1, gpus=(), state="draining"
        )
        one.hear(one.agents[place], told)
        assert said(one.step("a", a=1)) in ([], ["START"])
        assert kind in said(one.hear(one.agents[place], msgspec.structs.replace(told, state=state)))


def test_a_place_that_comes_is_used_at_once() -> None:
    """That there was no room before it came is no reason to wait."""
    one = Scene(agents=1)
    (start,) = sent(one.step(a=1))
    one.hear(one.agents[0], command=start.command, reason="broken")
    assert sent(one.step(a=1)) == []
    assert one.mover.notes() == (f"a (TP1) finds no room in {POOL}: it failed there lately",)
    record = parts.agent(9)
    one.fleet.apply(0.0, [record])
    one.hear(one.fleet.agents[claim_of(record).session])
    (again,) = sent(one.step(a=1))
    assert one.fleet.lives[again.command].agent == claim_of(record).session
    assert one.mover.notes() == ()


def test_a_start_at_an_agent_that_fell_silent_is_made_up_for() -> None:
    """Registries take their time to give the agent up; when it is back, one of both is too much."""
    one = Scene()
    (start,) = sent(one.step("a", a=1))
    silent, other = (
        one.fleet.agents[one.fleet.lives[start.command].agent],
        next(a for a in one.agents if a.session != one.fleet.lives[start.command].agent),
    )
    told = Replica(start=start.command, template="", model="a", tp=1, pp=1, gpus=("0",), state="")
    one.hear(silent, told, command=start.command)
    one.now = parts.MOVES.silent_s
    one.hear(other)
    assert not one.mover.answers(one.now, silent)
    (again,) = sent(one.step("a", a=1))
    assert one.fleet.lives[again.command].agent == other.session


def test_a_replica_that_serves_counts_although_its_agent_is_silent() -> None:
    """Requests reach it."""
    one = Scene()
    one.serve(0, "a")
    one.now = parts.MOVES.silent_s
    one.hear(one.agents[1])
    assert one.mover.answers(one.now, one.agents[0])
    assert sent(one.step("a", a=1)) == []


def test_two_that_would_change_places_stay_and_it_is_said_why() -> None:
    """Each is the last that serves its model, and nothing is free."""
    one = Scene()
    other = f"{POOL}+"
    one.agents[1].path = one.agents[1].path._replace(site=SiteId("b"))
    other = one.agents[1].pool
    one.serve(0, "a")
    one.serve(1, "b")
    one.mover.target = {Group("a", other, 1): 1, Group("b", POOL, 1): 1}
    assert one.mover.step(one.now, WALL, term=7, demanded=("a", "b")) == []
    assert one.mover.notes() == (
        f"a (TP1) finds no room in {other}: b would have to go from there, and serves nowhere else",
        f"b (TP1) finds no room in {POOL}: a would have to go from there, and serves nowhere else",
    )


def test_one_of_two_that_change_places_goes_first_if_it_may() -> None:
    """The other starts in its place before it goes; who is gone meanwhile is not forgotten."""
    one = Scene()
    one.agents[1].path = one.agents[1].path._replace(site=SiteId("b"))
    other = one.agents[1].pool
    one.serve(0, "a")
    gone = one.serve(1, "b")
    one.mover.target = {Group("a", other, 1): 1, Group("b", POOL, 1): 1}
    one.mover.yields = frozenset({"b"})
    (stop,) = sent(one.mover.step(one.now, WALL, term=7, demanded=("a", "b")))
    assert isinstance(stop, Stop)
    assert (stop.start, list(one.mover.owed)) == (gone.start.command, ["b"])
    assert sent(one.mover.step(one.now, WALL, term=7, demanded=("a", "b"))) == []
    del one.fleet.lives[gone.start.command]
    (start,) = sent(one.mover.step(one.now, WALL, term=7, demanded=("a", "b")))
    assert isinstance(start, Start)
    assert start.model == "a"


def test_who_gives_its_place_up_for_good_is_owed_nothing() -> None:
    """It waits like others do."""
    one = Scene(1)
    one.serve(0, "a")
    one.mover.yields = frozenset({"a"})
    (stop,) = sent(one.step("a", "b", b=1))
    assert isinstance(stop, Stop)
    assert one.mover.owed == {}


def test_a_turn_may_be_shorter_than_other_stays() -> None:
    """As long as the operator says."""
    config = parts.config("a", plan=PlanConfig(cool_down_s=100.0, turn_s=10.0))
    for turns, stays_s in ((("a",), 10.0), ((), 100.0)):
        one = Scene(1)
        one.mover = Mover(config, one.fleet, lambda: ids.ulid(1, bytes(10)))
        one.mover.follow({Group("a", POOL, 1): 1}, (), turns)
        (start,) = sent(one.mover.step(0.0, WALL, term=7, demanded=()))
        life = one.fleet.lives[start.command]
        assert one.mover.locked(stays_s - 0.1, life)
        assert not one.mover.locked(stays_s, life)


def test_what_is_listed_no_more_is_not_started_anew() -> None:
    """An earlier leader started it; nothing says how, and nothing else waits for it."""
    one = Scene()
    assert sent(one.step(old=1)) == []
    assert said(one.step(old=1)) == []
    one.serve(0, "a")
    one.serve(1, "a")
    (stop,) = sent(one.step("a", a=1, old=1))
    assert isinstance(stop, Stop)


def test_a_stop_that_is_refused_is_said_under_another_id() -> None:
    """An agent takes one that is older than what it forgot for one that it has done."""
    one = Scene()
    one.serve(0, "a")
    one.serve(1, "a")
    (stop,) = sent(one.step("a", a=1))
    assert isinstance(stop, Stop)
    agent = one.fleet.agents[one.fleet.lives[stop.start].agent]
    told = Replica(start=stop.start, template="", model="a", tp=1, pp=1, gpus=("0",), state="ready")
    one.hear(agent, told, command=stop.command, reason="too old")
    one.now = 1.0
    (again,) = sent(one.step("a", a=1))
    assert isinstance(again, Stop)
    assert again.start == stop.start
    assert again.command != stop.command


def test_a_start_says_what_the_model_is_configured_for() -> None:
    """Nothing else: what it is started with stands at the agent."""
    one = Scene()
    (start,) = sent(one.step(a=1))
    told = msgspec.structs.asdict(start)
    assert {told["template"], told["model"]} == {parts.TEMPLATE, "a"}


def test_what_is_found_stays_until_it_is_decided_about() -> None:
    """A decision that did not know of it does not mean to end it."""
    one = Scene()
    known, found = one.serve(0, "a"), one.serve(1, "b")
    one.mover.target = {one.fleet.group(known): 1}
    decided = one.mover.target
    one.mover.keep([found])
    assert one.mover.target == {one.fleet.group(known): 1, one.fleet.group(found): 1}
    assert len(decided) == 1
    assert sent(one.mover.step(one.now, WALL, term=1, demanded=())) == []
    one.mover.target = None
    one.mover.keep([found])
    assert one.mover.target is None
