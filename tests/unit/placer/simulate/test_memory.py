"""What fits into memory, and why something does not."""

import pytest
from tests.unit.placer.parts import shape, workload

from opentela.placer.shapes import Reason, ReplicaShape
from opentela.placer.simulate import memory


def test_kv_of_a_token_is_that_of_all_layers_and_kv_heads() -> None:
    """Llama 3.1 8B: 32 layers, 8 KV heads of 128, keys and values of two bytes."""
    assert memory.kv_bytes_per_token(shape()) == 32 * 8 * 128 * 2 * 2


def test_tensor_parallelism_divides_kv_until_one_head_is_left() -> None:
    """Beyond that every GPU holds a copy."""
    per_token = [memory.kv_bytes_per_token(shape(tp=tp)) for tp in (1, 8, 16)]
    assert per_token[0] == 8 * per_token[1]
    assert per_token[2] == per_token[1]


def test_latent_attention_holds_one_latent_on_every_gpu() -> None:
    """It cannot be divided by heads."""
    one, eight = (memory.kv_bytes_per_token(shape("deepseek-v3", tp=tp)) for tp in (1, 8))
    assert one == eight == 61 * 576 * 2


def test_linear_layers_hold_no_kv() -> None:
    """One layer of four does, in Qwen3-Next."""
    assert memory.kv_bytes_per_token(shape("qwen3-next-80b-a3b")) == 12 * 2 * 256 * 2 * 2


def test_weights_are_as_wide_as_their_format_but_for_the_vocabulary() -> None:
    """Embedding and head stay in 16 bits; MXFP4 is for experts only."""
    wide, narrow = (memory.weight_bytes(shape(w_dtype=w)) for w in ("bf16", "fp8"))
    assert wide == pytest.approx(16.06e9, rel=0.01)
    assert narrow == pytest.approx(16.06e9 - 6.98e9, rel=0.01)
    assert memory.weight_bytes(shape("gpt-oss-120b", w_dtype="mxfp4")) == pytest.approx(
        65e9, rel=0.05
    )


def test_experts_are_dealt_out_and_the_rest_is_copied() -> None:
    """Eight GPUs of expert parallelism hold all else eight times, and eight times the KV cache."""
    alone = shape("qwen3-30b-a3b")
    dealt = shape("qwen3-30b-a3b", ep=8)
    assert dealt.gpus == 8
    assert dealt.copies == 8
    rest = memory.weight_bytes(alone) - memory.expert_weights(alone.model) * 2
    assert memory.weight_bytes(dealt) == pytest.approx(
        rest + memory.expert_weights(alone.model) * 2 / 8
    )
    assert memory.kv_tokens(dealt) > 8 * memory.kv_tokens(alone)


def test_the_engines_own_count_of_blocks_is_believed() -> None:
    """It is in the engine's log, and a wrong one moves latency."""
    assert memory.kv_tokens(shape(kv_blocks=1000)) == 16000


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (shape("llama-3.1-70b"), Reason.MEMORY),
        (shape("qwen2-7b", tp=8), Reason.HEADS),
        (shape("qwen3-30b-a3b", tp=32, gpu="h100-80g-sxm"), Reason.NODE),
        (shape("llama-3.2-3b", tp=3), Reason.KV_HEADS),
        (shape("llama-3.1-8b", "gh200-96g", tp=8), Reason.NODE),
        (shape("llama-3.2-1b", pp=17), Reason.LAYERS),
        (shape("llama-3.2-1b", "v100-16g-sxm", w_dtype="fp4"), Reason.DTYPE),
        (shape("qwen3-30b-a3b", ep=3), Reason.EXPERTS),
        (shape("qwen3-30b-a3b", tp=4, ep=6), Reason.EXPERTS),
    ],
)
def test_what_cannot_run_says_why(bad: ReplicaShape, reason: Reason) -> None:
    """Each limit has its own words."""
    assert memory.feasible(bad) is reason


def test_a_workload_beyond_the_context_cannot_run() -> None:
    """Llama 2 sees 4,096 tokens."""
    two = shape("llama-2-7b")
    assert memory.feasible(two, workload(in_len=4000, out_len=200)) is Reason.CONTEXT
    assert memory.feasible(two, workload(in_len=3000, out_len=200)) is None
