"""What the tools of GPU makers and schedulers say, and which of the GPUs are ours to use."""

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

import msgspec

CPU: Final = "cpu"
NAME_CHARACTERS_MAX: Final = 128
GPUS_MAX: Final = 256
"""No node has more, be it slices; an environment that tells of more is not believed further."""

_NONE: Final = frozenset({"", "-1", "NoDevFiles", "void", "none"})
"""How CUDA, Slurm and container runtimes say that there is no device."""
NVIDIA_VISIBLE: Final = ("CUDA_VISIBLE_DEVICES",)
AMD_VISIBLE: Final = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
"""In order of precedence; HIP takes CUDA's variable for its own."""
_SLURM_INDICES: Final = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
_SLURM_COUNTS: Final = ("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK")

_GPU_LINE: Final = re.compile(r"GPU (\d+): (.+?) \(UUID: ([^)]+)\)")
_MIG_LINE: Final = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+: \(UUID: ([^)]+)\)")
_COUNT: Final = re.compile(r"(?:gpu:)?(?:(?P<kind>[A-Za-z][\w.-]*):)?(?P<count>\d{1,4})")


class Hardware(NamedTuple):
    """A kind of processor and how many of it."""

    name: str = CPU
    gpus: int = 0


class Gpu(NamedTuple):
    """A GPU, or a slice of one.

    Attributes:
        number: By which environments name it; of a slice that of its GPU.
        name: Its model.
        uuid: Empty when unknown.
        slice: Profile of a MIG slice, such as `1g.10gb`; empty for a whole GPU.
    """

    number: int
    name: str
    uuid: str = ""
    slice: str = ""

    @property
    def shown(self) -> str:
        """As offers tell it."""
        return f"{self.name} MIG {self.slice}" if self.slice else self.name


def from_nvidia_smi(listed: str) -> list[Gpu]:
    """Return what `nvidia-smi -L` lists: each GPU, then its slices."""
    found: list[Gpu] = []
    for line in listed.splitlines():
        if match := _GPU_LINE.match(line):
            name = match[2][:NAME_CHARACTERS_MAX]
            found.append(Gpu(int(match[1]), name, match[3]))
        elif found and (match := _MIG_LINE.match(line)):
            found.append(Gpu(found[-1].number, found[-1].name, match[2], match[1]))
    return found


def from_amd_smi(document: str) -> list[Gpu]:
    """Return what `amd-smi static --asic --json` says; older releases have no outer object."""
    read = _json(document)
    entries = read.get("gpu_data", [read]) if isinstance(read, dict) else read
    found = []
    for number, entry in enumerate(entries if isinstance(entries, list) else ()):
        asic = entry.get("asic") if isinstance(entry, dict) else None
        name = _text(asic, "market_name")
        if name:
            index = entry.get("gpu")
            serial = _text(asic, "asic_serial").removeprefix("0x").lower()
            uuid = f"GPU-{serial}" if serial else ""
            found.append(Gpu(index if isinstance(index, int) else number, name, uuid))
    return found


def from_rocm_smi(document: str) -> list[Gpu]:
    """Return what `rocm-smi --showproductname --showuniqueid --json` says."""
    read = _json(document)
    found = []
    for key, card in read.items() if isinstance(read, dict) else ():
        index = key.removeprefix("card")
        names = ("Card Series", "Card series", "Card SKU")
        name = next((text for text in (_text(card, one) for one in names) if text), "")
        if key.startswith("card") and index.isdecimal() and name:
            unique = _text(card, "Unique ID").removeprefix("0x").lower()
            found.append(Gpu(int(index), name, f"GPU-{unique}" if unique else ""))
    return sorted(found)


def chosen(gpus: Sequence[Gpu], environ: Mapping[str, str], variables: Sequence[str]) -> Hardware:
    """Return which of *gpus* the first of *variables* that is set leaves; all when none is.

    A device is an index, a UUID or the beginning of one; a slice is named by its own UUID, or by
    `MIG-GPU-…/g/c` of older drivers. What is not recognised still counts as one device.
    """
    whole = [gpu for gpu in gpus if not gpu.slice]
    given = next((environ[name] for name in variables if name in environ), None)
    if given is not None and given.strip() in _NONE:
        return Hardware()
    if not whole:
        return Hardware()
    if not given or given == "all":
        return Hardware(whole[0].shown, len(whole))
    words = listed(given)
    first = next(filter(None, (_named(word, gpus) for word in words)), whole[0])
    return Hardware(first.shown, len(words)) if words else Hardware()


def listed(given: str) -> tuple[str, ...]:
    """Return the devices that a variable lists, each once; it ends at the first word for none.

    So do CUDA and HIP: what stands behind a `-1` is not to be seen.
    """
    words = (word.strip() for word in given.split(","))
    return tuple(dict.fromkeys(takewhile(lambda word: word not in _NONE, words)))[:GPUS_MAX]


def of_slurm(environ: Mapping[str, str]) -> Hardware:
    """Return the GPUs that Slurm says it gave us, for hosts on which no tool can be asked."""
    counted = _counted(environ)
    indices = listed(next((environ[name] for name in _SLURM_INDICES if name in environ), ""))
    count = len(indices) or min(counted.gpus, GPUS_MAX)
    return Hardware(counted.name if counted.gpus else "gpu", count) if count else Hardware()


def _counted(environ: Mapping[str, str]) -> Hardware:
    for name in _SLURM_COUNTS:
        if match := _COUNT.fullmatch(environ.get(name, "").partition("(")[0]):
            kind = match["kind"] or _kind(environ)
            return Hardware(kind or "gpu", int(match["count"]))
    return Hardware()


def _kind(environ: Mapping[str, str]) -> str:
    """Return the type of GPU that the job asked for, where it named one."""
    match = _COUNT.fullmatch(environ.get("SLURM_GPUS", "").partition(",")[0])
    return match["kind"] or "" if match else ""


def _named(word: str, gpus: Sequence[Gpu]) -> Gpu | None:
    if word.isdecimal():
        return next((gpu for gpu in gpus if str(gpu.number) == word and not gpu.slice), None)
    # An older driver names a slice by its GPU: MIG-GPU-<uuid>/<gpu instance>/<compute instance>.
    parent = word.removeprefix("MIG-").partition("/")[0] if "/" in word else word
    return next((gpu for gpu in gpus if gpu.uuid.startswith(parent)), None)


def _json(document: str) -> Any:
    # Both tools may print warnings before the document.
    start = min((at for at in map(document.find, "[{") if at >= 0), default=0)
    try:
        return msgspec.json.decode(document[start:])
    except (msgspec.DecodeError, RecursionError):
        return None


def _text(document: Any, key: str) -> str:
    value = document.get(key) if isinstance(document, dict) else None
    if not isinstance(value, str) or value.strip().upper() in ("N/A", ""):
        return ""
    return value.strip()[:NAME_CHARACTERS_MAX]
