"""Laws that the simulator keeps for any replica and any load."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.placer.parts import shape

from opentela.placer import catalogue
from opentela.placer.shapes import Replica, ReplicaShape, Requests, RoutePolicy, Workload
from opentela.placer.simulate import analytic, discrete

MODELS = ["llama-3.1-8b", "qwen3-30b-a3b", "gpt-oss-20b", "mistral-7b", "llama-3.1-70b"]
GPUS = ["a100-80g-sxm", "h100-80g-sxm", "b200-180g-sxm", "l40s-48g", "mi300x-192g"]
ENGINES = ["vllm", "sglang", "tensorrt-llm", "vllm-0.5"]


@st.composite
def shapes(draw: st.DrawFn) -> ReplicaShape:
    """Replicas, most of which can run."""
    return shape(
        draw(st.sampled_from(MODELS)),
        draw(st.sampled_from(GPUS)),
        tp=draw(st.sampled_from([1, 2, 4])),
        pp=draw(st.sampled_from([1, 2])),
        w_dtype=draw(st.sampled_from(["bf16", "fp8", "int4"])),
        engine=draw(st.sampled_from(ENGINES)),
    )


workloads = st.builds(
    Workload,
    rate_rps=st.floats(0.001, 500),
    in_len=st.floats(1, 8000),
    out_len=st.floats(1, 4000),
    in_cv=st.floats(0, 3),
    out_cv=st.floats(0, 3),
    prefix_hit=st.floats(0, 0.95),
    burstiness_cv=st.floats(0, 10),
)


@given(st.lists(st.tuples(shapes(), workloads), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_estimates_are_sound_for_anything(pairs: list[tuple[ReplicaShape, Workload]]) -> None:
    """No NaN, no negative, infinite exactly where it cannot run or is overloaded."""
    said = analytic.estimate([one for one, _ in pairs], [load for _, load in pairs])
    for values in (said.capacity_rps, said.slo_rps, said.batch_max, said.kv_tokens):
        assert np.isfinite(values).all()
        assert (values >= 0).all()
    served = said.fits & (said.utilisation < 1)
    for times in (said.ttft_s, said.tpot_s, said.e2e_s, said.ttft_p99_s, said.e2e_p99_s):
        assert (times > 0).all()
        assert (np.isfinite(times) == served).all()
    assert (said.ttft_p99_s[served] >= said.ttft_s[served]).all()
    assert (said.slo_rps <= said.capacity_rps * (1 + 1e-9)).all()


@given(st.lists(st.tuples(shapes(), workloads), min_size=2, max_size=8))
@settings(max_examples=40, deadline=None)
def test_an_estimate_does_not_depend_on_its_neighbours(
    pairs: list[tuple[ReplicaShape, Workload]],
) -> None:
    """Thousands at once say what each alone says."""
    together = analytic.estimate([one for one, _ in pairs], [load for _, load in pairs])
    alone = analytic.estimate([pairs[-1][0]], [pairs[-1][1]])
    assert together.capacity_rps[-1] == pytest.approx(alone.capacity_rps[0])
    assert together.e2e_s[-1] == pytest.approx(alone.e2e_s[0])


@given(shapes(), workloads, st.floats(1.05, 3))
@settings(max_examples=60, deadline=None)
def test_longer_requests_are_fewer(one: ReplicaShape, load: Workload, more: float) -> None:
    """Longer prompts or answers never raise the capacity."""
    longer = Workload(rate_rps=1, in_len=load.in_len * more, out_len=load.out_len)
    wordier = Workload(rate_rps=1, in_len=load.in_len, out_len=load.out_len * more)
    same = Workload(rate_rps=1, in_len=load.in_len, out_len=load.out_len)
    base, a, b = analytic.estimate([one] * 3, [same, longer, wordier]).capacity_rps
    assert a <= base * 1.001
    assert b <= base * 1.001


@st.composite
def traces(draw: st.DrawFn) -> Requests:
    """Short traces of any rhythm, cached prefixes among them."""
    rows = draw(
        st.lists(
            st.tuples(
                st.floats(0, 3), st.integers(1, 3000), st.integers(1, 300), st.integers(0, 3000)
            ),
            min_size=1,
            max_size=60,
        )
    )
    gaps, prompts, answers, hits = (np.array(column) for column in zip(*rows, strict=True))
    return Requests(
        arrival_s=np.cumsum(gaps).astype(np.float64),
        in_tokens=prompts,
        out_tokens=answers,
        prefix_hit_tokens=np.minimum(hits, prompts),
    )


@given(
    traces(), st.sampled_from(list(RoutePolicy)), st.integers(220, 2000), st.sampled_from(ENGINES)
)
@settings(max_examples=60, deadline=None)
def test_every_request_ends_once_and_in_order(
    trace: Requests, policy: RoutePolicy, blocks: int, engine: str
) -> None:
    """However small the cache that can hold it, whatever is preempted on the way."""
    tokens = blocks * 16
    own = -(-tokens // catalogue.engine(engine).block_tokens)
    tight = Replica(shape=shape(engine=engine, kv_blocks=own))
    done = discrete.simulate(trace, [tight, tight], policy, seed=1)
    assert np.isfinite(done.done_s).all()
    assert (done.replica >= 0).all()
    assert (trace.arrival_s < done.first_s).all()
    assert (done.first_s <= done.done_s).all()
    again = discrete.simulate(trace, [tight, tight], policy, seed=1)
    assert (done.done_s == again.done_s).all()


@given(traces())
@settings(max_examples=30, deadline=None)
def test_nobody_is_faster_than_alone(trace: Requests) -> None:
    """Company costs time, never saves it."""
    fleet = [Replica(shape=shape())]
    done = discrete.simulate(trace, fleet)
    alone = Requests(
        arrival_s=trace.arrival_s[:1],
        in_tokens=trace.in_tokens[:1],
        out_tokens=trace.out_tokens[:1],
        prefix_hit_tokens=trace.prefix_hit_tokens[:1],
    )
    single = discrete.simulate(alone, fleet)
    assert done.done_s[0] >= single.done_s[0] * (1 - 1e-9)
