"""Agents name GPUs as drivers do; the catalogue as data sheets do."""

import pytest

from opentela.placer.live.hardware import gpu_of


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100-80g-sxm"),
        ("NVIDIA A100-PCIE-40GB", ""),
        ("NVIDIA H100 80GB HBM3", "h100-80g-sxm"),
        ("NVIDIA GH200 480GB", "gh200-96g"),
        ("NVIDIA GeForce RTX 3090", "rtx3090-24g"),
        ("NVIDIA L40S", "l40s-48g"),
        ("Tesla T4", "t4-16g"),
        ("AMD Instinct MI300X", "mi300x-192g"),
        ("h200-141g-sxm", "h200-141g-sxm"),
        ("cpu", ""),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", ""),
    ],
)
def test_a_gpu_is_known_by_its_drivers_name(said: str, meant: str) -> None:
    """What is not sure is not guessed: a slice is no whole GPU."""
    assert gpu_of(said, {}) == meant


def test_the_operator_knows_better() -> None:
    """A name that stands in the configuration is looked up there alone."""
    assert gpu_of("cpu", {"cpu": "l4-24g"}) == "l4-24g"
