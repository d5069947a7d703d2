"""What GPU tools print is understood, and only what we may use is counted."""

import pytest

from opentela.supervisor import gpus
from opentela.supervisor.gpus import AMD_VISIBLE, NVIDIA_VISIBLE, Gpu, Hardware

# The example of NVIDIA's MIG user guide, with a second GPU.
NVIDIA_SMI = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
  MIG 1g.5gb      Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 2g.10gb     Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb)
GPU 1: NVIDIA H200 (UUID: GPU-1f2e0000-0000-0000-0000-000000000001)
"""
# As printed by amd-smi of ROCm 7 and, without the outer object, of ROCm 6; shortened.
AMD_SMI = """\
{"gpu_data": [
  {"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X", "vendor_id": "0x1002",
    "asic_serial": "0x6F1F0A2B3C4D5E6F", "target_graphics_version": "gfx942"}},
  {"gpu": 1, "asic": {"market_name": "AMD Instinct MI300X", "asic_serial": "N/A"}}
]}"""
# As printed by rocm-smi of ROCm 5 and 6, which spell one key in two ways; shortened.
ROCM_SMI = """\
WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status

{"card1": {"Card series": "AMD INSTINCT MI250 (MCM) OAM AC MBA", "Card model": "0x0b0c"},
 "card0": {"Card Series": "AMD Instinct MI210", "Unique ID": "0x5E0F1A2B3C4D5E6F"},
 "system": {"Driver version": "6.8.5"}}"""

TWO = [Gpu(0, "NVIDIA H200"), Gpu(1, "NVIDIA A100")]


def test_nvidia_lists_gpus_and_slices() -> None:
    """A slice belongs to the GPU above it."""
    found = gpus.from_nvidia_smi(NVIDIA_SMI)
    assert [(gpu.number, gpu.shown) for gpu in found] == [
        (0, "NVIDIA A100-SXM4-40GB"),
        (0, "NVIDIA A100-SXM4-40GB MIG 1g.5gb"),
        (0, "NVIDIA A100-SXM4-40GB MIG 2g.10gb"),
        (1, "NVIDIA H200"),
    ]
    assert gpus.from_nvidia_smi("No devices found.\n") == []


def test_amd_is_understood_in_both_forms_of_the_new_tool() -> None:
    """Serial numbers are what its runtime takes for a UUID."""
    found = [
        Gpu(0, "AMD Instinct MI300X", "GPU-6f1f0a2b3c4d5e6f"),
        Gpu(1, "AMD Instinct MI300X"),
    ]
    assert gpus.from_amd_smi(AMD_SMI) == found
    older = AMD_SMI.removeprefix('{"gpu_data": ').removesuffix("}")
    assert gpus.from_amd_smi(older) == found
    assert gpus.from_amd_smi('{"gpu": 0, "asic": {"market_name": "AMD"}}') == [Gpu(0, "AMD")]


def test_amd_is_understood_in_both_spellings_of_the_old_tool() -> None:
    """Behind its warnings, in the order of the cards."""
    assert gpus.from_rocm_smi(ROCM_SMI) == [
        Gpu(0, "AMD Instinct MI210", "GPU-5e0f1a2b3c4d5e6f"),
        Gpu(1, "AMD INSTINCT MI250 (MCM) OAM AC MBA"),
    ]


@pytest.mark.parametrize("text", ["", "no json", "[", "{}", "[]", "[1]", '{"card0": 1}', "null"])
def test_what_is_no_answer_names_no_gpu(text: str) -> None:
    """A broken tool is no reason not to start."""
    assert gpus.from_amd_smi(text) == gpus.from_rocm_smi(text) == gpus.from_nvidia_smi(text) == []


@pytest.mark.parametrize(
    ("devices", "models", "found"),
    [
        (None, [], Hardware("cpu", 0)),
        (None, TWO, Hardware("NVIDIA H200", 2)),
        ("all", TWO, Hardware("NVIDIA H200", 2)),
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
    devices: str | None, models: list[Gpu], found: Hardware
) -> None:
    """By index, by UUID, by slice, or not at all."""
    environ = {} if devices is None else {"CUDA_VISIBLE_DEVICES": devices}
    assert gpus.chosen(models, environ, NVIDIA_VISIBLE) == found


@pytest.mark.parametrize(
    ("devices", "found"),
    [
        ("GPU-1f2e", Hardware("NVIDIA H200", 1)),
        (
            "MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb",
            Hardware("NVIDIA A100-SXM4-40GB MIG 2g.10gb", 1),
        ),
        ("MIG-GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77/1/0", Hardware("NVIDIA A100-SXM4-40GB", 1)),
        ("1", Hardware("NVIDIA H200", 1)),
    ],
)
def test_a_uuid_tells_the_model_and_the_slice(devices: str, found: Hardware) -> None:
    """Slurm names devices so when it shares GPUs out in slices."""
    listed = gpus.from_nvidia_smi(NVIDIA_SMI)
    assert gpus.chosen(listed, {"CUDA_VISIBLE_DEVICES": devices}, NVIDIA_VISIBLE) == found


def test_amd_has_three_variables_in_their_order() -> None:
    """The first that is set counts."""
    cards = gpus.from_rocm_smi(ROCM_SMI)
    environ = {"ROCR_VISIBLE_DEVICES": "GPU-5e0f1a2b3c4d5e6f", "CUDA_VISIBLE_DEVICES": "0,1"}
    assert gpus.chosen(cards, environ, AMD_VISIBLE) == Hardware("AMD Instinct MI210", 1)
    environ["HIP_VISIBLE_DEVICES"] = "1"
    assert gpus.chosen(cards, environ, AMD_VISIBLE).name.startswith("AMD INSTINCT MI250")
    assert gpus.chosen(cards, {"CUDA_VISIBLE_DEVICES": "0,1"}, AMD_VISIBLE).gpus == 2


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, Hardware()),
        ({"SLURM_JOB_GPUS": "0,1,3"}, Hardware("gpu", 3)),
        ({"SLURM_STEP_GPUS": "2", "SLURM_JOB_GPUS": "0,1,2"}, Hardware("gpu", 1)),
        ({"SLURM_GPUS_ON_NODE": "4"}, Hardware("gpu", 4)),
        ({"SLURM_GPUS_ON_NODE": "gpu:a100:4"}, Hardware("a100", 4)),
        ({"SLURM_GPUS_PER_NODE": "h100:2", "SLURM_JOB_GPUS": "0,1"}, Hardware("h100", 2)),
        ({"SLURM_GPUS_ON_NODE": "2", "SLURM_GPUS": "mi300x:8"}, Hardware("mi300x", 2)),
        ({"SLURM_GPUS_ON_NODE": "gpu:2(S:0-1)"}, Hardware("gpu", 2)),
        ({"SLURM_GPUS_ON_NODE": "many"}, Hardware()),
        ({"SLURM_GPUS_ON_NODE": "0"}, Hardware()),
    ],
)
def test_slurm_tells_what_it_gave(environ: dict[str, str], found: Hardware) -> None:
    """In a container without the maker's tools there is nobody else to ask."""
    assert gpus.of_slurm(environ) == found
