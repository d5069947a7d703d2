"""Estimates of replicas under a load."""

import numpy as np
import pytest
from tests.unit.placer.parts import shape, workload

from opentela.placer.shapes import Reason, Slo
from opentela.placer.simulate import analytic


def test_what_cannot_run_serves_nothing_and_says_why() -> None:
    """Zero rates, infinite times, and the reason."""
    said = analytic.estimate([shape("llama-3.1-70b"), shape()], [workload(), workload()])
    assert list(said.reasons) == [Reason.MEMORY, None]
    assert said.capacity_rps[0] == said.slo_rps[0] == said.batch_max[0] == 0
    assert np.isinf(said.ttft_s[0])
    assert said.capacity_rps[1] > 0


def test_nothing_asked_is_nothing_said() -> None:
    """An empty list is no error."""
    assert len(analytic.estimate([], []).capacity_rps) == 0


def test_times_grow_with_the_rate_and_end_at_saturation() -> None:
    """Queueing: slowly at first, without bound at capacity."""
    capacity = float(analytic.estimate([shape()], [workload()]).capacity_rps[0])
    loads = [0.01, 0.3, 0.6, 0.9, 0.99, 1.01]
    said = analytic.estimate([shape()] * 6, [workload(load * capacity) for load in loads])
    for times in (said.ttft_s, said.tpot_s, said.e2e_s, said.ttft_p99_s, said.e2e_p99_s):
        assert (np.diff(times[:5]) > 0).all()
        assert np.isinf(times[5])
    assert said.utilisation == pytest.approx(loads)
    assert (said.e2e_p99_s[:5] >= said.e2e_s[:5]).all()


def test_bursts_and_spread_lengths_make_requests_wait() -> None:
    """At the same rate."""
    rate = 0.8 * float(analytic.estimate([shape()], [workload()]).capacity_rps[0])
    even, bursty, spread = analytic.estimate(
        [shape()] * 3,
        [workload(rate), workload(rate, burstiness_cv=4.0), workload(rate, in_cv=2.0, out_cv=2.0)],
    ).e2e_p99_s
    assert bursty > even
    assert spread > even


def test_a_promise_bounds_the_rate() -> None:
    """The tighter, the lower; none leaves all capacity; one that cannot be held leaves nothing."""
    slos = [Slo(), Slo(tpot_s=0.02), Slo(tpot_s=0.012), Slo(tpot_s=0.001)]
    said = analytic.estimate([shape()] * 4, [workload()] * 4, slo=slos)
    assert said.slo_rps[0] == said.capacity_rps[0]
    assert said.capacity_rps[0] > said.slo_rps[1] > said.slo_rps[2] > said.slo_rps[3] == 0
    held = analytic.estimate([shape()], [workload(float(said.slo_rps[1]))])
    assert held.tpot_s[0] == pytest.approx(0.02, rel=0.05)


def test_bigger_machines_do_more() -> None:
    """More GPUs, and better ones."""
    said = analytic.estimate(
        [shape(gpu="a100-80g-sxm"), shape(), shape(tp=2), shape(gpu="b200-180g-sxm")],
        [workload()] * 4,
    )
    a100, h100, two, b200 = said.capacity_rps
    assert a100 < h100 < two
    assert h100 < b200
    assert said.usd_h[2] == 2 * said.usd_h[1]
