"""Which GPU of the catalogue an agent means: drivers have names of their own for each."""

import re
from collections.abc import Mapping
from typing import Final

from opentela.placer import catalogue

_NAMES: Final = {
    "h100 80gb hbm3": "h100-80g-sxm",
    "h100 pcie": "h100-80g-pcie",
    "h100 nvl": "h100-94g-nvl",
    "h200": "h200-141g-sxm",
    "h200 nvl": "h200-141g-nvl",
    "gh200 480gb": "gh200-96g",
    "gh200 120gb": "gh200-96g",
    "gh200 144g hbm3e": "gh200-144g",
    "b200": "b200-180g-sxm",
    "gb200": "gb200-186g",
    "a100-sxm-80gb": "a100-80g-sxm",
    "rtx a6000": "rtxa6000-48g",
}
"""As drivers say it, without the maker, where that is not the words of the data sheet."""
_MAKER: Final = re.compile(r"^(nvidia|amd|tesla)\s+")
_WORD: Final = re.compile(r"[a-z0-9]+")


def gpu_of(hardware: str, given: Mapping[str, str]) -> str:
    """Return the id of the GPU that *hardware* names; empty when it is not known.

    Args:
        hardware: As an offer has it.
        given: What the operator says of such names.
    """
    if hardware in given:
        return given[hardware]
    name = hardware.lower()
    while (shorter := _MAKER.sub("", name)) != name:
        name = shorter
    if name in _NAMES:
        return _NAMES[name]
    if name in catalogue.gpus():
        return name
    said = set(_WORD.findall(name))
    # The most words in common that are all there: "A10" is also in "A10 PCIe".
    fitting = [
        (len(words), gpu.id)
        for gpu in catalogue.gpus().values()
        if (words := set(_WORD.findall(gpu.name.lower()))) <= said
    ]
    return max(fitting)[1] if fitting else ""
