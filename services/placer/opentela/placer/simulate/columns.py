"""Replica shapes as columns of numbers, so that thousands are estimated at once."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from opentela.placer import catalogue
from opentela.placer.fit import COMPONENTS, OPERATORS, Curves, Fit
from opentela.placer.shapes import DTYPE_BYTES, Floats, Gpu, ReplicaShape
from opentela.placer.simulate import memory

_WIDE: Final = 2.0
_NO_LINK_SHARES: Final = {2: 0.35, 4: 0.5}
_NO_LINK_SHARE: Final = 0.4
"""Of PCIe, what a GPU reaches whose neighbours cannot be reached but through the host, by how many
share a layer: as A100 PCIe and L40S show beside one another. Eight sit at two processors."""
_BRIDGED: Final = 2
"""GPUs that an NVLink bridge joins."""


class Columns(NamedTuple):
    """One row a shape; each column has shape (N, 1), so that a second axis may hold cases.

    Numbers are those of one GPU of one pipeline stage, times the number of stages: what a token
    meets on its way through the model.
    """

    tp: Floats
    pp: Floats
    copies: Floats
    ep: Floats
    peers: Floats
    bits: Floats
    is_latent: Floats
    is_own_kv: Floats
    is_windowed: Floats
    is_blocks8: Floats
    layers: Floats
    dense_layers: Floats
    expert_layers: Floats
    hidden: Floats
    qkv: Floats
    attention_out: Floats
    ffn: Floats
    shared_ffn: Floats
    gated: Floats
    head: Floats
    experts: Floats
    experts_active: Floats
    expert_ffn: Floats
    kv_bytes: Floats
    score_flops: Floats
    prompt_flops: Floats
    full_share: Floats
    window: Floats
    state_bytes: Floats
    w_bytes: Floats
    w_other: Floats
    bandwidth: Floats
    flops: Floats
    flops_other: Floats
    flops16: Floats
    link: Floats
    gemm_other: Floats
    gemm16: Floats
    decode: Floats
    prefill: Floats
    moe: Floats
    collective: Floats
    batch_max: Floats
    batched_tokens_max: Floats
    reserves_whole: Floats
    kv_tokens: Floats


def of(shapes: Sequence[ReplicaShape], fit: Fit) -> tuple[Columns, Floats]:
    """Return the columns of *shapes* and the factors of each, the latter of shape (N, K)."""
    cache: dict[ReplicaShape, int] = {}
    known: dict[tuple[str, ...], Floats] = {}  # by all that `levels_of` tells apart
    curves: dict[tuple[str, str, str, bool], _Cells] = {}
    rows: list[_Cells] = []
    factors: list[Floats] = []
    index = []
    for shape in shapes:
        at = cache.get(shape)
        if at is None:
            at = cache[shape] = len(rows)
            rows.append(_row(shape, fit, curves))
            kind = (shape.model.id, shape.gpu.id, shape.engine, shape.build, shape.w_dtype)
            if kind not in known:
                known[kind] = fit.factors(shape)
            factors.append(known[kind])
        index.append(at)
    where = np.array(index, dtype=np.int64)
    columns = Columns(*(_column(values)[where] for values in zip(*rows, strict=True)))
    return columns, np.array(factors).reshape(-1, len(COMPONENTS))[where]


def _column(values: Sequence[float | tuple[float, ...]]) -> Floats:
    array = np.array(values, dtype=np.float64)
    return array[:, None]


def bytes_class(shape: ReplicaShape) -> str:
    """Return in how many bits the GPU multiplies weights of this format: 16, 8 or 4."""
    gpu, dtype = shape.gpu, shape.w_dtype
    if dtype == "fp4" and gpu.flops_fp4 > 0:
        return "4"
    if dtype == "mxfp4" and gpu.flops_fp4 > 0:
        return "8"
    if (dtype == "fp8" and gpu.flops_fp8 > 0) or (dtype == "int8" and gpu.flops_int8 > 0):
        return "8"
    return "16"


def peak_flops(gpu: Gpu, bits: str) -> float:
    """Return the dense tensor rate of *gpu* at that width."""
    return {
        "16": gpu.flops_bf16,
        "8": gpu.flops_fp8 or gpu.flops_int8,
        "4": gpu.flops_fp4,
    }[bits]


def link_bandwidth(gpu: Gpu, tp: int) -> float:
    """Return the bytes a second that one GPU sends its neighbours under tensor parallelism."""
    is_beyond = "bridge (pairs)" in gpu.link_kind and tp > _BRIDGED
    if gpu.link <= 0 or is_beyond or "bridge (optional)" in gpu.link_kind:
        return gpu.pcie * _NO_LINK_SHARES.get(tp, _NO_LINK_SHARE)
    return gpu.link


_Cells = tuple[float | tuple[float, ...], ...]


def _row(shape: ReplicaShape, fit: Fit, curves: dict[tuple[str, str, str, bool], _Cells]) -> _Cells:
    """Return the cells of *shape* in the order of `Columns`; *curves* are those met already."""
    is_mixed = shape.w_dtype == "mxfp4" and shape.model.experts > 0
    bits = bytes_class(shape)
    narrow = DTYPE_BYTES[shape.w_dtype]
    divided = (
        shape.tp,
        shape.pp,
        shape.copies,
        shape.ep,
        shape.stage_gpus,
        float(bits),
    )
    weights = (narrow, _WIDE if is_mixed else narrow)
    other_bits = "16" if is_mixed else bits
    key = (shape.gpu.id, bits, other_bits, shape.model.attention == "mla")
    if key not in curves:
        curves[key] = _curves(fit.curves(shape.gpu), bits, other_bits, is_latent=key[3])
    rates = _of_gpu(shape, bits, other_bits)
    return divided + _of_model(shape) + weights + rates + curves[key] + _of_engine(shape)


def _of_model(shape: ReplicaShape) -> _Cells:
    model, tp = shape.model, shape.tp
    mla = model.attention == "mla"
    scored = prompted = 4 * model.head_dim
    if mla:
        # A token scores the latent itself; a prompt is worth spreading it out to heads first.
        scored = 2 * (2 * memory.MLA_KV_RANK + memory.MLA_ROPE)
        prompted = 2 * (memory.MLA_NOPE + memory.MLA_ROPE + memory.MLA_V)
    expert_layers = model.layers - model.dense_layers if model.experts else 0
    return (
        float(mla),
        float(model.kv_heads == model.heads and not mla),
        float(model.window > 0 and model.full_attention_every == 0),
        float(_is_scaled_by_blocks(shape)),
        model.layers,
        model.layers - expert_layers,
        expert_layers,
        model.hidden,
        *_attention_columns(shape),
        model.ffn / tp,
        model.experts_shared * model.expert_ffn / tp,
        float(model.gated),
        model.vocab / tp,
        model.experts,
        model.experts_active,
        model.expert_ffn * shape.ep / shape.stage_gpus,
        memory.kv_bytes_per_token(shape) * shape.pp / model.layers,
        model.heads / tp * scored,
        model.heads / tp * prompted,
        _full_share(shape),
        float(model.window or model.context_max or 1e9),
        _state_bytes(shape),
    )


def _is_scaled_by_blocks(shape: ReplicaShape) -> bool:
    """Return whether products have kernels of their own since weights are scaled block by block.

    Only those of mixtures turned out slower; dense models take what others in FP8 do.
    """
    model = shape.model
    is_mixture = model.fp8_blocks and model.experts > 0
    return is_mixture and shape.w_dtype == "fp8" and shape.gpu.flops_fp8 > 0


def _of_gpu(shape: ReplicaShape, bits: str, other_bits: str) -> _Cells:
    gpu = shape.gpu
    return (
        gpu.bandwidth,
        peak_flops(gpu, bits),
        peak_flops(gpu, other_bits),
        gpu.flops_bf16,
        link_bandwidth(gpu, shape.stage_gpus),
    )


def _curves(curves: Curves, bits: str, other_bits: str, *, is_latent: bool) -> _Cells:
    """Return the curves of a GPU in the order of `Columns`.

    Heads that share a latent multiply matrices, and reach what prompts reach of the arithmetic.
    """
    floor, moved, done, seq = _curve(curves, "decode")
    prefill = _curve(curves, "prefill")
    return (
        _curve(curves, f"gemm{other_bits}"),
        _curve(curves, "gemm16"),
        (floor, moved, prefill[1] if is_latent else done, seq),
        prefill,
        _curve(curves, f"experts{bits}"),
        _curve(curves, "collective"),
    )


def _of_engine(shape: ReplicaShape) -> _Cells:
    engine = catalogue.engine(shape.engine)
    return (
        shape.max_batch or engine.batch_max * shape.copies,
        shape.batched_tokens_max or engine.batched_tokens_max * shape.copies,
        float(engine.reserves_whole),
        memory.kv_tokens(shape),
    )


def _attention_columns(shape: ReplicaShape) -> tuple[float, float]:
    """Return the columns of the projections into and rows of the one out of attention."""
    model, tp = shape.model, shape.tp
    if model.attention == "mla":
        inner = model.heads / tp * memory.MLA_V
        shared = model.hidden * (memory.MLA_Q_RANK + memory.MLA_KV_RANK + memory.MLA_ROPE)
        whole = memory.attention_weights(model) - model.heads * memory.MLA_V * model.hidden
        return (shared + (whole - shared) / tp) / model.hidden, inner
    inner = model.heads / tp * model.head_dim
    return inner + 2 * max(1.0, model.kv_heads / tp) * model.head_dim, inner


def _full_share(shape: ReplicaShape) -> float:
    """Return the share of the layers that hold KV which sees the whole context."""
    model = shape.model
    if model.attention == "hybrid_gdn" or not model.window:
        return 1.0
    return memory.full_layers(model) / model.layers


def _state_bytes(shape: ReplicaShape) -> float:
    """Return what a running sequence makes each layer read and write beside KV, on average."""
    model = shape.model
    if model.attention != "hybrid_gdn":
        return 0.0
    linear = 1.0 - memory.full_layers(model) / model.layers
    return 2 * linear * memory.GDN_STATE_BYTES / shape.tp


def _curve(curves: Curves, name: str) -> tuple[float, ...]:
    """Return a curve; where a width was not measured, that of the next wider one."""
    kind, bits = name.rstrip("0123456789"), name.lstrip("abcdefghijklmnopqrstuvwxyz")
    if name in curves:
        return (*curves[name], 0.0)[: len(OPERATORS[_PADDED.get(name, name)])]
    wider = {"4": "8", "8": "16"}[bits]
    found = _curve(curves, f"{kind}{wider}")
    return (*found, 0.0)[: len(OPERATORS[name])]


_PADDED: Final = {"gemm16": "gemm8"}
"""All widths in one column: 16 bits quantise for nothing."""
