"""What this session computes on, as offers tell it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

_NVIDIA: Final = Path("/proc/driver/nvidia/gpus")
_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_NO_DEVICES: Final = frozenset({"", "-1", "NoDevFiles"})
"""How CUDA and Slurm say that there is none."""
CPU: Final = "cpu"


class Hardware(NamedTuple):
    """A kind of processor and how many of it."""

    name: str = CPU
    gpus: int = 0


def find(environ: Mapping[str, str]) -> Hardware:
    """Return the GPUs of this host that our environment lets the engine use."""
    return visible(environ.get(_VISIBLE), installed())


def installed() -> Sequence[str]:
    """Return the models of the NVIDIA GPUs of this host, as its driver lists them."""
    models = []
    for information in sorted(_NVIDIA.glob("*/information")):
        for line in information.read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "Model":
                models.append(value.strip())
    return models


def visible(devices: str | None, models: Sequence[str]) -> Hardware:
    """Return which of *models* `CUDA_VISIBLE_DEVICES` leaves; None lets all be used.

    A device is an index, a GPU's UUID or a slice's (`MIG-…`); only an index tells which model.
    """
    if not models or (devices is not None and devices.strip() in _NO_DEVICES):
        return Hardware()
    if devices is None:
        return Hardware(models[0], len(models))
    words = [word.strip() for word in devices.split(",")]
    first = int(words[0]) if words[0].isdecimal() else 0
    return Hardware(models[first] if first < len(models) else models[0], len(words))
