"""An offer tells the GPUs that the engine may use."""

import pytest

from opentela.supervisor import hardware
from opentela.supervisor.hardware import Hardware

TWO = ["NVIDIA H200", "NVIDIA A100"]


@pytest.mark.parametrize(
    ("devices", "models", "found"),
    [
        (None, [], Hardware("cpu", 0)),
        (None, TWO, Hardware("NVIDIA H200", 2)),
        ("", TWO, Hardware("cpu", 0)),
        ("-1", TWO, Hardware("cpu", 0)),
        ("NoDevFiles", TWO, Hardware("cpu", 0)),
        ("0", TWO, Hardware("NVIDIA H200", 1)),
        ("1", TWO, Hardware("NVIDIA A100", 1)),
        ("0, 1", TWO, Hardware("NVIDIA H200", 2)),
        ("7", TWO, Hardware("NVIDIA H200", 1)),
        ("GPU-8d5c,GPU-1f2e", TWO, Hardware("NVIDIA H200", 2)),
        ("MIG-41b0", TWO, Hardware("NVIDIA H200", 1)),
        ("0", [], Hardware("cpu", 0)),
    ],
)
def test_the_visible_devices_are_counted(
    devices: str | None, models: list[str], found: Hardware
) -> None:
    """By index, by UUID, by slice, or not at all."""
    assert hardware.visible(devices, models) == found


def test_this_host_can_be_asked() -> None:
    """Whatever it has, the answer is one kind and a number."""
    found = hardware.find({"CUDA_VISIBLE_DEVICES": ""})
    assert found == Hardware("cpu", 0)
    assert isinstance(hardware.installed(), list)
