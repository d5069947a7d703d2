"""What is asked of the solver follows from what is heard."""

import random

import msgspec
from tests.unit.placer.live import parts

from opentela.core import ids
from opentela.core.record import claim_of
from opentela.placer.live.demand import Demands
from opentela.placer.live.experience import MINUTE_S, MINUTES, Seen
from opentela.placer.live.fleet import Agent, Fleet, Life
from opentela.placer.live.mover import Mover
from opentela.placer.live.survey import Survey, signature
from opentela.placer.problem import Group
from opentela.wire.command import Holding, Start

WALL = 1_800_000_000.0


class Scene:
    """One agent of two GPUs and a survey of it."""

    def __init__(self) -> None:
        config = parts.config("a", "b")
        names = {name: name for name in "ab"}
        self.rng = random.Random(1)
        self.demands = Demands(config.demand, names, 0.0)
        self.fleet = Fleet(names)
        self.mover = Mover(config, self.fleet, self.id)
        self.survey = Survey(config, self.demands, self.fleet, self.mover, 0.0)
        record = parts.agent(1)
        self.fleet.apply(0.0, [record])
        self.agent: Agent = self.fleet.agents[claim_of(record).session]
        self.hear(2)

    def id(self) -> str:
        return ids.ulid(int(WALL * 1000), self.rng.randbytes(10))

    def hear(self, gpus: int) -> None:
        """Have the agent say how many GPUs it has."""
        told = Holding(hardware="cpu", gpus=("0",) * gpus, templates=(parts.TEMPLATE,))
        self.fleet.hear(0.0, WALL, self.agent, told)

    def start(self, model: str, tp: int = 1, *, began_at: float = -100.0) -> Life:
        """Have a start be on its way."""
        start = Start(command=self.id(), term=1, template=parts.TEMPLATE, model=model, tp=tp)
        life = self.fleet.lives[start.command] = Life(start, self.agent, began_at=began_at, now=0.0)
        return life


def test_what_runs_and_what_is_too_young_to_be_stopped() -> None:
    """By group."""
    one = Scene()
    one.start("a")
    one.start("b", began_at=-1.0)
    asked = one.survey.question(0.0, WALL)
    a, b = Group("a", "a/cpu/2", 1), Group("b", "a/cpu/2", 1)
    assert (asked.running, asked.locked) == ({a: 1, b: 1}, {a: 0, b: 1})
    assert [(pool.agents, pool.gpus) for pool in asked.pools] == [(1, 2)]


def test_what_its_agent_has_no_room_for_any_more_is_not_planned_with() -> None:
    """The solver would refuse the whole question."""
    one = Scene()
    one.start("a", 2)
    for gpus in (1, 0):
        one.hear(gpus)
        assert one.survey.question(0.0, WALL).running == {}


def test_a_model_that_waits_does_not_wait_for_the_next_decision() -> None:
    """Nor do agents that come or go; a rate that changes does."""
    one = Scene()
    quiet = one.survey.question(0.0, WALL)
    one.demands.add(1.0, [parts.used("a", status=503)])
    waiting = one.survey.question(1.0, WALL)
    assert signature(quiet) != signature(waiting)
    (first, second) = waiting.asked
    more = msgspec.structs.replace(first, rate_rps=9.0)
    assert signature(waiting) == signature(msgspec.structs.replace(waiting, asked=(more, second)))
    one.hear(1)
    assert signature(waiting) != signature(one.survey.question(1.0, WALL))


def test_the_last_replica_of_what_is_asked_for_stays() -> None:
    """What nobody asks for need not."""
    one = Scene()
    one.demands.add(1.0, [parts.used("a")])
    assert one.survey.demanded(1.0) == {"a"}


def test_a_glance_tells_what_cannot_wait() -> None:
    """Without counting: the same models are waited for."""
    one = Scene()
    one.start("b")
    one.demands.add(1.0, [parts.used("a", status=503), parts.used("b")])
    glance, asked = one.survey.glance(1.0, WALL), one.survey.question(1.0, WALL)
    assert signature(glance) == signature(asked)
    assert [bool(told.rate_rps) for told in glance.asked] == [True, True]
    assert msgspec.structs.replace(glance, asked=asked.asked) == asked


def test_who_was_stopped_to_run_elsewhere_is_owed_a_replica_until_it_has_one() -> None:
    """Or until nobody asks any more."""
    one = Scene()
    one.demands.add(0.0, [parts.used("a")])
    one.mover.owed.update({"a": None, "b": None})
    assert one.survey.question(0.0, WALL).owed == ("a",)
    one.start("a")
    assert one.survey.question(0.0, WALL).owed == ()
    assert one.mover.owed == {}


def test_what_replicas_do_is_told_once_they_have_served_for_long_enough() -> None:
    """Usage says who answered; a group that changes meanwhile is looked at anew."""
    one = Scene()
    life = one.start("a")
    engine = parts.engine(7, "a", made_by=life.start.command)
    one.fleet.apply(0.0, [engine])
    used = msgspec.structs.replace(parts.used("a"), session=claim_of(engine).session)
    foreign = msgspec.structs.replace(used, session=parts.session(99))
    back_s = round((MINUTES + 1) * MINUTE_S)
    assert one.survey.question(0.0, WALL).seen == {}
    for second in range(back_s):
        one.survey.used(float(second), WALL + second, [used, foreign])
    group = Group("a", "a/cpu/2", 1)
    assert one.survey.question(float(back_s), WALL).seen == {group: Seen(1.0, 1.0)}
    another = one.start("a")
    one.fleet.apply(float(back_s), [parts.engine(8, "a", made_by=another.start.command)])
    assert one.survey.question(float(back_s) + 1.0, WALL).seen == {}
