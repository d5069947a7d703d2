"""The quick table of step times beside what it was made from."""

import numpy as np
import pytest
from tests.unit.placer.parts import shape

from opentela.placer.fit import shipped
from opentela.placer.shapes import ReplicaShape
from opentela.placer.simulate import columns
from opentela.placer.simulate.step import Work, seconds
from opentela.placer.simulate.table import StepTable

SHAPES = [
    shape(),
    shape("llama-3.1-70b", tp=4, w_dtype="fp8"),
    shape("qwen3-30b-a3b"),
    shape("gpt-oss-20b", w_dtype="mxfp4"),
    shape("deepseek-v3", "b200-180g-sxm", tp=8, w_dtype="fp8"),
    shape("llama-2-7b", "a100-40g-sxm", engine="vllm-0.5"),
]


@pytest.mark.parametrize("one", SHAPES, ids=lambda one: one.model.id)
@pytest.mark.parametrize("work", [(1, 300, 0), (64, 1000, 0), (200, 600, 2000), (0, 0, 700)])
def test_it_says_what_the_whole_model_says(one: ReplicaShape, work: tuple[int, int, int]) -> None:
    """To a few hundredths, for any mix of sequences and prompts."""
    decoding, context, prompt = work
    pairs, prompts = prompt * prompt / 2, 1 if prompt else 0
    c, z = columns.of([one], shipped())
    given = (decoding, context, prompt, pairs, prompts)
    whole = seconds(c, z, Work(*(np.array([[float(value)]]) for value in given)))[0, 0]
    quick = StepTable(one, shipped()).step_s(decoding, decoding * context, prompt, pairs, prompts)
    assert quick == pytest.approx(whole, rel=0.04)


def test_steps_at_once_take_what_they_take_one_by_one() -> None:
    """Nothing is lost by taking them together."""
    table = StepTable(shape(), shipped())
    one_by_one = sum(table.step_s(8, 8000 + 8 * i, 0, 0, 0) for i in range(100))
    assert table.run_s(8, 8000, 100) == pytest.approx(one_by_one, rel=1e-6)


@pytest.mark.parametrize("span_s", [0.0, 0.01, 0.1, 0.5, 100.0])
def test_it_finds_the_step_that_ends_after_an_instant(span_s: float) -> None:
    """The first whose end is not before it, or the last there is."""
    table = StepTable(shape(), shipped())
    steps = table.steps_within(8, 8000, span_s, 50)
    assert 1 <= steps <= 50
    assert steps == 50 or table.run_s(8, 8000, steps) >= span_s
    assert steps == 1 or table.run_s(8, 8000, steps - 1) < span_s
