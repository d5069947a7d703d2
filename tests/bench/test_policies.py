"""Orderings of the policies that must hold in the simulation, on a small fleet."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial

import pytest
from tests.bench.policies_fleet import Fleet, Outcome, Setting

from opentela.core.rng import Rng
from opentela.router.directory import Candidate
from opentela.router.plugins import policy
from opentela.router.policies.base import Call, Observed
from opentela.router.policies.prefix_affinity import FREE, OVER_SHARE, PrefixAffinity

SMALL = Setting(engines=30, requests_s=120.0, lasts_s=40.0, warm_s=10.0)
NAMES = ("random", "round_robin", "least_load", "hardware_weighted", "prefix_affinity")


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """What each policy makes of one and the same work."""
    return {name: Fleet(SMALL, partial(policy, name)).run() for name in NAMES}


def test_two_choices_beat_one(outcomes: dict[str, Outcome]) -> None:
    """Unequal engines that are drawn blindly are overrun one by one."""
    p99 = {name: one.latency(0.99) for name, one in outcomes.items()}
    assert p99["least_load"] < 0.5 * p99["random"]
    assert p99["least_load"] < 0.5 * p99["round_robin"]


def test_who_knows_speeds_beats_who_counts(outcomes: dict[str, Outcome]) -> None:
    """At the median, and more so at the slow end."""
    fast, counting = outcomes["hardware_weighted"], outcomes["least_load"]
    assert fast.latency(0.5) < counting.latency(0.5)
    assert fast.latency(0.99) < 0.9 * counting.latency(0.99)
    assert fast.imbalance < outcomes["random"].imbalance


def test_equal_beginnings_that_meet_are_cached(outcomes: dict[str, Outcome]) -> None:
    """And first tokens come sooner."""
    affine = outcomes["prefix_affinity"]
    for name in NAMES[:-1]:
        assert affine.hit_ratio > 1.2 * outcomes[name].hit_ratio
        assert affine.first(0.5) < outcomes[name].first(0.5)
    assert affine.latency(0.99) < outcomes["least_load"].latency(0.99)


def test_a_seed_replays_a_run() -> None:
    """Another one is another run."""
    brief = SMALL._replace(lasts_s=12.0, warm_s=2.0)
    runs = [
        Fleet(brief._replace(seed=seed), partial(policy, "prefix_affinity")).run()
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_every_request_is_answered() -> None:
    """Also those that wait for long."""
    fleet = Fleet(SMALL._replace(warm_s=-math.inf, lasts_s=20.0), partial(policy, "random"))
    outcome = fleet.run()
    assert fleet._under_way == {}
    assert len(outcome.latencies) == fleet._taken
    assert all(engine.outstanding == 0 for engine in fleet.engines)


class Watched(PrefixAffinity):
    """Whoever breaks the bound is found out; counts of its own, shares of the policy's ring."""

    def __init__(self, rng: Rng) -> None:
        super().__init__(rng)
        self.held: Counter[str] = Counter()
        self.away = 0

    def pick(self, call: Call, candidates: Sequence[Candidate]) -> Candidate:
        """Check the bound of who is picked."""
        chosen = super().pick(call, candidates)
        share = self._latest["m"].shares[candidates.index(chosen)]
        before = self.held[chosen.session]
        assert before < FREE or before < OVER_SHARE * (self.held.total() + 1) * share
        return chosen

    def on_request_start(self, call: Call, chosen: Candidate) -> None:
        """Count."""
        super().on_request_start(call, chosen)
        self.held[chosen.session] += 1

    def on_request_end(self, call: Call, chosen: Candidate, observed: Observed) -> None:
        """Count."""
        super().on_request_end(call, chosen, observed)
        self.held[chosen.session] -= 1


def test_no_session_gets_more_than_its_share() -> None:
    """Although speeds are learnt on the way, and beginnings are asked for unequally."""
    fleet = Fleet(SMALL._replace(lasts_s=20.0), Watched)
    fleet.run()
    assert all(one.held.total() == 0 for one in fleet.policies if isinstance(one, Watched))
