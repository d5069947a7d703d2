"""How long one engine step takes: every operator of every layer, and what the engine adds.

An operator waits for memory and for arithmetic. A roofline takes the greater of the two, which is
worst where both are alike, and that is where served batches live. Here both are joined by a norm
whose exponent was fitted, `(memory^p + compute^p)^(1/p)`, above a floor that every kernel has.
"""

from typing import Final, NamedTuple

import numpy as np

from opentela.placer.fit import BASES, COMPONENTS
from opentela.placer.shapes import Floats
from opentela.placer.simulate.columns import Columns

K: Final = {name: index for index, name in enumerate(COMPONENTS)}
_ACTIVATION_BYTES: Final = 2.0
_NORMS_AND_SUMS: Final = 8.0
"""Times that a layer moves its hidden state to or from memory outside its matrix products."""
_ACTIVATIONS: Final = 3.0
"""Times that an MLP moves its inner state: both halves in, the product out."""
_HALF_BITS: Final = 8
_COLLECTIVES: Final = 2.0
"""All-reduces of one layer."""


class Work(NamedTuple):
    """What one step works on; arrays that broadcast to (N, cases).

    Attributes:
        decoding: Running sequences that get one token each.
        context: Their mean context.
        prompt_tokens: Prompt tokens that are worked on.
        prompt_pairs: Pairs of prompt token and context token before it, over all prompts.
        prompts: Prompts that end in this step, so that each needs its first token.
    """

    decoding: Floats
    context: Floats
    prompt_tokens: Floats
    prompt_pairs: Floats
    prompts: Floats


class Step(NamedTuple):
    """The seconds of a step by cause, each of shape (N, cases)."""

    engine: Floats
    products: Floats
    attention: Floats
    experts: Floats
    collectives: Floats
    elementwise: Floats

    @property
    def total(self) -> Floats:
        """The whole step."""
        total: Floats = np.sum(np.broadcast_arrays(*self), axis=0)
        return total


def seconds(c: Columns, z: Floats, work: Work) -> Floats:
    """Return how long a step takes: shape (N, cases). *z* are the factors, of shape (N, K)."""
    return parts(c, z, work).total * factor(z, "whole")


def parts(c: Columns, z: Floats, work: Work) -> Step:
    """Return the parts of a step."""
    own = Work(
        work.decoding / c.copies,
        work.context,
        work.prompt_tokens / c.copies,
        work.prompt_pairs / c.copies,
        work.prompts / c.copies,
    )
    tokens = np.maximum(own.decoding + own.prompt_tokens, 1e-9)
    rows = np.maximum(own.decoding + own.prompts, 1e-9)
    latent = np.where(c.is_latent > 0, factor(z, "latent"), 1.0)
    return Step(
        engine=_engine(c, z, rows * c.copies),
        products=_products(c, z, tokens, rows),
        attention=_decode(c, z, own) + _prefill(c, z, own) * latent,
        experts=_experts(c, z, tokens * c.copies),
        collectives=_collectives(c, z, tokens),
        elementwise=_elementwise(c, z, tokens),
    )


def factor(z: Floats, component: str) -> Floats:
    """Return the factors of one component, of shape (N, 1)."""
    return z[:, K[component], None]


def _engine(c: Columns, z: Floats, rows: Floats) -> Floats:
    host = factor(z, "host") * BASES["host"]
    told = factor(z, "host_tp") * BASES["host_tp"] * np.log2(c.peers * c.pp)
    layer = factor(z, "layer") * BASES["layer"] * c.layers
    return host + told + layer + factor(z, "seq") * BASES["seq"] * rows


def gemm(curve: Floats, *, moved: Floats, done: Floats, quantised: Floats) -> Floats:
    """Return the time of a matrix product beyond its floor.

    Args:
        curve: Floor, shares of memory and compute, knee, and times that activations are moved again
            to be quantised, in the last axis.
        moved: Seconds to move its operands at the data sheet's bandwidth.
        done: Seconds to multiply at the data sheet's rate.
        quantised: Seconds to move its activations once.
    """
    knee = curve[..., 3]
    moved, done = moved / curve[..., 1], done / curve[..., 2]
    longer = np.maximum(moved, done)
    shorter = np.minimum(moved, done) / np.maximum(longer, 1e-300)
    # The same as (moved^knee + done^knee)^(1 / knee), with one power less.
    return longer * (1 + shorter**knee) ** (1 / knee) + curve[..., 4] * quantised


class _Weights(NamedTuple):
    """How a matrix is stored and multiplied."""

    size: Floats
    curve: Floats
    flops: Floats


def _product(c: Columns, z: Floats, kind: _Weights, shape: tuple[Floats, Floats, Floats]) -> Floats:
    """Return the seconds of one product of m by k with k by n numbers, *shape* being m, n, k."""
    m, n, k = shape
    size = kind.size
    a = np.clip(size, 1.0, _ACTIVATION_BYTES)
    moved = (size * n * k + a * m * k + _ACTIVATION_BYTES * m * n) / c.bandwidth
    busy = gemm(
        kind.curve,
        moved=moved * factor(z, "memory"),
        done=2 * m * n * k / kind.flops * factor(z, "compute"),
        quantised=_ACTIVATION_BYTES * m * k / c.bandwidth,
    )
    slower = np.where(c.bits < _HALF_BITS, factor(z, "quant4"), factor(z, "quant"))
    slower = slower * np.where(c.is_blocks8 > 0, factor(z, "blocks8"), 1.0)
    slower = np.where(size < _ACTIVATION_BYTES, slower, 1.0)
    return np.where(n * k > 0, kind.curve[..., 0] * factor(z, "floor") + busy * slower, 0.0)


