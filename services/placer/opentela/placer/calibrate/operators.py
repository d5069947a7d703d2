"""Fits the curves of single operators to kernels that were timed alone.

The timings come as one compressed CSV a GPU, engine and operator; see `docs/simulator.md`.
"""

import csv
import gzip
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from opentela.placer import catalogue
from opentela.placer.calibrate.least_squares import minimise
from opentela.placer.fit import OPERATORS, Curves
from opentela.placer.shapes import DTYPE_BYTES, Floats, Gpu

SYSTEMS: Final[Mapping[str, str]] = {
    "a100_sxm": "a100-80g-sxm",
    "h100_sxm": "h100-80g-sxm",
    "h200_sxm": "h200-141g-sxm",
    "b200_sxm": "b200-180g-sxm",
    "gb200": "gb200-186g",
    "l40s": "l40s-48g",
}
"""Names of GPUs in the timings."""

DONORS: Final[Mapping[str, str]] = {
    "Volta": "a100-80g-sxm",
    "Turing": "a100-80g-sxm",
    "Ampere": "a100-80g-sxm",
    "Ada": "l40s-48g",
    "Hopper": "h100-80g-sxm",
    "Hopper+Grace": "h200-141g-sxm",
    "Blackwell": "b200-180g-sxm",
    "Blackwell RTX": "l40s-48g",
    "Blackwell Ultra": "b200-180g-sxm",
    "Blackwell+Grace": "gb200-186g",
    "Blackwell Ultra+Grace": "gb200-186g",
    "CDNA2": "h100-80g-sxm",
    "CDNA3": "h100-80g-sxm",
    "CDNA4": "h100-80g-sxm",
}
"""Whose curves an architecture borrows when its own kernels were not timed."""

_ROWS_MAX: Final = 6000
_MS: Final = 1e-3
_DTYPES: Final[Mapping[str, str]] = {
    "bfloat16": "16",
    "": "16",
    "fp8": "8",
    "nvfp4": "4",
}
_ENGINES: Final = ("trtllm", "vllm")
_FUSED: Final = frozenset({"gemm", "experts"})
"""Operators that are taken as the first of these engines runs them, which fuses what goes with
them: quantisation, routing. The others are taken as the second runs them."""

Row = Mapping[str, str]


def fit_all(folder: Path) -> dict[str, Curves]:
    """Return the curves of every GPU that has timings in *folder*."""
    curves = {gpu: _fit_gpu(folder, system, gpu) for system, gpu in SYSTEMS.items()}
    fused = [gpu for system, gpu in SYSTEMS.items() if _times_fused(folder, system)]
    for gpu, own in curves.items():
        if "gemm8" in own:
            # What is above the floor of 16 bits is the launch of another kernel to quantise with;
            # engines fuse it or have it launched by a graph. Where only the kernels apart were
            # timed, the shares of a GPU whose fused ones were stand in.
            shares = curves[fused[-1]]["gemm8"] if fused and gpu not in fused else own["gemm8"]
            own["gemm8"] = (own["gemm16"][0], *shares[1:])
    _share_links(curves)
    return {gpu: own for gpu, own in curves.items() if own}


def _share_links(curves: dict[str, Curves]) -> None:
    """Give GPUs without links of their own the usual share of what they send through.

    What they were timed at is the host of one machine: replicas elsewhere reach twice that, which
    is what GPUs with links reach of those.
    """
    joined = {gpu: own for gpu, own in curves.items() if "collective" in own}
    shares = [own["collective"][2] for gpu, own in joined.items() if catalogue.gpu(gpu).link]
    for gpu, own in joined.items():
        if shares and not catalogue.gpu(gpu).link:
            own["collective"] = (*own["collective"][:2], float(np.median(shares)))


def _times_fused(folder: Path, system: str) -> bool:
    """Return whether the products of a GPU were timed as the engine that fuses runs them."""
    return any(
        "fp8" in {row.get("gemm_dtype") for row in _rows(folder, system, "gemm")}
        for _ in folder.glob(f"{system}__*__{_ENGINES[0]}_*__{_FILES['gemm']}.csv.gz")
    )


