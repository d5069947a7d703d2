"""What the placer speaks of: GPUs, models, replica shapes, workloads, and what is said of them.

Sizes are bytes, times are seconds, lengths are tokens, rates are per second. Facts about a GPU are
those of its data sheet; what is really reached of them is a matter of the fit.
"""

import enum
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

DTYPE_BYTES: Final[dict[str, float]] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "fp4": 0.5625,  # 4 bits and an 8-bit scale for 16 values
    "mxfp4": 0.53125,  # 4 bits and an 8-bit scale for 32 values
    "int4": 0.53125,  # 4 bits and a 16-bit scale for 128 values, and zero points
}
"""Bytes a stored number takes, its share of the scales included."""


class Gpu(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """One type of GPU, as its data sheet has it.

    Attributes:
        memory_gib: Memory, in the GiB that drivers count.
        bandwidth: Memory bandwidth in bytes a second.
        flops_bf16: Dense 16-bit tensor rate; fp8, int8 and fp4 are 0 where the GPU has none.
        link: Bandwidth to its neighbours in one direction, 0 where there is only PCIe.
        gpus_per_node: GPUs that one node joins by its fastest link.
        price_usd_h: A typical price of an hour, 0 when unknown.
    """

    id: str
    name: str
    vendor: str
    arch: str
    memory_gib: float
    bandwidth: float
    flops_bf16: float
    flops_fp8: float = 0.0
    flops_int8: float = 0.0
    flops_fp4: float = 0.0
    link: float = 0.0
    link_kind: str = "none"
    pcie: float = 16e9
    gpus_per_node: int = 8
    price_usd_h: float = 0.0
    watts: float = 0.0
    source: str = ""

    @property
    def memory(self) -> float:
        """Bytes of memory."""
        return self.memory_gib * 2**30


class Model(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """The shape of one decoder-only transformer.

    Attributes:
        attention: `mha`, `gqa`, `mqa`, `mla` (latent) or `hybrid_gdn` (mostly linear attention).
        full_attention_every: Every so many layers one sees the whole context; the others see
            `window` tokens, or hold no KV at all under `hybrid_gdn`. 1: all see everything; 0: all
            see the window only.
        experts: Routed experts of a mixture layer; 0 for a dense model.
        dense_layers: Layers that stay dense in a mixture model.
        fp8_blocks: Its maker's weights in FP8 are scaled block by block, not matrix by matrix:
            engines multiply them with other kernels.
    """

    id: str
    hf_id: str = ""
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    gated: bool = True
    vocab: int
    tied: bool = False
    context_max: int = 0
    experts: int = 0
    experts_active: int = 0
    expert_ffn: int = 0
    experts_shared: int = 0
    dense_layers: int = 0
    attention: str = "gqa"
    window: int = 0
    full_attention_every: int = 1
    fp8_blocks: bool = False
    source: str = ""


class ReplicaShape(msgspec.Struct, frozen=True, kw_only=True):
    """One way to run a model: on which GPUs, how divided, under which engine and limits.

    Attributes:
        ep: GPUs of a stage among which whole routed experts are dealt out. Where `ep` is more than
            `tp`, all else is held `ep / tp` times, and each copy takes its share of requests.
        w_dtype: How weights are stored: a key of `DTYPE_BYTES`.
        kv_dtype: How the KV cache is stored.
        engine: An id of `catalogue.engines()`.
        build: The very version of the engine, for effects that were fitted to it alone.
        max_batch: Sequences that run at once at most; 0: the engine's own limit.
        batched_tokens_max: Tokens of one step at most; 0: the engine's own limit.
        kv_blocks: KV blocks the engine really has, where it was read from its log; None: worked
            out from memory.
    """

    model: Model
    gpu: Gpu
    tp: int = 1
    pp: int = 1
    ep: int = 1
    w_dtype: str = "bf16"
    kv_dtype: str = "bf16"
    engine: str = "vllm"
    build: str = ""
    max_batch: int = 0
    batched_tokens_max: int = 0
    kv_blocks: int | None = None

    @property
    def gpus(self) -> int:
        """How many GPUs one replica holds."""
        return self.stage_gpus * self.pp

    @property
    def stage_gpus(self) -> int:
        """How many GPUs work on one layer."""
        return max(self.tp, self.ep)

    @property
    def copies(self) -> int:
        """How many times attention and dense layers are held, each for other requests."""
        return self.stage_gpus // self.tp


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of one model.

    Attributes:
        rate_rps: Requests a second that arrive.
        in_cv: Standard deviation of the prompt length over its mean; out_cv likewise.
        prefix_hit: Share of prompt tokens that are already in the prefix cache.
        burstiness_cv: Coefficient of variation of the gaps between arrivals; 1 is Poisson.
    """

    rate_rps: float
    in_len: float
    out_len: float
    in_cv: float = 0.0
    out_cv: float = 0.0
    prefix_hit: float = 0.0
    burstiness_cv: float = 1.0


class Slo(msgspec.Struct, frozen=True, kw_only=True):
    """What clients were promised; infinite where nothing was. Means, in seconds."""

    ttft_s: float = float("inf")
    tpot_s: float = float("inf")
    e2e_s: float = float("inf")


class Reason(enum.StrEnum):
    """Why a shape cannot run."""

    MEMORY = "weights and one request do not fit into memory"
    EXPERTS = "expert parallelism divides neither the routed experts nor tensor parallelism"
    HEADS = "tensor parallelism does not divide the attention heads"
    KV_HEADS = "tensor parallelism and the KV heads do not divide one another"
    NODE = "tensor parallelism does not fit into one node"
    LAYERS = "there are more pipeline stages than layers"
    DTYPE = "the GPU has no arithmetic for this weight format"
    CONTEXT = "the workload is longer than the model's context"


class Estimates(msgspec.Struct, frozen=True, kw_only=True):
    """What the analytic model says of N pairs of shape and workload; every array has length N.

    Where a shape cannot run (`reasons[i]` is not None) rates are 0 and times infinite.

    Attributes:
        capacity_rps: Requests a second of one replica at saturation.
        slo_rps: The greatest rate of one replica at which the SLO that was given still holds.
        batch_max: Sequences that run at once at saturation: memory, engine and demand allow it.
        utilisation: The rate asked for over `capacity_rps`; times are infinite from 1 on.
        ttft_s: Mean time to first token at the rate asked for, queueing included; `tpot_s` and
            `e2e_s` likewise.
        kv_tokens: Tokens that the KV cache holds.
        usd_h: The price of an hour of one replica.
    """

    capacity_rps: Floats
    slo_rps: Floats
    batch_max: Floats
    utilisation: Floats
    ttft_s: Floats
    tpot_s: Floats
    e2e_s: Floats
    ttft_p99_s: Floats
    e2e_p99_s: Floats
    kv_tokens: Floats
    usd_h: Floats
    reasons: Sequence[Reason | None]

    @property
    def fits(self) -> Bools:
        """Where a shape can run at all."""
        return np.array([reason is None for reason in self.reasons], dtype=np.bool_)


class Requests(msgspec.Struct, frozen=True, kw_only=True):
    """A trace: one entry a request in each array, in order of arrival.

    Attributes:
        prefix_hit_tokens: Prompt tokens that are in the prefix cache of whichever replica.
    """

    arrival_s: Floats
    in_tokens: Ints
    out_tokens: Ints
    prefix_hit_tokens: Ints

    def __len__(self) -> int:
        """How many requests there are."""
        return len(self.arrival_s)


class Role(enum.StrEnum):
    """Which phases of a request a replica works on."""

    BOTH = "both"
    PREFILL = "prefill"
    DECODE = "decode"


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """One replica in a simulated fleet, and when it takes requests.

    Attributes:
        from_s: Instant from which it takes requests (its weights are loaded by then).
        until_s: Instant from which it takes no new ones; what it has, it finishes.
    """

    shape: ReplicaShape
    from_s: float = 0.0
    until_s: float = float("inf")
    role: Role = Role.BOTH


class RoutePolicy(enum.StrEnum):
    """How the simulated router picks among replicas that take requests."""

    LEAST_LOAD = "least_load"
    WEIGHTED = "weighted"
    ROUND_ROBIN = "round_robin"
    RANDOM = "random"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of each request of a trace, in the trace's order.

    Attributes:
        replica: Index of the replica that finished it; -1 if none ever could.
        first_s: Instant of its first token; NaN if there was none. `done_s` likewise.
        preemptions: How often it lost its KV cache and began anew.
        events: Engine steps and arrivals that were simulated.
    """

    replica: Ints
    first_s: Floats
    done_s: Floats
    preemptions: Ints
    events: int
