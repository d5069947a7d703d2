"""Which GPUs, models and engines are known, with where each fact is from.

A model that is not listed is read from the `config.json` that lies beside its weights.
"""

import csv
import functools
import importlib.resources
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from opentela.core.errors import UsageError
from opentela.placer.shapes import Gpu, Model

T = TypeVar("T")

_TERA: Final = 1e12
_GIGA: Final = 1e9


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """How an inference engine of one age schedules and reserves; its speed is a matter of the fit.

    Attributes:
        family: Engines of one family share what little is known of each.
        generation: The year in which it was current; engines of a year share what all had learnt.
        memory_share: Share of the GPU's memory that weights, activations and KV may take.
        reserve_gib: Memory of each GPU for activations, CUDA graphs and the context.
        batch_max: Sequences that run at once.
        batched_tokens_max: Tokens of one step.
        reserves_whole: A request is let in only if its whole answer has KV blocks; otherwise
            blocks are handed out as it grows, and the youngest is preempted when none are left.
        block_tokens: Tokens of one KV block.
    """

    id: str
    family: str
    generation: str
    memory_share: float = 0.9
    reserve_gib: float = 3.0
    batch_max: int = 256
    batched_tokens_max: int = 8192
    reserves_whole: bool = False
    block_tokens: int = 16
    source: str = ""


@functools.cache
def gpus() -> Mapping[str, Gpu]:
    """Return every GPU by its id."""
    return MappingProxyType({row["id"]: _gpu(row) for row in _rows("gpus.csv")})


@functools.cache
def models() -> Mapping[str, Model]:
    """Return every model that is listed by its id."""
    rows = _rows("models.csv")
    return MappingProxyType({row["id"]: msgspec.convert(row, Model, strict=False) for row in rows})


@functools.cache
def engines() -> Mapping[str, Engine]:
    """Return every engine by its id."""
    rows = _rows("engines.csv")
    return MappingProxyType({row["id"]: msgspec.convert(row, Engine, strict=False) for row in rows})


def gpu(name: str) -> Gpu:
    """Return the GPU of that id, or say which there are."""
    return _known("GPU", name, gpus())


def model(name: str) -> Model:
    """Return the model of that id or Hugging Face id, or say which there are."""
    by_hf = {one.hf_id.lower(): one for one in models().values()}
    return by_hf.get(name.lower()) or _known("model", name, models())


def engine(name: str) -> Engine:
    """Return the engine of that id, or say which there are."""
    return _known("engine", name, engines())


def model_from_hf_config(config: Mapping[str, Any], *, id: str) -> Model:  # noqa: A002 - the field
    """Return the model that a Hugging Face `config.json` describes.

    Raises:
        UsageError: If a field that nothing can stand in for is missing or no number.
    """
    text = config.get("text_config", config)
    heads = _number(text, "num_attention_heads", "n_head")
    hidden = _number(text, "hidden_size", "n_embd", "d_model")
    experts = _number(text, "num_local_experts", "n_routed_experts", "num_experts", default=0)
    layers = _number(text, "num_hidden_layers", "n_layer")
    ffn = _number(text, "intermediate_size", "ffn_dim", "n_inner", default=4 * hidden)
    return Model(
        id=id,
        hf_id=str(config.get("_name_or_path", "")),
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=_kv_heads(text, heads),
        head_dim=_number(text, "head_dim", default=0) or hidden // heads,
        ffn=ffn,
        gated=_is_gated(text),
        vocab=_number(text, "vocab_size"),
        tied=bool(text.get("tie_word_embeddings", False)),
        context_max=_number(text, "max_position_embeddings", "n_positions", default=0),
        experts=experts,
        experts_active=_number(text, "num_experts_per_tok", "experts_per_token", default=0)
        if experts
        else 0,
        expert_ffn=_number(text, "moe_intermediate_size", default=ffn) if experts else 0,
        experts_shared=_number(text, "n_shared_experts", default=0) if experts else 0,
        dense_layers=_number(text, "first_k_dense_replace", default=0) if experts else 0,
        attention=_attention(text, heads),
        **_window(text),
        source="config.json",
    )


_UNGATED: Final = frozenset(
    {"opt", "bloom", "gpt_neox", "gpt2", "gpt_bigcode", "falcon", "apertus"}
)
"""Model types whose MLP has one up projection; all others gate it with a second."""


def _is_gated(config: Mapping[str, Any]) -> bool:
    return config.get("model_type") not in _UNGATED


def _kv_heads(config: Mapping[str, Any], heads: int) -> int:
    if config.get("multi_query"):
        return 1
    return _number(config, "num_key_value_heads", "num_kv_heads", default=heads)


def _attention(config: Mapping[str, Any], heads: int) -> str:
    if config.get("kv_lora_rank"):
        return "mla"
    if config.get("linear_num_value_heads"):
        return "hybrid_gdn"
    kv_heads = _kv_heads(config, heads)
    return {heads: "mha", 1: "mqa"}.get(kv_heads, "gqa")


def _window(config: Mapping[str, Any]) -> dict[str, int]:
    """Return which layers see a window only."""
    kinds = config.get("layer_types") or []
    window = config.get("sliding_window") or 0
    if config.get("linear_num_value_heads"):
        return {"full_attention_every": _number(config, "full_attention_interval", default=4)}
    if not window or config.get("use_sliding_window") is False:
        return {}
    full = sum(kind == "full_attention" for kind in kinds)
    every = config.get("sliding_window_pattern") or (round(len(kinds) / full) if full else 0)
    return {"window": window, "full_attention_every": int(every)}


def _number(config: Mapping[str, Any], *names: str, default: int | None = None) -> int:
    for name in names:
        value = config.get(name)
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise UsageError(f"config.json: {name} must be a whole number, not {value!r}")
            return value
    if default is None:
        raise UsageError(f"config.json: {names[0]} is missing; give the model's own config.json")
    return default


def _gpu(row: Mapping[str, str]) -> Gpu:
    return Gpu(
        id=row["id"],
        name=row["name"],
        vendor=row["vendor"],
        arch=row["arch"],
        memory_gib=float(row["memory_gib"]),
        bandwidth=float(row["bandwidth_gbs"]) * _GIGA,
        flops_bf16=float(row["bf16_tflops"]) * _TERA,
        flops_fp8=float(row["fp8_tflops"]) * _TERA,
        flops_int8=float(row["int8_tops"]) * _TERA,
        flops_fp4=float(row["fp4_tflops"]) * _TERA,
        link=float(row["link_gbs"]) * _GIGA,
        link_kind=row["link"],
        pcie=float(row["pcie_gbs"]) * _GIGA,
        gpus_per_node=int(row["gpus_per_node"]),
        price_usd_h=float(row["price_usd_h"]),
        watts=float(row["watts"]),
        source=row["source"],
    )


def _known(kind: str, name: str, known: Mapping[str, T]) -> T:
    try:
        return known[name]
    except KeyError:
        # Not by any part: a GH200 is no H200.
        alike = [one for one in known if name and one.startswith(name.lower())]
        told = f"did you mean {' or '.join(alike)}?" if alike else f"known are: {', '.join(known)}"
        raise UsageError(f"{kind} {name!r} is not known; {told}") from None


def _rows(name: str) -> list[dict[str, str]]:
    text = importlib.resources.files("opentela.placer").joinpath("data", name).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))
