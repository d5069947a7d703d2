"""An offer tells the GPUs that the engine may use, asked of whoever knows."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.unit.supervisor.test_gpus import AMD_SMI, NVIDIA_SMI, ROCM_SMI

from opentela.supervisor import hardware
from opentela.supervisor.gpus import Gpu, Hardware

NVML = r"""
#include <string.h>
int nvmlInit_v2(void) { return FAILS; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) {
  *d = (void *)(long)(i + 1); return i == 1;
}
int nvmlDeviceGetName(void *d, char *s, unsigned n) { strncpy(s, "NVIDIA H200", n); return 0; }
int nvmlDeviceGetUUID(void *d, char *s, unsigned n) {
  strncpy(s, (long)d == 1 ? "GPU-a" : "GPU-c", n); return 0;
}
"""


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Take the GPUs of the testing host out of sight; return a folder for tools."""
    monkeypatch.setattr(hardware, "_NVML", str(tmp_path / "none.so"))
    monkeypatch.setattr(hardware, "_NVIDIA", tmp_path / "none")
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def tool(folder: Path, name: str, text: str, status: int = 0) -> None:
    """Put a tool into *folder* that prints *text*."""
    (folder / f"{name}.txt").write_text(text)
    script = folder / name
    script.write_text(f"#!/bin/sh\n/bin/cat '{folder}/{name}.txt'\nexit {status}\n")
    script.chmod(0o755)


def found(folder: Path, **environ: str) -> Hardware:
    return hardware.find({"PATH": str(folder), **environ})


def test_a_host_without_gpus_computes_on_its_cpu(bare: Path) -> None:
    """It is offered as such."""
    assert found(bare) == Hardware("cpu", 0)


def test_each_maker_is_asked_by_its_own_tool_and_variable(bare: Path) -> None:
    """AMD's new tool before its old one, NVIDIA's before both."""
    tool(bare, "rocm-smi", ROCM_SMI)
    assert found(bare, ROCR_VISIBLE_DEVICES="0") == Hardware("AMD Instinct MI210", 1)
    tool(bare, "amd-smi", AMD_SMI)
    assert found(bare) == Hardware("AMD Instinct MI300X", 2)
    assert found(bare, HIP_VISIBLE_DEVICES="") == Hardware("cpu", 0)
    tool(bare, "nvidia-smi", NVIDIA_SMI)
    assert found(bare, CUDA_VISIBLE_DEVICES="1") == Hardware("NVIDIA H200", 1)


def test_a_tool_that_fails_is_passed_over(bare: Path) -> None:
    """As nvidia-smi does where the driver is not loaded."""
    tool(bare, "nvidia-smi", NVIDIA_SMI, status=9)
    tool(bare, "amd-smi", "no json")
    assert found(bare, SLURM_GPUS_ON_NODE="2") == Hardware("gpu", 2)


def test_a_tool_that_hangs_is_passed_over(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken driver holds whoever asks; the engine may be for the CPU."""
    monkeypatch.setattr(hardware, "ANSWER_WITHIN_S", 0.05)
    script = bare / "nvidia-smi"
    script.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    script.chmod(0o755)
    assert found(bare) == Hardware("cpu", 0)


def test_nvidias_library_is_asked_where_its_tool_is_missing(tmp_path: Path) -> None:
    """A GPU that it cannot open is left out; a library that does not start knows none."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to build a stand-in with")
    (tmp_path / "nvml.c").write_text(NVML)
    for name, fails in (("good", 0), ("bad", 1)):
        command = [compiler, "-shared", "-fPIC", "-w", f"-DFAILS={fails}"]
        command += ["-o", str(tmp_path / f"{name}.so"), str(tmp_path / "nvml.c")]
        subprocess.run(command, check=True)
    good = hardware.from_nvml(str(tmp_path / "good.so"))
    assert good == [Gpu(0, "NVIDIA H200", "GPU-a"), Gpu(2, "NVIDIA H200", "GPU-c")]
    assert hardware.from_nvml(str(tmp_path / "bad.so")) == []
    assert hardware.from_nvml(str(tmp_path / "missing.so")) == []


def test_nvidias_driver_lists_its_gpus_in_files(tmp_path: Path) -> None:
    """Nothing else is needed, where a container has them."""
    for bus, model in (("0000:01:00.0", "NVIDIA H200"), ("0000:41:00.0", "NVIDIA A100")):
        (tmp_path / bus).mkdir()
        text = f"Model: \t\t {model}\nIRQ:   \t\t 1\nGPU UUID: \t GPU-{bus[5:7]}\n"
        (tmp_path / bus / "information").write_text(text)
    assert hardware.from_driver(tmp_path) == [
        Gpu(0, "NVIDIA H200", "GPU-01"),
        Gpu(1, "NVIDIA A100", "GPU-41"),
    ]
