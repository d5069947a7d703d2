"""An allocation's GPUs one by one, and what gives an engine some of them."""

import pytest

from opentela.core.errors import ConfigError
from opentela.supervisor.agent import devices
from opentela.supervisor.agent.devices import Devices, Maker
from opentela.supervisor.gpus import AMD_VISIBLE, NVIDIA_VISIBLE, Gpu

H100 = [Gpu(number, "NVIDIA H100", f"GPU-{number}") for number in range(4)]
MI300 = [Gpu(number, "MI300X") for number in range(4)]


def nvidia(**environ: str) -> Devices:
    return devices.of_tools(H100, environ, NVIDIA_VISIBLE, Maker.NVIDIA)


def amd(**environ: str) -> Devices:
    return devices.of_tools(MI300, environ, AMD_VISIBLE, Maker.AMD)


def test_every_gpu_is_offered_unless_the_environment_says_less() -> None:
    """By index, or as the environment names them."""
    assert nvidia() == Devices("NVIDIA H100", ("0", "1", "2", "3"), Maker.NVIDIA)
    assert nvidia(CUDA_VISIBLE_DEVICES="2, 3").ids == ("2", "3")
    assert nvidia(CUDA_VISIBLE_DEVICES="GPU-1,GPU-3").ids == ("GPU-1", "GPU-3")
    assert nvidia(CUDA_VISIBLE_DEVICES="") == Devices("cpu", (), Maker.NONE)
    assert amd(ROCR_VISIBLE_DEVICES="1,2").ids == ("1", "2")
    assert nvidia().gpus == 4


def test_a_gpu_that_is_named_twice_is_offered_once() -> None:
    """Two replicas would share it."""
    assert nvidia(CUDA_VISIBLE_DEVICES="1,1,2").ids == ("1", "2")


@pytest.mark.parametrize("given", ["0,-1,1", "0,,1", "0, NoDevFiles", "0,0"])
def test_the_list_ends_at_the_first_word_for_none(given: str) -> None:
    """What stands behind it is not to be seen, and an engine that is given a `-1` has no GPU."""
    assert nvidia(CUDA_VISIBLE_DEVICES=given).ids == ("0",)
    slurm = {"SLURM_GPUS_ON_NODE": "2", "CUDA_VISIBLE_DEVICES": given}
    assert devices.of_slurm(slurm).ids == ("0",)


@pytest.mark.parametrize("given", ["-1", "NoDevFiles", ",", " "])
def test_no_device_is_none_whoever_says_how_many(given: str) -> None:
    """Not one that is called so."""
    none = Devices("cpu", (), Maker.NONE)
    assert nvidia(CUDA_VISIBLE_DEVICES=given) == none
    slurm = {"SLURM_GPUS_ON_NODE": "2", "CUDA_VISIBLE_DEVICES": given}
    assert devices.of_slurm(slurm) == none


@pytest.mark.parametrize(
    "count", ["1000000000", "gpu:99999999999", "9" * 5000, "9999", "-4", "h200:"]
)
def test_no_environment_makes_more_gpus_than_a_node_has(count: str) -> None:
    """Memory for a list of them all would be gone before anybody noticed."""
    assert len(devices.of_slurm({"SLURM_GPUS_ON_NODE": count}).ids) <= 256
    listed = ",".join(map(str, range(10_000)))
    assert len(nvidia(CUDA_VISIBLE_DEVICES=listed).ids) <= 256
    assert nvidia(CUDA_VISIBLE_DEVICES="9" * 5000).ids == ("9" * 5000,)


def test_slurm_is_believed_where_no_tool_knows() -> None:
    """It says how many, and under which numbers a job sees them."""
    told = {"SLURM_GPUS_ON_NODE": "2", "SLURM_STEP_GPUS": "4,5", "CUDA_VISIBLE_DEVICES": "0,1"}
    assert devices.of_slurm(told) == Devices("gpu", ("0", "1"), Maker.UNKNOWN)
    assert devices.of_slurm({"SLURM_GPUS_ON_NODE": "2"}).ids == ("0", "1")
    assert devices.of_slurm({}).ids == ()


def test_places_on_the_cpu_are_no_gpus() -> None:
    """They only count as if they were, when replicas are placed."""
    found = devices.slots(3)
    assert (found.hardware, found.ids, found.gpus) == ("cpu", ("0", "1", "2"), 0)
    assert devices.variables(found, ["0"], {"SLURM_STEP_GPUS": "0", "SLURM_GPUS_ON_NODE": "1"}) == {
        "CUDA_VISIBLE_DEVICES": "",
        "HIP_VISIBLE_DEVICES": "",
        "SLURM_STEP_GPUS": None,
        "SLURM_GPUS_ON_NODE": None,
    }


def test_some_of_them_can_be_kept_back() -> None:
    """One that is not there is a mistake."""
    assert devices.only(nvidia(), ["2", "0"]).ids == ("0", "2")
    assert devices.only(nvidia(), []).ids == ("0", "1", "2", "3")
    with pytest.raises(ConfigError, match=r"gpus: '7' is not") as raised:
        devices.only(nvidia(), ["7"])
    assert raised.value.remedy == "it has 0, 1, 2, 3"


def test_an_engine_sees_its_own_gpus_alone() -> None:
    """By the numbers that the tools use; Slurm's words to the job agree with it."""
    assert devices.variables(nvidia(), ["1", "2"], {}) == {
        "CUDA_VISIBLE_DEVICES": "1,2",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    environ = {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_STEP_GPUS": "0,1", "SLURM_GPUS_ON_NODE": "2"}
    assert devices.variables(nvidia(**environ), ["1"], environ) == {
        "CUDA_VISIBLE_DEVICES": "1",
        "SLURM_STEP_GPUS": "1",
        "SLURM_GPUS_ON_NODE": "1",
    }


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {"HIP_VISIBLE_DEVICES": "2", "CUDA_VISIBLE_DEVICES": None}),
        (
            {"ROCR_VISIBLE_DEVICES": "2,3", "CUDA_VISIBLE_DEVICES": "2,3"},
            {"ROCR_VISIBLE_DEVICES": "2", "CUDA_VISIBLE_DEVICES": None},
        ),
        (
            {"ROCR_VISIBLE_DEVICES": "4,5,6", "HIP_VISIBLE_DEVICES": "1,2"},
            {"HIP_VISIBLE_DEVICES": "2", "CUDA_VISIBLE_DEVICES": None},
        ),
    ],
)
def test_amd_counts_once(environ: dict[str, str], expected: dict[str, str | None]) -> None:
    """HIP counts among what ROCR leaves: only one of them is narrowed."""
    assert devices.variables(amd(**environ), ["2"], environ) == expected
