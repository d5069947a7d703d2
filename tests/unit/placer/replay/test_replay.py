"""A trace under several ways to place."""

import math

import msgspec
import numpy as np
import pytest
from tests.unit.placer.replay.small import POOLS, SERVED, overloaded, small, trace

from opentela.core.errors import ConfigError
from opentela.placer import catalogue
from opentela.placer.load_cost import LoadCost
from opentela.placer.options import Wanted, enumerate_options
from opentela.placer.problem import Demand, Group, Option, Pool, Problem, is_within
from opentela.placer.problem import gpus as count_gpus
from opentela.placer.replay import fleet, outcome
from opentela.placer.replay.controller import Controller, Policy, initial
from opentela.placer.replay.fleet import Change, Known, Manner
from opentela.placer.replay.run import (
    Run,
    Way,
    at_equal_hours,
    hours_for_equal_slo,
    run,
)
from opentela.placer.replay.setting import setting
from opentela.placer.shapes import Requests, Slo, Workload

GROUP = Group("m", "p", 1)
MANNER = Manner(capacity_rps=2.0, ttft_s=0.1, tpot_s=(0.01, 0.01, 0.02, 0.03, 0.05))
KNOWN = Known("m", 100.0, 10.0, 0.5, Slo(ttft_s=1.0, tpot_s=0.04), {("g", 1, 1): MANNER})


def _requests(*arrival_s: float, out: int = 10) -> Requests:
    count = len(arrival_s)
    return Requests(
        arrival_s=np.array(arrival_s),
        in_tokens=np.full(count, 100, dtype=np.int64),
        out_tokens=np.full(count, out, dtype=np.int64),
        prefix_hit_tokens=np.zeros(count, dtype=np.int64),
    )


def test_work_is_counted_in_mean_requests() -> None:
    """Half of it is the prompt here; twice the answer is half as much again."""
    work = KNOWN.work(np.array([100.0, 100.0]), np.array([10.0, 20.0]))
    assert work == pytest.approx([1.0, 1.5])


def test_what_is_known_comes_from_the_simulator() -> None:
    """Token times rise with load; a long prompt takes most of the work."""
    load = Workload(rate_rps=0.0, in_len=4000, out_len=10)
    one = Wanted("m", catalogue.model("llama-3.1-8b"), load, Slo(), tp=(1,))
    made = enumerate_options(
        [one], POOLS, catalogue.gpus(), LoadCost(bytes_per_s=1e9, engine_s=1.0)
    )
    (known,) = fleet.known([one], made)
    (manner,) = known.manners.values()
    assert list(manner.tpot_s) == sorted(manner.tpot_s)
    assert known.prompt_share > 0.7
    nothing = made._replace(options=(), shapes=(), capacity_rps=made.capacity_rps[:0])
    assert fleet.known([one], nothing)[0].manners == {}


def test_a_life_adds_replicas_up() -> None:
    """Two replicas, of which one ends; before the first nothing is served."""
    changes = [Change(GROUP, 10.0, 0.0, 2), Change(GROUP, 20.0, 25.0, -1)]
    told = fleet.life(changes, KNOWN, {"p": "g"}, 0.0)
    assert told.speed.at_s.tolist() == [0.0, 10.0, 20.0]
    assert told.speed.value.tolist() == [0.0, 4.0, 2.0]
    assert told.ttft_s == pytest.approx([0.0, 0.1, 0.1])
    assert told.tpot_s[1] == pytest.approx(MANNER.tpot_s)
    # Two are held from 0, one of them until 25.
    assert fleet.gpu_hours(changes, 0.0, 100.0) == pytest.approx((100 + 25) / 3600)