def _fit_gpu(folder: Path, system: str, gpu_id: str) -> Curves:
    gpu = catalogue.gpu(gpu_id)
    curves: Curves = {}
    for kind, fitter in _FITTERS.items():
        rows = _rows(folder, system, kind)
        for bits in ("16", "8", "4"):
            found = fitter(gpu, [row for row in rows if _bits(row) == bits], bits)
            if found is not None:
                name, values = found
                curves[name] = _plausible(name, values)
    return curves


def _plausible(name: str, values: Floats) -> tuple[float, ...]:
    """Return *values*, none of them beyond the data sheet or too small to matter."""
    shares = {"memory", "compute", "link"}
    return tuple(
        float(f"{min(value, 1.0) if parameter in shares else max(value, 1e-10):.4g}")
        for parameter, value in zip(OPERATORS[name], values, strict=True)
    )


def _bits(row: Row) -> str:
    named = row.get("gemm_dtype") or row.get("moe_dtype") or row.get("kv_cache_dtype") or ""
    return _DTYPES.get(named, "other")


def _rows(folder: Path, system: str, kind: str) -> list[dict[str, str]]:
    """Return the timings of one operator by the engine that is preferred, thinned evenly."""
    for engine in _ENGINES if kind in _FUSED else _ENGINES[::-1]:
        paths = sorted(folder.glob(f"{system}__*__{engine}_*__{_FILES[kind]}.csv.gz"))
        if paths:
            with gzip.open(paths[-1], "rt", encoding="utf-8") as file:
                return list(csv.DictReader(file))
    return []


_FILES: Final[Mapping[str, str]] = {
    "gemm": "gemm_perf",
    "decode": "generation_attention_perf",
    "prefill": "context_attention_perf",
    "experts": "moe_perf",
    "collective": "custom_allreduce_perf",
}


