"""Steady states: batches, closed loops, saturation."""

import numpy as np
import pytest
from tests.unit.placer.parts import shape

from opentela.placer.fit import COMPONENTS, shipped
from opentela.placer.shapes import Floats, ReplicaShape
from opentela.placer.simulate import columns, steady
from opentela.placer.simulate.columns import Columns
from opentela.placer.simulate.steady import Lengths


def _at(one: ReplicaShape) -> tuple[Columns, Floats]:
    return columns.of([one], shipped())


def _lengths(prompt: float = 500, answer: float = 200, fresh: float | None = None) -> Lengths:
    given = (prompt, prompt if fresh is None else fresh, answer, answer / 2)
    return Lengths(*(np.array([[value]]) for value in given))


def test_running_sequences_are_bounded_by_memory_or_by_the_engine() -> None:
    """Whichever is less."""
    by_memory = steady.running_max(*_at(shape("llama-2-13b", "a100-40g-sxm")), _lengths(2000))
    assert by_memory[0, 0] < 20
    assert steady.running_max(*_at(shape(max_batch=7)), _lengths())[0, 0] == 7


def test_an_engine_that_reserves_whole_answers_runs_fewer() -> None:
    """Blocks that come as sequences grow hold more of them."""
    as_told = np.ones((1, len(COMPONENTS)))
    grows, whole = (
        steady.running_max(_at(one)[0], as_told, _lengths(100, 1000))
        for one in (shape(kv_blocks=400), shape(engine="tensorrt-llm", kv_blocks=200))
    )
    assert whole[0, 0] < grows[0, 0]


def test_a_closed_loop_balances_clients() -> None:
    """Clients in the queue and clients served are all clients there are (Little's law)."""
    said = steady.closed_loop(*_at(shape()), np.array([[32.0]]), _lengths())
    in_system = said.rps * (said.ttft_s + 199 * said.tpot_s)
    assert in_system[0, 0] == pytest.approx(32, rel=0.02)


def test_clients_beyond_what_runs_wait() -> None:
    """Throughput stays, time to first token grows."""
    few = steady.closed_loop(*_at(shape(max_batch=8)), np.array([[8.0]]), _lengths())
    many = steady.closed_loop(*_at(shape(max_batch=8)), np.array([[80.0]]), _lengths())
    assert many.rps[0, 0] == pytest.approx(few.rps[0, 0], rel=0.1)
    assert many.ttft_s[0, 0] > 5 * few.ttft_s[0, 0]


def test_cached_prefixes_cost_nothing() -> None:
    """A replica serves more when most of each prompt is in the cache."""
    cold = steady.saturated(*_at(shape()), _lengths(4000))
    warm = steady.saturated(*_at(shape()), _lengths(4000, fresh=400))
    assert warm.rps[0, 0] > 1.5 * cold.rps[0, 0]


def test_a_batch_that_does_not_fit_runs_in_waves() -> None:
    """Twice as many as fit take twice as long."""
    c, z = _at(shape(max_batch=16))
    once = steady.static_batch(c, z, np.array([[16.0]]), _lengths())[2]
    twice = steady.static_batch(c, z, np.array([[32.0]]), _lengths())[2]
    thrice = steady.static_batch(c, z, np.array([[40.0]]), _lengths())[2]
    assert twice[0, 0] == pytest.approx(2 * once[0, 0], rel=0.02)
    assert twice[0, 0] < thrice[0, 0] < 1.5 * twice[0, 0]


def test_pipeline_stages_multiply_throughput_not_speed() -> None:
    """Two stages work on two halves of the batch; a token still passes both."""
    one = steady.saturated(*_at(shape(max_batch=32)), _lengths())
    two = steady.saturated(*_at(shape(pp=2, max_batch=64)), _lengths())
    assert two.rps[0, 0] == pytest.approx(2 * one.rps[0, 0], rel=0.15)