def test_times_are_wait_prompt_and_tokens() -> None:
    """A request alone, and one that waits for the replica to load."""
    life = fleet.life([Change(GROUP, 5.0, 0.0, 1)], KNOWN, {"p": "g"}, 0.0)
    told = outcome.times(_requests(0.0, 100.0), KNOWN, life)
    assert told.ttft_s == pytest.approx([5.1, 0.1])
    assert told.e2e_s == pytest.approx([5.1 + 9 * 0.05, 0.1 + 9 * 0.01], abs=0.02)
    assert told.met.tolist() == [0.0, 1.0]


def test_a_full_replica_is_slow_and_breaks_its_promise() -> None:
    """Ten at once on a replica of two a second: each waits for those before it."""
    life = fleet.life([Change(GROUP, 0.0, 0.0, 1)], KNOWN, {"p": "g"}, 0.0)
    told = outcome.times(_requests(*[10.0] * 10), KNOWN, life)
    assert told.ttft_s == pytest.approx(0.1 + 0.5 * np.arange(10))
    assert told.met.sum() <= 2


def test_what_is_never_served_counts() -> None:
    """A model without a replica breaks every promise, and its times are infinite."""
    told = outcome.outcome(trace(), small().models, [], {"h": "h100-80g-sxm"}, 4000.0)
    assert told.unserved == 1.0
    assert told.slo_attained == 0.0
    assert math.isinf(told.p99_s)
    assert told.gpu_hours == 0.0
    assert set(told.slo_by_model) == {"busy", "rare"}


def _problem(nodes: int = 1) -> Problem:
    pools = (POOLS[0].__class__(name="p", gpu="g", nodes=nodes, gpus_per_node=2),)
    return Problem(
        pools=pools,
        demands=tuple(Demand(model=name, rate_rps=1.0) for name in ("m", "n", "o")),
        options=tuple(
            Option(model=name, gpu="g", capacity_rps=2.0, load_s=30.0) for name in ("m", "n", "o")
        ),
    )


POLICY = Policy(
    epoch_s=100.0,
    tick_s=10.0,
    cool_down_s=50.0,
    keep_s=50.0,
    fast_s=20.0,
    slow_s=60.0,
    drain_s=10.0,
)
M, N, Q = (Group(name, "p", 1) for name in ("m", "n", "o"))


def _controller(target: dict[Group, int], running: dict[Group, int]) -> Controller:
    return Controller(_problem(), POLICY, lambda _: target, running, 0.0)


def test_a_model_that_is_asked_for_and_has_none_gets_one_at_once() -> None:
    """There is room: it serves as soon as it is loaded."""
    control = _controller({}, {M: 1})
    assert control.step(10.0, np.array([5.0, 0.0, 0.0])) == []
    (change,) = control.step(20.0, np.array([5.0, 3.0, 0.0]))
    assert change == Change(N, 50.0, 20.0, 1)
    assert control.step(30.0, np.array([5.0, 3.0, 0.0])) == []
    assert control.running() == {M: 1, N: 1}


def test_an_idle_replica_gives_way_only_after_its_cool_down() -> None:
    """Both GPUs are taken; the model that nobody asks for any more makes room."""
    control = _controller({}, {M: 1, N: 1})
    busy = np.array([20.0, 0.0, 0.0])
    assert control.step(10.0, np.array([20.0, 20.0, 5.0])) == []
    for now in (20.0, 30.0, 40.0, 50.0):
        assert control.step(now, busy) == []
    stopped, started = control.step(70.0, busy)
    assert stopped == Change(N, 70.0, 80.0, -1)
    # Its GPU is free after the drain; only then is the other loaded.
    assert started == Change(Q, 70.0 + 10.0 + 30.0, 80.0, 1)
    assert control.running() == {M: 1, Q: 1}


