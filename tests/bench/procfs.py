"""What a process costs, read from the kernel."""

from contextlib import suppress
from pathlib import Path
from typing import Final

_NS: Final = 1e9
_LOCAL: Final = 1
_INODE: Final = 9
"""Columns of `/proc/PID/net/tcp`."""


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


def tcp_ports(pid: int) -> frozenset[int]:
    """Return the local ports of the IPv4 connections of *pid*, those that it listens on too."""
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            name = str(descriptor.readlink())
            if name.startswith("socket:["):
                sockets.add(name[len("socket:[") : -1])
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return frozenset(
        int(row[_LOCAL].rpartition(":")[2], 16) for row in rows if row[_INODE] in sockets
    )
