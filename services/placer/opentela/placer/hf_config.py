"""Reads the shape of a model from the `config.json` that lies beside its weights.

What a field left out means is a matter of the family. What would be counted wrongly is refused: a
model that turns out twice as large as it was planned for does not start at all.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentela.core.errors import UsageError
from opentela.placer.shapes import Model
from opentela.placer.simulate.memory import MLA_KV_RANK, MLA_NOPE, MLA_ROPE, MLA_V

Config = Mapping[str, Any]

NUMBER_MAX: Final = 1 << 31
"""Of anything that a shape counts."""
_PARTS: Final = ("text_config", "llm_config", "language_config", "thinker_config")
"""Where models of several senses describe the one that writes."""
_UNGATED: Final = frozenset(
    {"opt", "bloom", "gpt_neox", "gpt2", "gpt_bigcode", "gptj", "falcon", "apertus", "phi",
     "starcoder2", "nemotron"}
)  # fmt: skip
"""Model types whose MLP has one up projection; all others gate it with a second."""
_GEMMA: Final = {"head_dim": 256, "tie_word_embeddings": True}
_TIED: Final = {"tie_word_embeddings": True}
_LEFT_OUT: Final[Mapping[str, Config]] = {
    "gemma": _GEMMA,
    "gemma2": {**_GEMMA, "vocab_size": 256000, "sliding_window_pattern": 2},
    "gemma3_text": {
        **_GEMMA,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
        "sliding_window_pattern": 6,
    },
    **dict.fromkeys(("gpt2", "opt", "bloom", "gpt_bigcode", "falcon", "cohere", "cohere2"), _TIED),
}
"""By model type: what it means that a field is left out, if that is not what it means to most."""
_STATEFUL: Final = (
    "mamba_d_state", "mamba_d_ssm", "ssm_cfg", "ssm_state_size", "state_size", "time_step_rank",
    "hybrid_override_pattern", "attn_layer_period", "layers_block_type", "linear_attn_config",
    "attn_type_list", "lru_width", "conv_L_cache",
)  # fmt: skip
"""Fields of models that keep a state instead of a cache, in ways that are not simulated."""
_UNEVEN: Final = ("block_configs", "layer_wise_attention")
"""Fields of models whose layers differ from one another."""
_KINDS: Final = frozenset(
    {"full_attention", "sliding_attention", "chunked_attention", "linear_attention"}
)
_EXPERTS: Final = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
_ACTIVE: Final = ("num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_k")
_BLOCKS: Final = frozenset({"deepseek_v3", "qwen3", "qwen3_moe", "qwen3_next"})
"""Model types whose makers publish FP8 weights that are scaled block by block."""
_METHODS: Final = {
    "fp8": "fp8",
    "fbgemm_fp8": "fp8",
    "mxfp4": "mxfp4",
    "nvfp4": "fp4",
    "int8": "int8",
}


def model(config: Config, *, id: str) -> Model:  # noqa: A002 - the field
    """Return the model that *config* describes.

    Raises:
        UsageError: A field that nothing can stand in for is missing or no number, or the model is
            of a kind that is not simulated.
    """
    text = _written(config)
    _refuse(text)
    heads = _number(text, "num_attention_heads", "n_head")
    hidden = _number(text, "hidden_size", "n_embd", "d_model")
    kv_heads = _kv_heads(text, heads)
    if heads % kv_heads:
        raise UsageError(f"config.json: {heads} heads cannot share {kv_heads} key-value heads")
    return Model(
        id=id,
        hf_id=str(config.get("_name_or_path", "")),
        layers=_number(text, "num_hidden_layers", "n_layer"),
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=_number(text, "head_dim", default=0) or _head_dim(text, hidden, heads),
        gated=text.get("model_type") not in _UNGATED,
        vocab=_number(text, "vocab_size"),
        tied=bool(text.get("tie_word_embeddings", False)),
        context_max=_number(text, "max_position_embeddings", "n_positions", default=0),
        attention=_attention(text, heads, kv_heads),
        **_window(text),
        **_experts(text, hidden),
        fp8_blocks=text.get("model_type") in _BLOCKS,
        source="config.json",
    )


def stored_as(config: Config) -> str:
    """Return how the weights beside *config* are stored, a key of `DTYPE_BYTES`.

    Raises:
        UsageError: In a way that nobody knows.
    """
    given = config.get("quantization_config") or _written(config).get("quantization_config")
    if not given:
        return "bf16"
    said = given if isinstance(given, Mapping) else {}
    method = str(said.get("quant_method", "")).lower()
    bits = said.get("bits") or said.get("w_bit") or _bits(said)
    if method in {"gptq", "awq", "compressed-tensors", "auto-round", "autoround", "bitsandbytes"}:
        weights = _weights(said)
        kind = "fp" if weights.get("type") == "float" else "int"
        method = f"{kind}{bits}"
    elif method == "modelopt":
        method = str(said.get("quant_algo", "")).lower()
    found = {**_METHODS, "int4": "int4", "fp4": "fp4"}.get(method)
    if found is None:
        raise UsageError(
            f"config.json: quantization_config of {method or 'no method'} is unknown",
            remedy="say with w_dtype how weights are stored",
        )
    return found


def _weights(said: Config) -> Config:
    groups = said.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    found = first.get("weights") if isinstance(first, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _bits(said: Config) -> object:
    if said.get("load_in_4bit"):
        return 4
    return 8 if said.get("load_in_8bit") else _weights(said).get("num_bits", "")


def _written(config: Config) -> Config:
    """Return the part of *config* that writes, with what is left out there."""
    text = config
    while True:
        inner = next((part for name in _PARTS if isinstance(part := text.get(name), Mapping)), None)
        if inner is None:
            break
        outer = {key: text[key] for key in ("vocab_size", "tie_word_embeddings") if key in text}
        text = {**outer, **inner}
    kind = text.get("model_type")
    standing_in = _LEFT_OUT.get(kind, {}) if isinstance(kind, str) else {}
    return {**standing_in, **{key: value for key, value in text.items() if value is not None}}


def _refuse(text: Config) -> None:
    kind = text.get("model_type", "")
    layer_types = text.get("layer_types") or ()
    if not isinstance(layer_types, Sequence) or isinstance(layer_types, str):
        raise UsageError("config.json: layer_types is no list; give the model's own config.json")
    odd = next((one for one in layer_types if one not in _KINDS), None)
    stateful = next((name for name in _STATEFUL if text.get(name)), None)
    is_linear = "linear_attention" in layer_types and not text.get("linear_num_value_heads")
    fault = ""
    if text.get("is_encoder_decoder"):
        fault = "it encodes before it decodes"
    elif odd is not None or is_linear:
        fault = f"layers of {odd or 'linear_attention'} are not simulated"
    elif stateful is not None:
        fault = f"a state ({stateful}) is not simulated"
    elif uneven := next((name for name in _UNEVEN if text.get(name)), None):
        fault = f"its layers differ from one another ({uneven})"
    if fault:
        raise UsageError(
            f"config.json: {kind or 'the model'} cannot be planned for: {fault}",
            remedy="measure it, and give its [[capacity]] or capacity_rps",
        )


def _head_dim(text: Config, hidden: int, heads: int) -> int:
    return MLA_V if text.get("kv_lora_rank") else max(1, hidden // heads)


def _kv_heads(text: Config, heads: int) -> int:
    grouped = _number(text, "num_key_value_heads", "num_kv_heads", default=0)
    if text.get("multi_query") and not text.get("new_decoder_architecture"):
        return 1
    return grouped or heads


def _attention(text: Config, heads: int, kv_heads: int) -> str:
    if text.get("kv_lora_rank"):
        for name, only in (
            ("kv_lora_rank", MLA_KV_RANK), ("qk_rope_head_dim", MLA_ROPE),
            ("qk_nope_head_dim", MLA_NOPE), ("v_head_dim", MLA_V),
        ):  # fmt: skip
            if _number(text, name, default=only) != only:
                raise UsageError(
                    f"config.json: {name} = {text[name]}: of latent attention only {only} is known",
                    remedy="measure it, and give its [[capacity]] or capacity_rps",
                )
        return "mla"
    if text.get("linear_num_value_heads"):
        return "hybrid_gdn"
    return {heads: "mha", 1: "mqa"}.get(kv_heads, "gqa")


def _window(text: Config) -> dict[str, int]:
    """Return which layers see a window only."""
    if text.get("linear_num_value_heads"):
        return {"full_attention_every": _number(text, "full_attention_interval", default=4)}
    window = _number(text, "sliding_window", default=0)
    if not window or text.get("use_sliding_window") is False:
        return {}
    kinds = text.get("layer_types") or ()
    full = sum(kind == "full_attention" for kind in kinds)
    listed = round(len(kinds) / full) if full else 0
    every = listed if kinds else _number(text, "sliding_window_pattern", default=0)
    return {"window": window, "full_attention_every": every}


def _experts(text: Config, hidden: int) -> dict[str, int]:
    """Return the sizes of the MLPs, of experts where there are some."""
    ffn = _number(
        text, "intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", default=4 * hidden
    )
    experts = _number(text, *_EXPERTS, default=0)
    if experts <= 1:
        _refuse_unknown_experts(text)
        return {"ffn": ffn}
    layers = _number(text, "num_hidden_layers", "n_layer")
    inner = _number(text, "moe_intermediate_size", default=ffn)
    shared = _number(text, "n_shared_experts", "moe_num_shared_experts", default=0)
    if wide := _number(text, "shared_expert_intermediate_size", default=0):
        shared = max(1, round(wide / inner))
    active = _number(text, *_ACTIVE)
    if active > experts:
        raise UsageError(f"config.json: {active} of {experts} experts cannot be active")
    if text.get("model_type") in {"llama4_text", "llama4"}:
        # Its dense layers are larger, and each of the others has one shared expert.
        ffn, shared = _number(text, "intermediate_size_mlp", default=ffn), 1
    return {
        "ffn": ffn,
        "experts": experts,
        "experts_active": active,
        "expert_ffn": inner,
        "experts_shared": shared,
        "dense_layers": _dense_layers(text, layers),
    }


def _dense_layers(text: Config, layers: int) -> int:
    """Return how many layers have no experts."""
    first = _number(text, "first_k_dense_replace", "moe_layer_start_index", default=0)
    step = _number(text, "interleave_moe_layer_step", "decoder_sparse_step", default=1)
    chosen = text.get("moe_layer_freq", 1)
    if isinstance(chosen, list):
        return sum(not one for one in chosen)
    every = max(1, _number(text, "moe_layer_freq", default=1))
    listed = text.get("mlp_only_layers") or ()
    return sum(
        number < first or number % every or (number + 1) % max(step, 1) or number in listed
        for number in range(layers)
    )


def _refuse_unknown_experts(text: Config) -> None:
    for name, value in text.items():
        if "expert" in name and isinstance(value, int) and value > 1 and name not in _ACTIVE:
            raise UsageError(
                f"config.json: what {name} = {value} means is unknown",
                remedy="measure it, and give its [[capacity]] or capacity_rps",
            )


def _number(text: Config, *names: str, default: int | None = None) -> int:
    for name in names:
        value = text.get(name)
        if value is None:
            continue
        least = 1 if default is None else 0
        if isinstance(value, bool) or not isinstance(value, int):
            raise UsageError(f"config.json: {name} must be a whole number, not {_short(value)}")
        if not least <= value <= NUMBER_MAX:
            raise UsageError(
                f"config.json: {name} = {_short(value)} is not from {least} to {NUMBER_MAX}"
            )
        return value
    if default is None:
        raise UsageError(f"config.json: {names[0]} is missing; give the model's own config.json")
    return default


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"  # noqa: PLR2004 - a line stays a line