def test_a_plan_is_made_each_epoch_and_carried_out_in_order() -> None:
    """What needs room waits for what drains; nothing exceeds the pool."""
    control = _controller({Q: 2}, {M: 1, N: 1})
    for now in range(10, 100, 10):
        assert control.step(float(now), np.array([1.0, 1.0, 0.0])) == []
    changes = control.step(100.0, np.array([1.0, 1.0, 0.0]))
    assert sum(change.replicas for change in changes if change.group == Q) == 2
    assert {change.group for change in changes if change.replicas < 0} == {M, N}
    assert control.running() == {Q: 2}
    assert all(change.at_s >= 140.0 for change in changes if change.replicas > 0)


def test_what_is_spare_stays_until_others_need_its_room() -> None:
    """Then those give way first that were asked for longest ago."""
    wants: dict[Group, int] = {M: 1}
    policy = msgspec.structs.replace(POLICY, keeps_spare=True)
    running = {M: 1, N: 1, Q: 2}
    control = Controller(_problem(2), policy, lambda _: dict(wants), running, 0.0)
    idle, asks_o = np.zeros(3), np.array([0.0, 0.0, 0.1])
    assert [control.step(float(now), idle) for now in range(10, 110, 10)][-1] == []
    assert control.running() == running
    wants[M] = 2
    moved = [control.step(float(now), asks_o) for now in range(110, 210, 10)][-1]
    assert [(one.group, one.replicas) for one in moved] == [(N, -1), (M, 1)]


def test_plans_know_what_was_asked_and_what_is_locked() -> None:
    """A model that nobody asks for is asked for nothing; what is young is locked."""
    seen: list[Problem] = []

    def place(problem: Problem) -> dict[Group, int]:
        seen.append(problem)
        return dict(problem.running)

    control = Controller(_problem(), POLICY, place, {M: 1}, 0.0)
    for now in range(10, 110, 10):
        control.step(float(now), np.array([10.0, 0.0, 10.0 if now >= 80 else 0.0]))
    (problem,) = seen
    rates = {demand.model: demand.rate_rps for demand in problem.demands}
    assert rates["m"] > 1.0
    assert rates["n"] == 0.0
    assert rates["o"] > 0.3
    assert problem.locked == {Q: 1}
    assert (problem.horizon_s, problem.drain_s) == (POLICY.horizon_s, POLICY.drain_s)
    assert is_within(problem, problem.running)


def test_a_replica_that_is_stopped_while_it_loads_never_serves() -> None:
    """It ceases at the instant at which it would have begun."""
    control = _controller({}, {})
    (start,) = control.step(10.0, np.array([5.0, 0.0, 0.0]))
    (stop,) = control._stop(20.0, M, 1)
    assert (stop.at_s, stop.replicas) == (start.at_s, -1)
    life = fleet.life([start, stop], KNOWN, {"p": "g"}, 0.0)
    assert life.speed.value.tolist() == [0.0, 0.0]


def test_the_beginning_is_there_from_the_beginning() -> None:
    """Replicas of the first placement have loaded before the trace."""
    assert initial({M: 2, N: 0}, 5.0) == [Change(M, 5.0, 5.0, 2)]


def test_every_way_serves_a_small_trace() -> None:
    """Dynamic holds fewer GPU-hours, because the quiet model's GPU is given back."""
    setting_ = small()
    told = {way: run(setting_, way, Policy(), size=1.0).outcome for way in Way}
    # By weights and requests the quiet model is entitled to nothing, whatever waits for it.
    assert told[Way.MEMORY].unserved > 0.0
    assert told[Way.STATIC].unserved == told[Way.DYNAMIC].unserved == 0.0
    assert all(one.requests == len(setting_.future.requests) for one in told.values())
    assert told[Way.DYNAMIC].gpu_hours < told[Way.STATIC].gpu_hours
    assert told[Way.STATIC].slo_attained > 0.99
    assert told[Way.DYNAMIC].slo_attained > 0.9
    again = run(setting_, Way.DYNAMIC, Policy(), size=1.0).outcome
    assert again == told[Way.DYNAMIC]


