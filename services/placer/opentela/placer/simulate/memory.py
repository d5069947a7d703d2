"""What must lie in a GPU's memory, and how many tokens of KV cache the rest holds."""

from typing import Final

from opentela.placer import catalogue
from opentela.placer.shapes import DTYPE_BYTES, Model, Reason, ReplicaShape, Workload

# DeepSeek's multi-head latent attention: the one latent attention in use has these ranks.
MLA_KV_RANK: Final = 512
MLA_ROPE: Final = 64
MLA_Q_RANK: Final = 1536
MLA_NOPE: Final = 128
MLA_V: Final = 128
# Gated DeltaNet: a state of 128 by 128 fp32 for each of 32 value heads of a layer.
GDN_STATE_BYTES: Final = 32 * 128 * 128 * 4.0

_SMALL_DTYPES: Final = frozenset({"fp4", "mxfp4"})
_NO_BF16: Final = frozenset({"Volta", "Turing"})


def attention_weights(model: Model) -> float:
    """Return the numbers in the attention matrices of one layer."""
    if model.attention == "mla":
        per_head = MLA_NOPE + MLA_ROPE
        queries = model.hidden * MLA_Q_RANK + MLA_Q_RANK * model.heads * per_head
        latent = model.hidden * (MLA_KV_RANK + MLA_ROPE)
        values = MLA_KV_RANK * model.heads * (MLA_NOPE + MLA_V)
        return queries + latent + values + model.heads * MLA_V * model.hidden
    return model.hidden * model.head_dim * (2 * model.heads + 2 * model.kv_heads)


def mlp_weights(model: Model, ffn: int) -> float:
    """Return the numbers in one MLP of *ffn* inner columns."""
    return (3 if model.gated else 2) * model.hidden * ffn


def expert_weights(model: Model) -> float:
    """Return the numbers in all routed experts."""
    layers = model.layers - model.dense_layers
    return layers * model.experts * mlp_weights(model, model.expert_ffn) if model.experts else 0.0


def other_weights(model: Model) -> float:
    """Return the numbers in everything but routed experts and the vocabulary."""
    dense = model.dense_layers if model.experts else model.layers
    shared = (model.layers - dense) * model.experts_shared
    return (
        model.layers * attention_weights(model)
        + dense * mlp_weights(model, model.ffn)
        + shared * mlp_weights(model, model.expert_ffn)
    )


def vocabulary_weights(model: Model) -> float:
    """Return the numbers in the embedding and the output head."""
    return (1 if model.tied else 2) * model.vocab * model.hidden


def parameters(model: Model) -> float:
    """Return how many parameters *model* has, norms and biases left out."""
    return expert_weights(model) + other_weights(model) + vocabulary_weights(model)


def weight_bytes(shape: ReplicaShape) -> float:
    """Return the bytes of weights on one GPU; embedding and head always stay in 16 bits.

    MXFP4 checkpoints store their experts so and the rest in 16 bits.
    """
    model, size, wide = shape.model, DTYPE_BYTES[shape.w_dtype], DTYPE_BYTES["bf16"]
    other = wide if shape.w_dtype == "mxfp4" and model.experts else size
    rest = other_weights(model) * other + vocabulary_weights(model) * wide
    experts = expert_weights(model) * size
    return (experts / shape.stage_gpus + rest / shape.tp) / shape.pp


def full_layers(model: Model) -> float:
    """Return how many layers keep KV of the whole context."""
    every = model.full_attention_every
    return model.layers / every if every else 0.0


def kv_bytes_per_token(shape: ReplicaShape) -> float:
    """Return the KV bytes that one token of context takes on one GPU of a stage.

    Windowed layers count as whole ones: engines allot them the same blocks.
    """
    model, size = shape.model, DTYPE_BYTES[shape.kv_dtype]
    layers = full_layers(model) if model.attention == "hybrid_gdn" else float(model.layers)
    if model.attention == "mla":
        return layers / shape.pp * (MLA_KV_RANK + MLA_ROPE) * size
    heads = max(1.0, model.kv_heads / shape.tp)
    return layers / shape.pp * 2 * heads * model.head_dim * size


def kv_tokens(shape: ReplicaShape) -> float:
    """Return how many tokens of context the replica holds, all copies together.

    The engine's own count of blocks is taken where it is known.
    """
    engine = catalogue.engine(shape.engine)
    if shape.kv_blocks is not None:
        return float(shape.kv_blocks * engine.block_tokens)
    usable = shape.gpu.memory * engine.memory_share - engine.reserve_gib * 2**30
    left = usable - weight_bytes(shape)
    if shape.model.attention == "hybrid_gdn":
        states = (shape.model.layers - full_layers(shape.model)) * GDN_STATE_BYTES
        left -= states / shape.gpus * min(engine.batch_max, 256)
    blocks = left // (kv_bytes_per_token(shape) * engine.block_tokens)
    return max(0.0, blocks * engine.block_tokens) * shape.copies


def feasible(
    shape: ReplicaShape, workload: Workload | None = None, *, held: float | None = None
) -> Reason | None:
    """Return why *shape* cannot run, or not with the lengths of *workload*; None if it can.

    *held* is how many tokens of context it holds, where that was worked out already.
    """
    model = shape.model
    longest = workload.in_len + workload.out_len if workload else 1.0
    held = kv_tokens(shape) if held is None else held
    return _indivisible(shape) or next(
        (
            reason
            for reason, holds in (
                (Reason.NODE, shape.stage_gpus > shape.gpu.gpus_per_node),
                (Reason.LAYERS, shape.pp > model.layers),
                (Reason.DTYPE, shape.w_dtype in _SMALL_DTYPES and shape.gpu.arch in _NO_BF16),
                (Reason.CONTEXT, 0 < model.context_max < longest),
                (Reason.MEMORY, held < longest),
            )
            if holds
        ),
        None,
    )


def _indivisible(shape: ReplicaShape) -> Reason | None:
    """Return what cannot be divided among the GPUs of a stage."""
    model, tp, ep = shape.model, shape.tp, shape.ep
    if model.heads % tp:
        return Reason.HEADS
    if model.attention != "mla" and model.kv_heads % tp and tp % model.kv_heads:
        return Reason.KV_HEADS
    if ep > 1 and (model.experts == 0 or model.experts % ep or max(tp, ep) % min(tp, ep)):
        return Reason.EXPERTS
    return None
