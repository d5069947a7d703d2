"""How the time of a step moves with what the step works on."""

from typing import Any

import numpy as np
import pytest
from tests.unit.placer.parts import shape

from opentela.placer.fit import COMPONENTS, shipped
from opentela.placer.shapes import ReplicaShape
from opentela.placer.simulate import columns
from opentela.placer.simulate.step import Step, Work, parts, seconds


def _work(**more: float) -> Work:
    given = {
        "decoding": 0.0,
        "context": 0.0,
        "prompt_tokens": 0.0,
        "prompt_pairs": 0.0,
        "prompts": 0.0,
    }
    return Work(**{name: np.array([[value]]) for name, value in (given | more).items()})


def _s(one: ReplicaShape, **work: float) -> float:
    c, z = columns.of([one], shipped())
    return float(seconds(c, z, _work(**work))[0, 0])


def _parts(one: ReplicaShape, **work: float) -> Step:
    c, _ = columns.of([one], shipped())
    return parts(c, np.ones((1, len(COMPONENTS))), _work(**work))


def test_a_lone_token_waits_for_all_weights() -> None:
    """Llama 3.1 8B on an H100: 16 GB at 3.35 TB/s are 4.5 ms without the embedding."""
    assert 0.0045 < _s(shape(), decoding=1, context=100) < 0.012


def test_a_long_prompt_waits_for_arithmetic() -> None:
    """8,192 tokens of 8 billion weights are 0.13 s at the data sheet's rate, and more in truth."""
    work = {"prompt_tokens": 8192, "prompt_pairs": 8192**2 / 2, "prompts": 1}
    assert 0.13 < _s(shape(), **work) < 0.35


@pytest.mark.parametrize(
    "more",
    [
        {"decoding": 64, "context": 1000},
        {"decoding": 8, "context": 4000},
        {"decoding": 8, "context": 1000, "prompt_tokens": 512, "prompt_pairs": 512**2 / 2},
    ],
)
def test_more_work_takes_longer(more: dict[str, float]) -> None:
    """More sequences, more context, a prompt beside them."""
    assert _s(shape(), **more) > _s(shape(), decoding=8, context=1000)


def test_a_batch_costs_less_than_its_sequences_alone() -> None:
    """Weights are read once for all."""
    assert _s(shape(), decoding=32, context=500) < 4 * _s(shape(), decoding=1, context=500)


def test_collectives_are_for_those_who_share_a_layer() -> None:
    """None on one GPU, longer over PCIe than over NVLink."""
    work = {"prompt_tokens": 4096.0}
    assert _parts(shape(), **work).collectives[0, 0] == 0
    fast = _parts(shape(tp=2), **work).collectives[0, 0]
    slow = _parts(shape(gpu="l40s-48g", tp=2), **work).collectives[0, 0]
    assert 0 < fast < slow


def test_few_tokens_wake_few_experts() -> None:
    """One token reads eight of 128 experts, a thousand read nearly all."""
    one, many = (
        _parts(shape("qwen3-30b-a3b"), decoding=n, context=10.0).experts[0, 0] for n in (1, 1000)
    )
    assert one < many < 100 * one
    assert _parts(shape(), decoding=1, context=10.0).experts[0, 0] == 0


def test_a_window_bounds_what_a_token_reads() -> None:
    """Half the layers of gpt-oss see 128 tokens."""
    near, far = (
        _parts(shape("gpt-oss-20b", w_dtype="mxfp4"), decoding=64, context=n).attention[0, 0]
        for n in (4000.0, 8000.0)
    )
    seen_near, seen_far = 4000 / 2 + 128 / 2, 8000 / 2 + 128 / 2
    assert far / near < seen_far / seen_near * 1.01


def test_narrow_weights_are_read_faster() -> None:
    """That is what quantisation is for."""
    assert _s(shape(w_dtype="fp8"), decoding=1, context=10) < _s(shape(), decoding=1, context=10)


def test_copies_share_the_requests() -> None:
    """Expert parallelism beyond tensor parallelism: each copy attends to its own."""
    args: dict[str, Any] = {"decoding": 64.0, "context": 2000.0}
    alone = _parts(shape("qwen3-30b-a3b"), **args)
    dealt = _parts(shape("qwen3-30b-a3b", ep=4), **args)
    assert dealt.attention[0, 0] < alone.attention[0, 0]
    assert dealt.collectives[0, 0] > alone.collectives[0, 0] == 0


def test_every_doubling_of_gpus_takes_the_engine_as_long_again() -> None:
    """A step is told to each of them: eight take three times what two do."""
    alone, two, eight = (
        float(_parts(shape(tp=tp), decoding=1, context=10).engine[0, 0]) for tp in (1, 2, 8)
    )
    assert two > alone
    assert eight - alone == pytest.approx(3 * (two - alone))


@pytest.mark.parametrize(
    ("component", "model", "w_dtype", "slower"),
    [
        ("blocks8", "qwen3-30b-a3b", "fp8", 1),
        ("blocks8", "qwen3-30b-a3b", "bf16", 0),
        ("blocks8", "qwen3-8b", "fp8", 0),
        ("blocks8", "llama-3.1-8b", "fp8", 0),
        ("windowed", "mistral-7b", "bf16", 1),
        ("windowed", "llama-3.1-8b", "bf16", 0),
        ("windowed", "gemma-2-27b", "bf16", 0),
    ],
)
def test_kernels_of_their_own_have_a_factor_of_their_own(
    component: str, model: str, w_dtype: str, slower: int
) -> None:
    """Mixtures scaled block by block, and attention of models whose every layer has a window."""
    c, _ = columns.of([shape(model=model, w_dtype=w_dtype)], shipped())
    z = np.ones((1, len(COMPONENTS)))
    work = _work(decoding=8, context=1000)
    before = float(seconds(c, z, work)[0, 0])
    z[0, COMPONENTS.index(component)] = 2.0
    assert np.sign(float(seconds(c, z, work)[0, 0]) - before) == slower
