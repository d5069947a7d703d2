"""Fleets under a trace."""

import msgspec
import numpy as np
import pytest
from tests.unit.placer.parts import requests, shape, workload

from opentela.placer.shapes import Replica, Role, RoutePolicy
from opentela.placer.simulate import analytic, discrete

ONE = Replica(shape=shape())


def test_a_lone_request_takes_what_the_analytic_model_says() -> None:
    """Both levels stand on the same steps."""
    done = discrete.simulate(requests(1, answer=200), [ONE])
    said = analytic.estimate([shape()], [workload(1e-6)])
    assert done.done_s[0] == pytest.approx(said.e2e_s[0], rel=0.03)
    assert done.replica.tolist() == [0]


def test_saturation_is_what_the_analytic_model_says() -> None:
    """A thousand requests at once leave at the capacity of the replica."""
    flood = requests(2000, every_s=0.0, answer=200)
    done = discrete.simulate(flood, [Replica(shape=shape(max_batch=64))])
    said = analytic.estimate([shape(max_batch=64)], [workload()])
    assert 2000 / done.done_s.max() == pytest.approx(said.capacity_rps[0], rel=0.1)


def test_the_same_seed_gives_the_same_outcome() -> None:
    """And policies that draw, another with another seed."""
    fleet = [ONE, ONE, Replica(shape=shape(gpu="a100-80g-sxm"))]
    runs = [discrete.simulate(requests(200), fleet, RoutePolicy.RANDOM, seed) for seed in (1, 1, 2)]
    assert (runs[0].done_s == runs[1].done_s).all()
    assert (runs[0].replica != runs[2].replica).any()


def test_order_holds_and_every_request_ends_once() -> None:
    """Arrival, first token, last token."""
    trace = requests(300, every_s=0.01)
    done = discrete.simulate(trace, [ONE, ONE])
    assert (trace.arrival_s < done.first_s).all()
    assert (done.first_s < done.done_s).all()
    assert set(done.replica.tolist()) == {0, 1}
    assert done.events >= 300


@pytest.mark.parametrize("policy", [RoutePolicy.LEAST_LOAD, RoutePolicy.WEIGHTED])
def test_the_faster_replica_gets_more(policy: RoutePolicy) -> None:
    """By what each can do."""
    fleet = [Replica(shape=shape(gpu="a100-80g-sxm")), Replica(shape=shape(gpu="b200-180g-sxm"))]
    done = discrete.simulate(requests(2000, every_s=0.005), fleet, policy)
    slow, fast = np.bincount(done.replica)
    assert fast > 1.5 * slow


def test_turns_are_taken_evenly() -> None:
    """Round robin looks at nothing."""
    done = discrete.simulate(requests(100), [ONE, ONE], RoutePolicy.ROUND_ROBIN)
    assert np.bincount(done.replica).tolist() == [50, 50]


def test_a_replica_takes_requests_within_its_time_only() -> None:
    """It finishes what it has; before any is there, requests wait."""
    early = Replica(shape=shape(), from_s=5.0, until_s=8.0)
    late = Replica(shape=shape(), from_s=8.0)
    done = discrete.simulate(requests(100, every_s=0.1), [early, late])
    arrivals = requests(100, every_s=0.1).arrival_s
    assert (done.first_s[arrivals < 5] > 5).all()
    assert (done.replica[arrivals < 8] == 0).all()
    assert (done.replica[arrivals >= 8] == 1).all()


def test_nobody_serves_what_nobody_can() -> None:
    """A fleet that is gone, and a prompt beyond any cache."""
    gone = discrete.simulate(requests(3), [msgspec.structs.replace(ONE, until_s=0.05)])
    assert gone.replica.tolist() == [0, -1, -1]
    assert np.isnan(gone.done_s[1:]).all()
    small = Replica(shape=shape(kv_blocks=10))
    assert np.isnan(discrete.simulate(requests(1), [small]).done_s).all()


def test_no_request_is_no_error() -> None:
    """An empty window of a trace."""
    assert discrete.simulate(requests(0), [ONE]).events == 0


def test_prefill_and_decode_may_be_done_by_different_replicas() -> None:
    """The first token comes from one, the rest from the other after the cache was sent."""
    fleet = [Replica(shape=shape(), role=Role.PREFILL), Replica(shape=shape(), role=Role.DECODE)]
    apart = discrete.simulate(requests(50, prompt=4000), fleet)
    assert (apart.replica == 1).all()
    assert (apart.first_s < apart.done_s).all()
    lonely = discrete.simulate(requests(1), fleet[:1])
    assert np.isfinite(lonely.first_s[0])
    assert np.isnan(lonely.done_s[0])


def test_decoding_apart_is_not_held_up_by_prompts() -> None:
    """That is what disaggregation is for: steadier tokens under long prompts."""
    trace = requests(60, every_s=0.15, prompt=8000, answer=300)
    fleet = [Replica(shape=shape(), role=Role.PREFILL), Replica(shape=shape(), role=Role.DECODE)]
    apart = discrete.simulate(trace, fleet)
    beside = discrete.simulate(trace, [ONE])
    assert (apart.done_s - apart.first_s).mean() < (beside.done_s - beside.first_s).mean()


def test_preemptions_are_counted() -> None:
    """Long answers in a small cache."""
    tight = Replica(shape=shape(kv_blocks=64))
    done = discrete.simulate(requests(10, every_s=0.0, prompt=100, answer=300), [tight])
    assert done.preemptions.sum() > 0
    assert np.isfinite(done.done_s).all()
