"""Curves of operators from timings of kernels."""

import gzip
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from opentela.placer import catalogue
from opentela.placer.calibrate import operators

GPU = catalogue.gpu("a100-80g-sxm")


def _write(
    folder: Path,
    name: str,
    header: str,
    rows: Iterable[tuple[float, ...]],
    system: str = "a100_sxm",
) -> None:
    text = header + "\n" + "\n".join(",".join(f"{value:.6g}" for value in row) for row in rows)
    with gzip.open(folder / f"{system}__x__vllm_1__{name}.csv.gz", "wt") as file:
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


def _reduces(gpu: str, share: float) -> Iterable[tuple[float, ...]]:
    link = catalogue.gpu(gpu).link or catalogue.gpu(gpu).pcie / 2
    for peers in (2, 4, 8):
        for numbers in (1e3, 1e5, 1e7):
            moved = 2 * (peers - 1) / peers * numbers * 2 / link / share
            yield peers, numbers, (4e-6 + 2e-6 * np.log2(peers) + moved) * 1e3


def test_without_a_link_it_is_the_share_of_linked_ones_that_is_reached(tmp_path: Path) -> None:
    """What was timed is the host of one machine; only the latency is the GPU's own."""
    header = "num_gpus,message_size,latency"
    for system, gpu, share in (
        ("a100_sxm", "a100-80g-sxm", 0.6),
        ("l40s", "l40s-48g", 0.2),
    ):
        _write(tmp_path, "custom_allreduce_perf", header, _reduces(gpu, share), system)
    curves = operators.fit_all(tmp_path)
    assert curves["a100-80g-sxm"]["collective"][2] == pytest.approx(0.6, rel=0.01)
    assert curves["l40s-48g"]["collective"] == pytest.approx((4e-6, 2e-6, 0.6), rel=0.05)


def test_every_architecture_of_the_catalogue_borrows_from_somebody() -> None:
    """A new GPU must not be without curves."""
    assert {gpu.arch for gpu in catalogue.gpus().values()} <= set(operators.DONORS)
    assert set(operators.DONORS.values()) <= set(operators.SYSTEMS.values())
