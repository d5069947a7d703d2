"""What a process costs, read from the kernel."""

from pathlib import Path
from typing import Final

_NS: Final = 1e9


def cpu_s(pid: int) -> float:
    """Return the seconds that all threads of *pid* have run; finer than clock ticks."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / _NS


def pss_mb(pid: int) -> float:
    """Return the proportional set size of *pid* in MB: shared pages are divided by their users."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} tells no Pss")
