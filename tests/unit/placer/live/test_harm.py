"""Whole placers while everything goes wrong that can: pauses, partitions, lies, wrong clocks."""

import random
from collections.abc import Callable

import msgspec
import pytest
from tests.unit.placer.live import ledger, parts
from tests.unit.placer.live.world import FakeAgent, World

from opentela.core import ids
from opentela.placer.live import messages as m
from opentela.placer.live.config import LeaseConfig
from opentela.placer.live.machine import PlacerMachine
from opentela.wire.command import Command, Holding, Look, Replica

NAMES = "abc"
CLOCKS_S = (-600.0, 0.0, 600.0)


class Liar(FakeAgent):
    """An agent that says anything but the truth."""

    is_honest = False

    def take(self, command: Command) -> Holding:
        """Answer with nonsense."""
        rng = self.world.rng
        replica = Replica(
            start=rng.choice([ids.ulid(rng.getrandbits(47), rng.randbytes(10)), "", "nonsense"]),
            template=parts.TEMPLATE,
            model=rng.choice(["a", "b", "unheard-of"]),
            tp=rng.choice([-4, 0, 1, 1, 2, 3, 64, 10**9]),
            pp=rng.choice([1, 1, 1, 0, 9]),
            gpus=(),
            state=rng.choice(["ready", "draining", "failed", "dancing"]),
        )
        return Holding(
            command="" if isinstance(command, Look) else command.command,
            accepted=rng.random() < 0.5,
            reason="because",
            term=rng.choice([0, 0, 5, 10**6, 2**63, 2**64 - 1]),
            hardware=rng.choice(["cpu", "gpu"]),
            gpus=("0",) * rng.choice([0, 1, 8, 1000, 30_000]),
            templates=(parts.TEMPLATE,),
            replicas=(replica,) * rng.choice([0, 1, 2, 500]),
        )


def world(seed: int, *, placers: int = 2, **given: float) -> World:
    """Return three agents of two GPUs and placers whose clocks differ."""
    made = World(seed, parts.config(*NAMES), **given)
    for _ in range(3):
        made.agent(2)
    for _ in range(placers):
        made.placer(clock_s=made.rng.choice(CLOCKS_S))
    return made


def leading(one: World) -> int:
    """Return which placer leads."""
    one.run(20, until=lambda: one.leader() is not None)
    leader = one.leader()
    assert leader is not None
    return one.placers.index(leader)


def pause(one: World) -> None:
    """Stop the leader for longer than its lease, and let it go on."""
    place = leading(one)
    one.pause(place)
    one.run(one.rng.uniform(1, 8))
    one.resume(place)


def cut(one: World) -> None:
    """Part the leader from the hub's bucket; agents it still reaches."""
    place = leading(one)
    one.cut.add(place)
    one.run(one.rng.uniform(2, 8))
    one.cut.discard(place)


def lose(one: World) -> None:
    """Delete the bucket."""
    one.lose_bucket()


def jump(one: World) -> None:
    """Set a clock."""
    one.clocks[leading(one)] = one.rng.choice(CLOCKS_S)


def vanish(one: World) -> None:
    """End an agent in the middle of whatever it does, and bring another."""
    living = [agent for agent in one.agents if agent.is_alive and agent.is_honest]
    one.rng.choice(living).die()
    one.agent(2, lasts_s=one.rng.choice([0.0, 50.0]))


def start_by_hand(one: World) -> None:
    """Have somebody run an engine for a while."""
    one.start_by_hand(one.rng.choice(NAMES), lasts_s=12.0)


def lie(one: World) -> None:
    """Let somebody in who makes things up."""
    if all(agent.is_honest for agent in one.agents):
        liar = Liar(one, one.number(), 8, 0.0)
        one.agents.append(liar)
        one.tell(liar.record)


