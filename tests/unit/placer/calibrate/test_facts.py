"""What is known of measurements beyond their columns."""

import pytest

from opentela.placer.calibrate import facts

DOCS = {
    "source": "trtllm_docs",
    "engine_ver": "1.0",
    "mode": "offline_inf_rate",
    "model": "qwen3-30b-a3b",
    "w_dtype": "fp4",
    "in_len": "128",
    "out_len": "4096.0",
    "conc": "",
}


def test_mixtures_of_the_tables_hold_attention_once_a_gpu() -> None:
    """Their TP is how many GPUs deal out the experts; other models and sources are as they say."""
    assert facts.division(DOCS, 8, 1, is_mixture=True) == (1, 8)
    assert facts.division(DOCS, 8, 1, is_mixture=False) == (8, 1)
    assert facts.division({**DOCS, "engine_ver": "0.15.0"}, 8, 1, is_mixture=True) == (8, 1)
    assert facts.division({**DOCS, "source": "lab"}, 4, 2, is_mixture=True) == (4, 2)


@pytest.mark.parametrize(
    ("model", "named", "found"),
    [
        ("gpt-oss-120b", "fp8", "mxfp4"),
        ("gpt-oss-120b", "bf16", "bf16"),
        ("qwen3-8b", "fp8", "fp8"),
    ],
)
def test_gpt_oss_never_comes_in_fp8(model: str, named: str, found: str) -> None:
    """What such a table names is how it multiplies."""
    assert facts.stored({**DOCS, "model": model, "w_dtype": named}) == found


def test_no_more_run_at_once_than_there_are_requests() -> None:
    """Known of one source by its lengths; elsewhere the column says it."""
    assert facts.at_once(DOCS) == "1500"
    assert facts.at_once({**DOCS, "in_len": "77"}) == ""
    assert facts.at_once({**DOCS, "source": "lab", "conc": "9"}) == "9"


def test_a_measurement_of_unsure_load_counts_little() -> None:
    """All others count in full."""
    assert facts.trust("conc_ne_batch") < facts.trust("ok") == 1.0


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"engine_ver": "InferenceX 2025-10..2026-04"}, "fp8"),
        ({"note": "moe_ep=1; 2026_03_25_deepseek_r1_b200", "model": "deepseek-v3"}, "fp8"),
        ({"engine_ver": "InferenceX 2025-10..2026-04", "model": "gpt-oss-120b"}, ""),
        ({"engine_ver": "InferenceX 2025-10..2026-04", "source": "lab"}, ""),
        ({}, ""),
    ],
)
def test_a_benchmark_that_narrows_the_cache_is_known(more: dict[str, str], found: str) -> None:
    """By the version that its rows name, or by the day in their notes."""
    row = {"source": "aic_silicon", "engine_ver": "0.12.0", "note": "", "model": "llama-3.1-70b"}
    assert facts.kv_stored(row | more) == found
