"""What this session computes on, as offers tell it: asked of whoever knows on this host.

NVIDIA's tool, its library, and its driver's files; then AMD's tools, new and old; then what Slurm
says that it gave us. The first that knows of a GPU is believed; otherwise it is the CPU.
"""

import ctypes
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from opentela.supervisor import gpus
from opentela.supervisor.gpus import AMD_VISIBLE, NVIDIA_VISIBLE, Gpu, Hardware
from opentela.telemetry import log as logs

log: Final = logs.get_logger()

ANSWER_WITHIN_S: Final = 10.0
"""A driver that is being woken takes some seconds; a broken one hangs."""
_NVIDIA: Final = Path("/proc/driver/nvidia/gpus")
_NVML: Final = "libnvidia-ml.so.1"
_NAME_BYTES: Final = 96
_AMD_TOOLS: Final = (
    (("amd-smi", "static", "--asic", "--json"), gpus.from_amd_smi),
    (("rocm-smi", "--showproductname", "--showuniqueid", "--json"), gpus.from_rocm_smi),
)


def find(environ: Mapping[str, str]) -> Hardware:
    """Return the GPUs of this host that our environment lets the engine use."""
    if found := nvidia(environ):
        return gpus.chosen(found, environ, NVIDIA_VISIBLE)
    if found := amd(environ):
        return gpus.chosen(found, environ, AMD_VISIBLE)
    return gpus.of_slurm(environ)


def nvidia(environ: Mapping[str, str]) -> list[Gpu]:
    """Return the NVIDIA GPUs of this host."""
    return (
        gpus.from_nvidia_smi(_told(("nvidia-smi", "-L"), environ))
        or from_nvml(_NVML)
        or from_driver(_NVIDIA)
    )


def amd(environ: Mapping[str, str]) -> list[Gpu]:
    """Return the AMD GPUs of this host."""
    for command, read in _AMD_TOOLS:
        if found := read(_told(command, environ)):
            return found
    return []


def from_driver(folder: Path) -> list[Gpu]:
    """Return what NVIDIA's driver lists under /proc."""
    found = []
    for index, information in enumerate(sorted(folder.glob("*/information"))):
        facts = {}
        for line in information.read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            facts[key.strip()] = value.strip()
        if name := facts.get("Model"):
            found.append(Gpu(index, name, facts.get("GPU UUID", "")))
    return found


def from_nvml(library: str) -> list[Gpu]:
    """Return what NVIDIA's management library lists; nothing without it."""
    try:
        nvml = ctypes.CDLL(library)
    except OSError:
        return []
    if nvml.nvmlInit_v2():
        return []
    try:
        count = ctypes.c_uint()
        if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
            return []
        found = (_from_nvml(nvml, index) for index in range(count.value))
        return [gpu for gpu in found if gpu is not None]
    finally:
        nvml.nvmlShutdown()


def _from_nvml(nvml: ctypes.CDLL, index: int) -> Gpu | None:
    device = ctypes.c_void_p()
    name, uuid = (ctypes.create_string_buffer(_NAME_BYTES) for _ in range(2))
    size = ctypes.c_uint(_NAME_BYTES)
    if nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(device)):
        return None
    if nvml.nvmlDeviceGetName(device, name, size) or nvml.nvmlDeviceGetUUID(device, uuid, size):
        return None
    return Gpu(index, name.value.decode(errors="replace"), uuid.value.decode(errors="replace"))


def _told(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return what a tool writes; nothing when it is missing or fails."""
    program = shutil.which(command[0], path=environ.get("PATH"))
    if program is None:
        return ""
    try:
        ran = subprocess.run(  # noqa: S603 - a tool of the GPU's maker
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(environ),
            timeout=ANSWER_WITHIN_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("hardware_unknown", tool=command[0], reason=str(error))
        return ""
    return ran.stdout.decode(errors="replace")
