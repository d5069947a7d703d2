"""Curves of operators from timings of kernels."""

import gzip
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from opentela.placer import catalogue
from opentela.placer.calibrate import operators

GPU = catalogue.gpu("a100-80g-sxm")


def _write(folder: Path, name: str, header: str, rows: Iterable[tuple[float, ...]]) -> None:
    text = header + "\n" + "\n".join(",".join(f"{value:.6g}" for value in row) for row in rows)
    with gzip.open(folder / f"a100_sxm__x__vllm_1__{name}.csv.gz", "wt") as file:
        file.write(text + "\n")


def _gemms() -> Iterable[tuple[float, ...]]:
    for m in (1, 8, 64, 256, 1024, 8192):
        for n in (1024, 4096, 16384):
            moved = (n * 4096 + m * 4096 + m * n) * 2 / GPU.bandwidth / 0.8
            done = 2 * m * n * 4096 / GPU.flops_bf16 / 0.7
            yield m, n, 4096, (5e-6 + np.hypot(moved, done)) * 1e3


def _decodes() -> Iterable[tuple[float, ...]]:
    for batch in (1, 16, 128):
        for step in (64, 1024, 8192):
            moved = batch * step * 8 * 128 * 4 / GPU.bandwidth / 0.7
            yield batch, 32, 8, step, (1e-5 + moved) * 1e3


def test_the_parameters_that_made_the_timings_are_found(tmp_path: Path) -> None:
    """Floor, shares of bandwidth and arithmetic, and how both join."""
    _write(tmp_path, "gemm_perf", "m,n,k,latency", _gemms())
    header = "batch_size,num_heads,num_key_value_heads,step,latency"
    _write(tmp_path, "generation_attention_perf", header, _decodes())
    curves = operators.fit_all(tmp_path)["a100-80g-sxm"]
    assert curves["gemm16"] == pytest.approx((5e-6, 0.8, 0.7, 2.0), rel=0.05)
    assert curves["decode"][:2] == pytest.approx((1e-5, 0.7), rel=0.1)
    assert "experts16" not in curves


def test_every_architecture_of_the_catalogue_borrows_from_somebody() -> None:
    """A new GPU must not be without curves."""
    assert {gpu.arch for gpu in catalogue.gpus().values()} <= set(operators.DONORS)
    assert set(operators.DONORS.values()) <= set(operators.SYSTEMS.values())