def test_scarce_gpus_are_shared_and_sizes_scale_nodes() -> None:
    """With half a node one GPU is left of two models; progress ends at one."""
    shares: list[float] = []
    made = run(small(), Way.DYNAMIC, Policy(), size=0.5, progress=shares.append)
    assert made.gpus == 2
    assert shares[-1] == 1.0
    slow = run(small(), Way.DYNAMIC, Policy(cool_down_s=100.0), load_factor=20.0)
    fast = run(small(), Way.DYNAMIC, Policy(cool_down_s=100.0), load_factor=0.01)
    assert slow.outcome.slo_attained < fast.outcome.slo_attained


def test_what_is_kept_begins_as_the_static_way_does() -> None:
    """With more GPUs than are needed, nobody needs what is spare: all of it stays."""
    static, kept, dynamic = (
        run(small(), way, Policy(), size=3.0).outcome for way in (Way.STATIC, Way.KEPT, Way.DYNAMIC)
    )
    assert dynamic.gpu_hours < kept.gpu_hours == static.gpu_hours
    assert kept.slo_attained == static.slo_attained


def test_where_not_all_can_be_served_the_one_that_can_keep_its_promise_is() -> None:
    """One GPU: the other is asked for twenty times more than it could do, all of it too late."""
    pool = Pool(name="l", gpu="l4-24g", nodes=1, gpus_per_node=1)
    scarce = setting(overloaded(), (pool,), SERVED, 0.25)
    told = run(scarce, Way.STATIC, Policy()).outcome
    assert told.slo_by_model == {"busy": 0.0, "rare": 1.0}


def _run(way: Way, hours: float, slo: float, p99: float) -> Run:
    told = run(small(), Way.STATIC, Policy()).outcome
    values = {name: getattr(told, name) for name in told.__struct_fields__}
    values |= {"gpu_hours": hours, "slo_attained": slo, "p99_s": p99}
    return Run(
        way=way, size=1.0, gpus=2, cool_down_s=1.0, load_factor=1.0, outcome=type(told)(**values)
    )


def test_comparisons_are_at_equal_hours_or_equal_promise() -> None:
    """Between sizes figures are interpolated, beyond them nothing is said."""
    runs = [
        _run(Way.STATIC, 10.0, 0.5, math.inf),
        _run(Way.STATIC, 20.0, 0.9, 10.0),
        _run(Way.DYNAMIC, 15.0, 0.8, 5.0),
        _run(Way.DYNAMIC, 5.0, 0.4, 50.0),
        _run(Way.DYNAMIC, 19.0, 0.95, 50.0),
    ]
    first, _ = at_equal_hours(runs, Way.STATIC)
    assert (first.gpu_hours, first.dynamic_slo) == (15.0, 0.8)
    assert first.other_slo == pytest.approx(0.7)
    assert first.other_p99_s > 1e6
    equal = hours_for_equal_slo(runs, Way.STATIC)
    assert equal == [(0.8, 15.0, 20.0), (0.4, 5.0, 10.0), (0.95, 19.0, math.inf)]


def test_settings_that_cannot_be_are_told() -> None:
    """Models that nothing matches or no GPU holds, and a trace with nothing to judge."""
    with pytest.raises(ConfigError, match=r"asks for rare, which no \[\[model\]\] matches"):
        setting(trace(), POOLS, SERVED[:1], 0.5)
    small_gpu = (POOLS[0].__class__(name="t", gpu="t4-16g", nodes=1, gpus_per_node=1),)
    with pytest.raises(ConfigError, match="runs nowhere"):
        setting(trace(), small_gpu, SERVED, 0.5)
    with pytest.raises(ConfigError, match="no request to judge"):
        setting(trace(), POOLS, SERVED, 1.5)


def test_problems_of_replays_fit() -> None:
    """The first placement of every way fits the pools."""
    made = run(small(), Way.STATIC, Policy())
    assert made.outcome.gpus_mean <= made.gpus
    assert count_gpus({}) == 0