def _columns(rows: Sequence[Row], *names: str) -> list[Floats]:
    thin = rows[:: max(1, len(rows) // _ROWS_MAX)]
    return [np.array([float(row[name]) for row in thin]) for name in names]


Found = tuple[str, Floats] | None


def _gemm(gpu: Gpu, rows: Sequence[Row], bits: str) -> Found:
    rows = [row for row in rows if min(int(row["n"]), int(row["k"])) >= 512]  # noqa: PLR2004
    rows = [row for row in rows if int(row["n"]) * int(row["k"]) <= 3e8]  # noqa: PLR2004
    if not rows or bits == "4":
        return None
    m, n, k, ms = _columns(rows, "m", "n", "k", "latency")
    size = 2.0 if bits == "16" else 1.0
    done = 2 * m * n * k / (gpu.flops_bf16 if bits == "16" else gpu.flops_fp8)
    moved = (size * n * k + size * m * k + 2 * m * n) / gpu.bandwidth
    quantised = 2 * m * k / gpu.bandwidth

    def residuals(x: Floats) -> Floats:
        floor, memory, compute, knee = np.exp(x[:4])
        knee += 1
        busy = ((moved / memory) ** knee + (done / compute) ** knee) ** (1 / knee)
        extra = np.exp(x[4]) * quantised if bits == "8" else 0.0
        return _logs((floor + busy + extra) / (ms * _MS))

    start = [np.log(4e-6), -0.2, -0.3, 0.5] + ([0.0] if bits == "8" else [])
    found = np.exp(minimise(residuals, start))
    found[3] += 1
    return f"gemm{bits}", found


def _decode(gpu: Gpu, rows: Sequence[Row], bits: str) -> Found:
    rows = [row for row in rows if _is_plain(row) and int(row["step"]) >= 32]  # noqa: PLR2004
    rows = [row for row in rows if int(row["num_key_value_heads"]) * 2 <= int(row["num_heads"])]
    if not rows or bits != "16":
        return None
    names = ("batch_size", "num_heads", "num_key_value_heads", "step", "latency")
    batch, heads, kv_heads, context, ms = _columns(rows, *names)
    moved = batch * context * kv_heads * 128 * 2 * 2 / gpu.bandwidth
    done = 4 * batch * context * heads * 128 / gpu.flops_bf16

    def residuals(x: Floats) -> Floats:
        floor, memory, compute, seq = np.exp(x)
        busy = np.hypot(moved / memory, done / compute) + batch * seq
        return _logs((floor + busy) / (ms * _MS))

    return "decode", np.exp(minimise(residuals, [np.log(5e-6), -0.3, -2, np.log(1e-8)]))


def _prefill(gpu: Gpu, rows: Sequence[Row], bits: str) -> Found:
    rows = [row for row in rows if _is_plain(row) and int(row["isl"]) >= 64]  # noqa: PLR2004
    if not rows or bits != "16":
        return None
    batch, heads, length, ms = _columns(rows, "batch_size", "num_heads", "isl", "latency")
    done = 2 * batch * length**2 * heads * 128 / gpu.flops_bf16

    def residuals(x: Floats) -> Floats:
        floor, compute, half = np.exp(x)
        return _logs((floor + done / compute * (1 + half / length)) / (ms * _MS))

    return "prefill", np.exp(minimise(residuals, [np.log(1e-5), -0.6, 6]))


def _experts(gpu: Gpu, rows: Sequence[Row], bits: str) -> Found:
    if not rows:
        return None
    names = ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts")
    m, hidden, inter, active, experts, tp, ep, ms = _columns(
        rows, *names, "moe_tp_size", "moe_ep_size", "latency"
    )
    size = {"16": 2.0, "8": 1.0, "4": DTYPE_BYTES["fp4"]}[bits]
    flops = {"16": gpu.flops_bf16, "8": gpu.flops_fp8, "4": gpu.flops_fp4}[bits]
    awake = experts * -np.expm1(m * np.log1p(-active / experts)) / ep
    one = 3 * hidden * inter / tp
    traffic = m * active / ep * (2 * hidden + 3 * inter / tp) * 2
    moved = (awake * one * size + traffic) / gpu.bandwidth
    done = 2 * m * active / ep * one / flops

    rows_each, columns_each = m * active / ep / awake, inter / tp

    def residuals(x: Floats) -> Floats:
        floor, memory, compute, half_rows, half_columns = np.exp(x)
        slow = (1 + half_rows / rows_each) * (1 + half_columns / columns_each)
        return _logs((floor + np.hypot(moved / memory, done / compute * slow)) / (ms * _MS))

    start = [np.log(2e-5), -0.3, -0.6, 3.0, 4.0]
    return f"experts{bits}", np.exp(minimise(residuals, start, turn=0.1))


def _collective(gpu: Gpu, rows: Sequence[Row], bits: str) -> Found:
    rows = [row for row in rows if row.get("backend", "vllm_graph") == "vllm_graph"]
    if not rows or bits != "16":
        return None
    peers, numbers, ms = _columns(rows, "num_gpus", "message_size", "latency")
    link = gpu.link or gpu.pcie / 2
    moved = 2 * (peers - 1) / peers * numbers * 2 / link

    def residuals(x: Floats) -> Floats:
        floor, hop, share = np.exp(x)
        return _logs((floor + hop * np.log2(peers) + moved / share) / (ms * _MS))

    return "collective", np.exp(minimise(residuals, [np.log(3e-6), np.log(1e-6), -0.4]))


def _logs(ratio: Floats) -> Floats:
    logs: Floats = np.log(ratio)
    return logs


def _is_plain(row: Row) -> bool:
    """Return whether a timing is of whole attention with heads of 128 in 16 bits."""
    return (
        row.get("head_dim", "128") == "128"
        and row.get("window_size", "0") == "0"
        and row.get("attn_dtype", "bfloat16") == "bfloat16"
    )


_FITTERS: Final[Mapping[str, Callable[[Gpu, Sequence[Row], str], Found]]] = {
    "gemm": _gemm,
    "decode": _decode,
    "prefill": _prefill,
    "experts": _experts,
    "collective": _collective,
}