HARMS: tuple[Callable[[World], None], ...] = (
    pause, cut, lose, jump, vanish, start_by_hand, lie
)  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_whatever_goes_wrong_the_plan_is_reached_when_it_is_over(seed: int) -> None:
    """Meanwhile no GPU is held twice, and no last replica is stopped while somebody asks."""
    one = world(seed, loss=0.05)
    one.lag = one.failing = 0.05
    for _ in range(5):
        one.rates = {model: one.rng.choice([0.0, 0.5, 2.0]) for model in NAMES}
        one.rng.choice(HARMS)(one)
        one.run(one.rng.uniform(3, 12))
    one.loss = one.lag = one.failing = 0.0
    one.agent(2)
    one.rates = dict.fromkeys(NAMES, 0.5)
    one.run(150, until=lambda: all(one.serving(model) for model in NAMES))
    assert all(one.serving(model) for model in NAMES)
    assert ledger.faults(one.events, is_settled=False) == []


def test_what_a_paused_leader_had_sent_is_not_carried_out() -> None:
    """However late it comes: whoever leads then has looked at every agent."""
    one = world(1)
    place = leading(one)
    stale = one.placers[place].term
    one.pause(place)
    one.run(10, until=lambda: one.leader() is not None)
    one.run(1)
    assert all(agent.term > stale for agent in one.agents)
    assert not one.placers[place].may_act(one.now)
    one.resume(place)
    assert one.leader() is not one.placers[place]


@pytest.mark.parametrize("kind", ["jetstream", "none"])
def test_agents_that_know_a_later_term_are_led_again(kind: str) -> None:
    """A bucket may be younger than the term that a placer without one once had."""
    config = parts.config("a", lease=LeaseConfig(kind="none" if kind == "none" else "jetstream"))
    one = World(0, config)
    one.agent(1).term = (1_800_000_000 + 500) * 1000
    one.placer()
    one.rates = {"a": 0.5}
    one.run(20, until=lambda: one.serving("a") == 1)
    assert one.serving("a") == 1


def test_a_term_that_nobody_can_have_is_a_lie() -> None:
    """Believed, it would be the last one ever."""
    one = World(0, parts.config("a", lease=LeaseConfig(kind="none")))
    liar = one.agent(1)
    liar.term = 2**64 - 1
    one.agent(1)
    one.placer()
    one.rates = {"a": 0.5}
    one.run(20, until=lambda: one.serving("a") == 1)
    assert one.serving("a") == 1
    (leader,) = one.placers
    assert leader.term < 2**62
    assert "nobody can have" in leader.fleet.agents[liar.session].fault


@pytest.mark.parametrize("period_s", [7, 45])
def test_demand_that_swings_moves_little(period_s: int) -> None:
    """Two models, room for three replicas, and a demand that is now here, now there."""
    config = parts.config("a", "b")
    one = World(period_s, msgspec.structs.replace(config, plan=parts.CALM))
    for _ in range(3):
        one.agent(1)
    one.placer()
    for turn in range(300 // period_s):
        one.rates = {"a": 3.0, "b": 0.3} if turn % 2 else {"a": 0.3, "b": 3.0}
        one.run(period_s)
    # Each replica stays for its cool-down: so many fit into the time at most, and half are enough.
    assert len(one.started) <= 3 + 300 / parts.CALM.cool_down_s


def test_rubbish_from_a_router_changes_no_decision() -> None:
    """Nor do a million names."""
    rng = random.Random(3)
    machine = PlacerMachine(
        parts.config("a", lease=LeaseConfig(kind="none")),
        name="one",
        instance="i",
        rng=rng,
        now=0.0,
        wall=0.0,
    )
    odd = [10**18, -1, 0, 2**64 - 1]
    records = tuple(
        msgspec.structs.replace(
            parts.used(rng.choice(["a", f"made-up-{number}"])),
            tokens_in=rng.choice(odd),
            tokens_out=rng.choice(odd),
            tokens_cached=rng.choice(odd),
            status=rng.choice([-1, 0, 200, 503, 10**9]),
            duration_s=rng.choice([float("nan"), float("inf"), -1.0]),
        )
        for number in range(5000)
    )
    machine.step(1.0, 1.0, m.Used(records=records))
    told = machine.status(2.0, 2.0)["asked"]
    assert isinstance(told, tuple)
    (asked,) = told
    assert asked["in_tokens"] == asked["out_tokens"] == 0.0
    assert asked["cv"] <= parts.config("a").demand.cv_max