def _products(c: Columns, z: Floats, tokens: Floats, rows: Floats) -> Floats:
    other = _Weights(c.w_other, c.gemm_other, c.flops_other)
    wide = _Weights(np.full_like(c.w_other, _ACTIVATION_BYTES), c.gemm16, c.flops16)
    up = 1 + c.gated
    attention = _product(c, z, other, (tokens, c.qkv, c.hidden)) + _product(
        c, z, other, (tokens, c.hidden, c.attention_out)
    )
    total = c.layers * attention
    if np.any(c.dense_layers):
        dense = _product(c, z, other, (tokens, up * c.ffn, c.hidden)) + _product(
            c, z, other, (tokens, c.hidden, c.ffn)
        )
        total = total + c.dense_layers * dense
    if np.any(c.shared_ffn):
        shared = _product(c, z, other, (tokens, up * c.shared_ffn, c.hidden)) + _product(
            c, z, other, (tokens, c.hidden, c.shared_ffn)
        )
        total = total + c.expert_layers * shared
    return total + _product(c, z, wide, (rows, c.head, c.hidden))


def _decode(c: Columns, z: Floats, work: Work) -> Floats:
    seen = c.full_share * work.context + (1 - c.full_share) * np.minimum(work.context, c.window)
    moved = work.decoding * (c.kv_bytes * seen + c.state_bytes) / c.bandwidth / c.decode[..., 1]
    done = work.decoding * c.score_flops * seen / c.flops16 / c.decode[..., 2]
    busy = np.hypot(moved, done) + work.decoding * c.decode[..., 3]
    floor = np.where(work.decoding > 0, c.decode[..., 0], 0.0) * factor(z, "floor")
    own = np.where(c.is_own_kv > 0, factor(z, "own_kv"), 1.0)
    own = own * np.where(c.is_windowed > 0, factor(z, "windowed"), 1.0)
    return c.layers * (floor + busy * factor(z, "decode") * own)


def _prefill(c: Columns, z: Floats, work: Work) -> Floats:
    mean = np.maximum(work.prompt_pairs / np.maximum(work.prompt_tokens, 1e-9), 1.0)
    reach = c.full_share + (1 - c.full_share) * np.minimum(1.0, c.window / (2 * mean))
    slow = 1 + c.prefill[..., 2] / (2 * mean)
    done = work.prompt_pairs * reach * c.prompt_flops / c.flops16 / c.prefill[..., 1] * slow
    floor = np.where(work.prompt_tokens > 0, c.prefill[..., 0], 0.0) * factor(z, "floor")
    total: Floats = c.layers * (floor + done * factor(z, "prefill"))
    return total


def _experts(c: Columns, z: Floats, tokens: Floats) -> Floats:
    if not np.any(c.expert_layers):
        return np.zeros_like(tokens)
    experts = np.maximum(c.experts, 1.0)
    share = np.minimum(c.experts_active / experts, 1 - 1e-9)
    awake = experts / c.ep * -np.expm1(tokens * np.log1p(-share))
    one = (2 + c.gated) * c.hidden * c.expert_ffn
    rows = np.maximum(tokens * c.experts_active / c.ep, 1e-9)
    moved = awake * one * c.w_bytes + rows * (2 * c.hidden + 3 * c.expert_ffn) * _ACTIVATION_BYTES
    slow = (1 + c.moe[..., 3] * awake / rows) * (1 + c.moe[..., 4] / np.maximum(c.expert_ffn, 1.0))
    done = 2 * rows * one / c.flops / c.moe[..., 2] * slow
    each = np.hypot(moved / c.bandwidth / c.moe[..., 1], done)
    floor = c.moe[..., 0] * factor(z, "experts_floor")
    total: Floats = c.expert_layers * (floor + each * factor(z, "experts"))
    return total


def _collectives(c: Columns, z: Floats, tokens: Floats) -> Floats:
    size = tokens * c.hidden * _ACTIVATION_BYTES
    reduced = _all_reduce(c, z, c.tp, size)
    exchanged = np.where(c.copies > 1, _all_reduce(c, z, c.peers, size * c.copies), 0.0)
    hop = c.collective[..., 0] * factor(z, "hop")
    staged = np.where(c.pp > 1, (c.pp - 1) * (hop + size / c.link), 0.0)
    return _COLLECTIVES * c.layers * reduced + c.expert_layers * exchanged + staged


def _all_reduce(c: Columns, z: Floats, peers: Floats, size: Floats) -> Floats:
    """Return the seconds in which *peers* add up *size* bytes, or gather and scatter as many."""
    volume = 2 * (peers - 1) / peers * size / (c.link * c.collective[..., 2])
    hops = c.collective[..., 0] + c.collective[..., 1] * np.log2(peers)
    return np.where(peers > 1, hops * factor(z, "hop") + volume * factor(z, "link"), 0.0)


def _elementwise(c: Columns, z: Floats, tokens: Floats) -> Floats:
    inner = c.dense_layers * c.ffn
    moved = c.layers * _NORMS_AND_SUMS * c.hidden + _ACTIVATIONS * inner
    return moved * tokens * _ACTIVATION_BYTES / c.bandwidth * factor(z, "elementwise")
