"""What a session's hardware lets one expect of it before anything was measured.

Tokens are answered about as fast as weights are read: memory bandwidth is the prior. Only what is
measured afterwards decides, so that the table may be short, and what it lacks is taken for average.
Bandwidths are those of the makers' data sheets, one GPU, GB/s.
"""

from functools import lru_cache
from typing import Final

UNKNOWN_GBS: Final = 1000.0
"""Of hardware that is not listed: about the middle of the list."""
CPU_GBS: Final = 60.0
"""Two channels of DDR4-3200 hold 51, a server's eight 205, of which engines reach a part."""
TOGETHER: Final = 0.8
"""Exponent of the number of GPUs: those that share a model also wait for each other."""
_NAMES_MAX: Final = 256

_GBS: Final = (
    # The first row whose words all occur in the name counts: the more special stands first.
    (("gb300",), 8000.0),  # NVIDIA GB300 NVL72 data sheet
    (("gb200",), 8000.0),  # NVIDIA GB200 NVL72 data sheet
    (("b300",), 7750.0),  # NVIDIA HGX B300 data sheet
    (("b200",), 7700.0),  # NVIDIA HGX B200 data sheet
    (("gh200", "144"), 4900.0),  # NVIDIA GH200 data sheet, HBM3e
    (("gh200",), 4000.0),  # NVIDIA GH200 data sheet, HBM3
    (("h200",), 4800.0),  # NVIDIA H200 data sheet
    (("h100", "nvl"), 3938.0),  # NVIDIA H100 NVL data sheet
    (("h100", "pcie"), 2000.0),  # NVIDIA H100 PCIe product brief
    (("h100",), 3350.0),  # NVIDIA H100 data sheet, SXM5
    (("a100", "40gb"), 1555.0),  # NVIDIA A100 data sheet
    (("a100", "pcie"), 1935.0),  # NVIDIA A100 data sheet, 80 GB
    (("a100",), 2039.0),  # NVIDIA A100 data sheet, SXM4 80 GB
    (("rtx pro 6000",), 1597.0),  # NVIDIA RTX PRO 6000 Server data sheet
    (("a6000",), 768.0),  # NVIDIA RTX A6000 data sheet
    (("l40s",), 864.0),  # NVIDIA L40S data sheet
    (("l40",), 864.0),  # NVIDIA L40 data sheet
    (("a40",), 696.0),  # NVIDIA A40 data sheet
    (("a10",), 600.0),  # NVIDIA A10 data sheet; the A10G has as much
    (("l4",), 300.0),  # NVIDIA L4 data sheet
    (("v100",), 900.0),  # NVIDIA V100 data sheet
    (("t4",), 320.0),  # NVIDIA T4 data sheet
    (("4090",), 1008.0),  # NVIDIA Ada architecture white paper
    (("3090",), 936.0),  # NVIDIA Ampere GA102 white paper
    (("mi325",), 6000.0),  # AMD Instinct MI325X data sheet
    (("mi300",), 5300.0),  # AMD Instinct MI300X data sheet
    (("mi250",), 3277.0),  # AMD Instinct MI250 data sheet
    (("cpu",), CPU_GBS),
)


@lru_cache(_NAMES_MAX)
def prior(hardware: str, gpus: int) -> float:
    """Return the speed to expect of *gpus* of that name, in units of its own."""
    name = hardware.lower()
    found = (gbs for words, gbs in _GBS if all(word in name for word in words))
    return float(next(found, UNKNOWN_GBS) * max(gpus, 1) ** TOGETHER)
