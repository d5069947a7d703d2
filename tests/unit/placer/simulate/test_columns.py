"""How shapes become columns."""

import numpy as np
import pytest
from tests.unit.placer.parts import shape

from opentela.placer.fit import COMPONENTS, shipped
from opentela.placer.simulate import columns


def test_every_shape_has_a_row_and_equal_ones_the_same() -> None:
    """Rows come in the order of the shapes."""
    c, z = columns.of([shape(), shape(tp=2), shape()], shipped())
    assert c.tp.tolist() == [[1], [2], [1]]
    assert z.shape == (3, len(COMPONENTS))
    assert (z[0] == z[2]).all()
    assert c.gemm16.shape == (3, 1, 5)


@pytest.mark.parametrize(
    ("gpu", "w_dtype", "bits"),
    [
        ("h100-80g-sxm", "bf16", "16"),
        ("h100-80g-sxm", "fp8", "8"),
        ("a100-80g-sxm", "fp8", "16"),
        ("a100-80g-sxm", "int8", "8"),
        ("b200-180g-sxm", "fp4", "4"),
        ("h100-80g-sxm", "fp4", "16"),
        ("h100-80g-sxm", "int4", "16"),
    ],
)
def test_weights_are_multiplied_as_the_gpu_can(gpu: str, w_dtype: str, bits: str) -> None:
    """A format that the GPU has no arithmetic for saves memory only."""
    assert columns.bytes_class(shape(gpu=gpu, w_dtype=w_dtype)) == bits


def test_a_bridge_joins_two_gpus_only() -> None:
    """Beyond them, and where it may or may not be fitted, it is PCIe."""
    pair, four = (columns.link_bandwidth(shape(gpu="h100-94g-nvl").gpu, tp) for tp in (2, 4))
    assert pair > four
    assert columns.link_bandwidth(shape(gpu="a100-80g-pcie").gpu, 2) < 16e9


def test_without_a_link_pcie_is_shared_by_how_many_there_are() -> None:
    """Four reach half of it, eight behind two processors less."""
    four, eight = (columns.link_bandwidth(shape(gpu="l40s-48g").gpu, tp) for tp in (4, 8))
    assert four == pytest.approx(16e9)
    assert eight < four


def test_each_copy_of_attention_has_its_own_limits() -> None:
    """Unless the shape sets them for the whole replica."""
    mixture = "qwen3-30b-a3b"
    whole, dealt, limited = (
        columns.of([one], shipped())[0].batch_max[0, 0]
        for one in (
            shape(mixture),
            shape(mixture, tp=1, ep=4),
            shape(mixture, tp=1, ep=4, max_batch=64),
        )
    )
    assert (dealt, limited) == (4 * whole, 64)


def test_a_width_that_was_not_measured_borrows_from_the_next_wider() -> None:
    """Four bits on a GPU whose four-bit products were not timed."""
    c, _ = columns.of([shape(gpu="b200-180g-sxm", w_dtype="fp4")], shipped())
    assert np.isfinite(c.gemm_other).all()
    assert (c.gemm_other[..., :4] > 0).all()
