"""What is known of measurements beyond what their columns hold, each with where it is from."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

Row = Mapping[str, str]

_REQUESTS: Final[Mapping[tuple[int, int], int]] = {
    (128, 128): 30000,
    (128, 2048): 3000,
    (128, 4096): 1500,
    (500, 2000): 3000,
    (1000, 1000): 3000,
    (1000, 2000): 1500,
    (2048, 128): 3000,
    (2048, 2048): 1500,
    (5000, 500): 1500,
    (20000, 2000): 1000,
}
"""Requests of each benchmark of TensorRT-LLM by the lengths of prompt and answer: no more can run
at once (its `perf-overview.md`, "Preparing a Dataset", of 0.15 to 1.0)."""

_DATED: Final = re.compile(r"\b20\d\d_\d\d_\d\d_")
"""How measurements are named that stem from InferenceX, by the day they were taken."""
_TRUST: Final[Mapping[str, float]] = {"conc_ne_batch": 0.1}
"""How much a measurement of that quality counts: how many requests ran is not sure."""


class Division(NamedTuple):
    """How a model is divided: GPUs that share a layer, and GPUs among which experts are dealt."""

    tp: int
    ep: int


def division(row: Row, tp: int, ep: int, *, is_mixture: bool) -> Division:
    """Return how the model of a measurement was divided.

    TensorRT-LLM 1.0 measured mixtures with `enable_attention_dp`: each GPU holds attention whole,
    for requests of its own, and a share of the experts (`perf-overview.md`, "For MoE models"). The
    TP of its tables is the number of GPUs.
    """
    if is_mixture and row["source"] == "trtllm_docs" and row["engine_ver"] == "1.0":
        return Division(1, max(tp, ep))
    return Division(tp, ep)


def stored(row: Row) -> str:
    """Return how weights were stored: gpt-oss comes in MXFP4, never in FP8 (its `config.json`)."""
    is_wrong = row["model"].startswith("gpt-oss") and row["w_dtype"] == "fp8"
    return "mxfp4" if is_wrong else row["w_dtype"]


def kv_stored(row: Row) -> str:
    """Return how the KV cache was stored where neither a column nor a default tells; else nothing.

    InferenceX gave every engine a cache in FP8 for Llama 70B and DeepSeek (its `benchmarks/*.sh`:
    `kv-cache-dtype: fp8`, `dtype: fp8`), and let gpt-oss keep 16 bits.
    """
    is_dump = "InferenceX" in row["engine_ver"] or _DATED.search(row["note"]) is not None
    is_narrow = row["model"] in {"llama-3.1-70b", "deepseek-v3"}
    return "fp8" if row["source"] == "aic_silicon" and is_dump and is_narrow else ""


def at_once(row: Row) -> str:
    """Return the cell of how many requests could run at most, empty where as many as fit."""
    if row["source"] == "trtllm_docs" and row["mode"] == "offline_inf_rate":
        lengths = int(float(row["in_len"])), int(float(row["out_len"]))
        return str(_REQUESTS.get(lengths, ""))
    return row["conc"]


def trust(quality: str) -> float:
    """Return how much a measurement counts beside others."""
    return _TRUST.get(quality, 1.0)
