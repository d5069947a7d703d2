"""Names as drivers write them lead to the right row."""

import pytest

from opentela.router.policies.hardware import CPU_GBS, UNKNOWN_GBS, prior


@pytest.mark.parametrize(
    ("name", "gbs"),
    [
        ("NVIDIA H100 80GB HBM3", 3350),
        ("NVIDIA H100 PCIe", 2000),
        ("NVIDIA H100 NVL", 3938),
        ("NVIDIA GH200 480GB", 4000),
        ("NVIDIA GH200 144G HBM3e", 4900),
        ("NVIDIA H200", 4800),
        ("NVIDIA A100-SXM4-40GB", 1555),
        ("NVIDIA A100-SXM4-80GB", 2039),
        ("NVIDIA A100 80GB PCIe", 1935),
        ("NVIDIA RTX A6000", 768),
        ("NVIDIA L40S", 864),
        ("NVIDIA L4", 300),
        ("NVIDIA A10G", 600),
        ("Tesla T4", 320),
        ("NVIDIA GeForce RTX 4090", 1008),
        ("AMD Instinct MI300X", 5300),
        ("cpu", CPU_GBS),
        ("", UNKNOWN_GBS),
        ("Abacus 3000", UNKNOWN_GBS),
    ],
)
def test_a_name_has_its_bandwidth(name: str, gbs: float) -> None:
    """The more special row counts."""
    assert prior(name, 1) == gbs


def test_more_gpus_promise_more_but_not_in_proportion() -> None:
    """They wait for each other; none said is taken for one."""
    assert prior("NVIDIA L4", 0) == prior("NVIDIA L4", 1)
    assert 4 * prior("NVIDIA L4", 1) < prior("NVIDIA L4", 8) < 8 * prior("NVIDIA L4", 1)
