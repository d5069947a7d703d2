"""The GPUs of an allocation one by one, and the variables that give an engine some of them."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from opentela.core.errors import ConfigError
from opentela.supervisor import gpus
from opentela.supervisor.gpus import CPU, Gpu, Hardware

_CUDA: Final = "CUDA_VISIBLE_DEVICES"
_HIP: Final = "HIP_VISIBLE_DEVICES"
_ROCR: Final = "ROCR_VISIBLE_DEVICES"
_SLURM_LISTS: Final = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
_SLURM_COUNTS: Final = ("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK")


class Maker(StrEnum):
    """Whose GPUs they are, which decides the variables."""

    NVIDIA = "nvidia"
    AMD = "amd"
    UNKNOWN = "unknown"
    NONE = "none"


class Devices(NamedTuple):
    """What an allocation has.

    Attributes:
        hardware: As offers tell it.
        ids: As engines are given them; of an allocation without GPUs the places on its CPU.
    """

    hardware: str
    ids: tuple[str, ...]
    maker: Maker

    @property
    def gpus(self) -> int:
        """How many of them are GPUs."""
        return 0 if self.maker is Maker.NONE else len(self.ids)


def slots(count: int) -> Devices:
    """Return *count* places on the CPU."""
    return Devices(CPU, tuple(map(str, range(count))), Maker.NONE)


def of_tools(
    found: Sequence[Gpu], environ: Mapping[str, str], variables: Sequence[str], maker: Maker
) -> Devices:
    """Return which of the GPUs *found* the first of *variables* that is set leaves."""
    hardware = gpus.chosen(found, environ, variables)
    given = next((environ[name] for name in variables if name in environ), "all")
    return _devices(hardware, given, [str(gpu.number) for gpu in found if not gpu.slice], maker)


def of_slurm(environ: Mapping[str, str]) -> Devices:
    """Return the GPUs that Slurm says that it gave us."""
    hardware = gpus.of_slurm(environ)
    given = environ.get(_CUDA, "all") or "all"
    return _devices(hardware, given, list(map(str, range(hardware.gpus))), Maker.UNKNOWN)


def only(devices: Devices, wanted: Sequence[str]) -> Devices:
    """Return those *wanted* of *devices*, in their order; all when none is named.

    Raises:
        ConfigError: One is not there.
    """
    missing = [one for one in wanted if one not in devices.ids]
    if missing:
        raise ConfigError(
            f"gpus: {missing[0]!r} is not a GPU of this allocation",
            remedy=f"it has {', '.join(devices.ids) or 'none'}",
        )
    kept = tuple(one for one in devices.ids if one in wanted)
    return devices._replace(ids=kept) if wanted else devices


def variables(
    devices: Devices, chosen: Sequence[str], environ: Mapping[str, str]
) -> dict[str, str | None]:
    """Return what an engine's environment must say so that it has *chosen*; None means unset."""
    listed = ",".join(chosen)
    count = str(len(chosen)) if devices.gpus else ""
    told: dict[str, str | None] = {
        **{name: listed if count else None for name in _SLURM_LISTS if name in environ},
        **{name: count or None for name in _SLURM_COUNTS if name in environ},
    }
    match devices.maker:
        case Maker.NONE:
            return {**told, _CUDA: "", _HIP: ""}
        case Maker.AMD:
            return {**told, **_of_amd(listed, environ)}
        case _:
            # Without it, CUDA may number them otherwise than the tools do.
            order = {} if _CUDA in environ else {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
            return {**told, **order, _CUDA: listed}


def _devices(hardware: Hardware, given: str, everything: Sequence[str], maker: Maker) -> Devices:
    if not hardware.gpus:
        return Devices(CPU, (), Maker.NONE)
    ids = tuple(everything) if given == "all" else gpus.listed(given)
    return Devices(hardware.name, ids, maker) if ids else Devices(CPU, (), Maker.NONE)


def _of_amd(listed: str, environ: Mapping[str, str]) -> dict[str, str | None]:
    # HIP counts among what ROCR leaves, and takes CUDA's variable where its own is not set; Slurm
    # sets ROCR's and CUDA's to the same, which HIP would count twice.
    if _ROCR in environ and _HIP not in environ:
        return {_ROCR: listed, _CUDA: None}
    return {_HIP: listed, _CUDA: None}
