"""Models read from a `config.json`: right numbers, or a refusal."""

from typing import Any

import pytest
from tests.unit.placer.hf_configs import LISTED, LLAMA, PUBLISHED

from opentela.core.errors import UsageError
from opentela.placer import catalogue, hf_config
from opentela.placer.shapes import Model
from opentela.placer.simulate import memory

SOURCES = ("id", "hf_id", "source")


def shape(model: Model) -> dict[str, Any]:
    """Return what *model* is like, whatever it is called."""
    return {name: getattr(model, name) for name in Model.__struct_fields__ if name not in SOURCES}


@pytest.mark.parametrize("name", LISTED)
def test_a_config_json_gives_the_shape_that_is_listed(name: str) -> None:
    """Both ways into the catalogue agree, whatever the file leaves out."""
    assert shape(hf_config.model(LISTED[name], id="m")) == shape(catalogue.model(name))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_config_json_gives_the_published_number_of_parameters(name: str) -> None:
    """Gates, experts that are shared, embeddings that are tied: each would be some per cent."""
    config, billions = PUBLISHED[name]
    read = hf_config.model(config, id="m")
    assert memory.parameters(read) / 1e9 == pytest.approx(billions, rel=0.01)


def test_a_config_json_of_a_mixture_gives_its_experts() -> None:
    """Experts, those active, and dense layers before them."""
    config = LLAMA | {
        "model_type": "deepseek_v3",
        "n_routed_experts": 256,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 2048,
        "n_shared_experts": 1,
        "first_k_dense_replace": 3,
        "kv_lora_rank": 512,
    }
    read = hf_config.model(config, id="m")
    assert (read.experts, read.experts_active, read.expert_ffn) == (256, 8, 2048)
    assert (read.experts_shared, read.dense_layers, read.attention) == (1, 3, "mla")


def test_a_config_json_of_windowed_layers_gives_how_many_see_all() -> None:
    """Layer types count, and a window that is switched off is none."""
    kinds = ["sliding_attention", "full_attention"] * 16
    config = LLAMA | {"sliding_window": 128, "layer_types": kinds}
    read = hf_config.model(config, id="m")
    assert (read.window, read.full_attention_every) == (128, 2)
    off = hf_config.model(config | {"use_sliding_window": False}, id="m")
    assert (off.window, off.full_attention_every) == (0, 1)
    linear = hf_config.model(LLAMA | {"linear_num_value_heads": 32}, id="m")
    assert (linear.attention, linear.full_attention_every) == ("hybrid_gdn", 4)


def test_a_config_json_of_one_kv_head_or_no_gate_is_read() -> None:
    """Older models write both otherwise."""
    read = hf_config.model(LLAMA | {"multi_query": True, "model_type": "gpt_bigcode"}, id="m")
    assert (read.kv_heads, read.attention, read.gated) == (1, "mqa", False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"num_hidden_layers": "32"}, "num_hidden_layers must be a whole number, not '32'"),
        ({"vocab_size": True}, "vocab_size must be a whole number"),
        ({"num_attention_heads": 0}, "num_attention_heads = 0 is not from 1 to"),
        ({"num_hidden_layers": 10**30}, "num_hidden_layers = 10000.* is not from 1 to"),
        ({"hidden_size": float("nan")}, "hidden_size must be a whole number, not nan"),
        ({"num_key_value_heads": 5}, "32 heads cannot share 5 key-value heads"),
        ({"num_local_experts": 8}, "num_experts_per_tok is missing"),
        ({"num_experts": 8, "num_experts_per_tok": 9}, "9 of 8 experts cannot be active"),
        ({"moe_expert_count": 8}, "what moe_expert_count = 8 means is unknown"),
        ({"kv_lora_rank": 256}, "kv_lora_rank = 256: of latent attention only 512 is known"),
        ({"layer_types": ["full_attention", "conv"]}, "llama cannot .*layers of conv are not"),
        ({"layer_types": ["linear_attention"]}, "layers of linear_attention are not"),
        ({"layer_types": "full"}, "layer_types is no list"),
        ({"mamba_d_state": 128}, r"a state \(mamba_d_state\) is not simulated"),
        ({"block_configs": [{}]}, "its layers differ"),
        ({"is_encoder_decoder": True}, "it encodes before it decodes"),
    ],
)
def test_a_bad_config_json_is_told_by_its_field(change: dict[str, Any], message: str) -> None:
    """One line that names the field."""
    with pytest.raises(UsageError, match=message):
        hf_config.model(LLAMA | change, id="m")


@pytest.mark.parametrize(
    ("quantisation", "stored"),
    [
        (None, "bf16"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "gptq", "bits": 4}, "int4"),
        ({"quant_method": "awq", "bits": 4}, "int4"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "fp4"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            "fp8",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}},
            },
            "int4",
        ),
    ],
)
def test_it_is_read_how_weights_are_stored(quantisation: Any, stored: str) -> None:
    """Also where the part that writes says it."""
    config = LLAMA | {"quantization_config": quantisation}
    assert hf_config.stored_as(config) == stored
    assert hf_config.stored_as({"text_config": config}) == stored


@pytest.mark.parametrize(
    "quantisation", [{"quant_method": "aqlm"}, {"quant_method": "gptq", "bits": 3}, {"x": 1}, 7]
)
def test_weights_that_are_stored_as_nobody_knows_are_told(quantisation: Any) -> None:
    """They would be taken for four times as large."""
    with pytest.raises(UsageError, match=r"quantization_config of .* is unknown"):
        hf_config.stored_as(LLAMA | {"quantization_config": quantisation})
