"""Facts of the catalogues, and models read from a config.json."""

from typing import Any

import pytest

from opentela.core.errors import UsageError
from opentela.placer import catalogue
from opentela.placer.simulate import memory

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}
PUBLISHED_BILLIONS = {
    "llama-2-7b": 6.74,
    "llama-3.1-405b": 405.85,
    "mixtral-8x7b": 46.7,
    "deepseek-v3": 671.0,
    "gpt-oss-120b": 116.8,
    "apertus-70b": 70.6,
    "bloom-176b": 176.2,
    "qwen3-235b-a22b": 235.1,
}


@pytest.mark.parametrize(("name", "billions"), PUBLISHED_BILLIONS.items())
def test_shapes_give_the_published_parameter_count(name: str, billions: float) -> None:
    """A wrong column of a shape shows in the number of its parameters."""
    assert memory.parameters(catalogue.model(name)) / 1e9 == pytest.approx(billions, rel=0.005)


def test_every_row_says_where_it_is_from() -> None:
    """A number without a source cannot be checked."""
    gpus, models, engines = catalogue.gpus(), catalogue.models(), catalogue.engines()
    assert [row.id for row in gpus.values() if not row.source] == []
    assert [row.id for row in models.values() if not row.source] == []
    assert [row.id for row in engines.values() if not row.source] == []


def test_a_model_is_found_by_its_hugging_face_name() -> None:
    """That is the name under which engines serve it."""
    found = catalogue.model("meta-llama/Llama-3.1-8B-Instruct")
    assert found == catalogue.model("llama-3.1-8b")


@pytest.mark.parametrize("lookup", [catalogue.gpu, catalogue.model, catalogue.engine])
def test_an_unknown_name_is_answered_with_the_known_ones(lookup: Any) -> None:
    """The remedy stands in the message."""
    with pytest.raises(UsageError, match=r"'x9' is not known; known are: \w"):
        lookup("x9")


def test_a_name_that_is_nearly_right_is_answered_with_those_like_it() -> None:
    """People know a GPU by less than its whole name."""
    with pytest.raises(UsageError, match=r"'H200' .* mean h200-141g-sxm or h200-141g-nvl\?"):
        catalogue.gpu("H200")


def test_a_config_json_gives_the_shape_that_is_listed() -> None:
    """Both ways into the catalogue agree."""
    read = catalogue.model_from_hf_config(LLAMA, id="m")
    listed = catalogue.model("llama-3.1-8b")
    assert memory.parameters(read) == memory.parameters(listed)
    assert (read.attention, read.full_attention_every) == ("gqa", 1)


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
    read = catalogue.model_from_hf_config(config, id="m")
    assert (read.experts, read.experts_active, read.expert_ffn) == (256, 8, 2048)
    assert (read.experts_shared, read.dense_layers, read.attention) == (1, 3, "mla")


def test_a_config_json_of_windowed_layers_gives_how_many_see_all() -> None:
    """Layer types count, and a window that is switched off is none."""
    kinds = ["sliding_attention", "full_attention"] * 16
    config = LLAMA | {"sliding_window": 128, "layer_types": kinds}
    read = catalogue.model_from_hf_config(config, id="m")
    assert (read.window, read.full_attention_every) == (128, 2)
    off = catalogue.model_from_hf_config(config | {"use_sliding_window": False}, id="m")
    assert (off.window, off.full_attention_every) == (0, 1)
    linear = catalogue.model_from_hf_config(LLAMA | {"linear_num_value_heads": 32}, id="m")
    assert (linear.attention, linear.full_attention_every) == ("hybrid_gdn", 4)


def test_a_config_json_of_one_kv_head_or_no_gate_is_read() -> None:
    """Older models write both otherwise."""
    read = catalogue.model_from_hf_config(
        LLAMA | {"multi_query": True, "model_type": "gpt_bigcode"}, id="m"
    )
    assert (read.kv_heads, read.attention, read.gated) == (1, "mqa", False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"num_hidden_layers": "32"}, "num_hidden_layers must be a whole number, not '32'"),
        ({"vocab_size": True}, "vocab_size must be a whole number"),
    ],
)
def test_a_bad_config_json_is_told_by_its_field(change: dict[str, Any], message: str) -> None:
    """One line that names the field."""
    with pytest.raises(UsageError, match=message):
        catalogue.model_from_hf_config(LLAMA | change, id="m")
