"""Processes as the kernel lists them: who descends from whom, who carries our mark, who lives.

A process is a pid *and* the moment of its start: pids are reused. Signals go through a pidfd whose
process was checked after it was opened, so that a stranger who got the pid meanwhile is safe.
Reference: proc_pid_stat(5), pidfd_open(2).
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

MARK: Final = "OTELA_GUARD"
"""Environment variable of every process of an engine: which guardian answers for it."""

_PROC: Final = Path("/proc")
_DEAD_STATES: Final = "ZX"


class Process(NamedTuple):
    """A process at one moment.

    Attributes:
        started: Clock ticks from boot to its start.
        state: One letter, as in proc_pid_stat(5).
    """

    pid: int
    started: int
    parent: int
    state: str

    @property
    def is_alive(self) -> bool:
        """Whether it can still do anything; a zombie cannot."""
        return self.state not in _DEAD_STATES


def read(pid: int) -> Process | None:
    """Return the process that has *pid* now, if any."""
    try:
        # The name in parentheses may hold blanks and parentheses itself.
        fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return Process(pid, int(fields[19]), int(fields[1]), fields[0])


def everybody() -> Iterator[Process]:
    """Yield each process that the kernel shows us."""
    for entry in _PROC.iterdir():
        process = read(int(entry.name)) if entry.name.isdecimal() else None
        if process:
            yield process


def descendants(ancestor: int) -> list[Process]:
    """Return the living processes below *ancestor*, parents before children."""
    children: dict[int, list[Process]] = {}
    for process in everybody():
        children.setdefault(process.parent, []).append(process)
    found = list(children.get(ancestor, ()))
    for process in found:  # grows while it is walked
        found.extend(children.get(process.pid, ()))
    return [process for process in found if process.is_alive]


def is_same(process: Process) -> bool:
    """Return whether *process* still lives, and is not another one under its pid."""
    present = read(process.pid)
    return present is not None and present.started == process.started and present.is_alive


def send(process: Process, number: signal.Signals) -> bool:
    """Signal *process* and nobody else; return whether it was there."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if not is_same(process):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def guardian_mark(pid: int) -> str:
    """Return the mark of the guardian *pid*, which is of our PID namespace.

    It means the same process for ever, also when the pid is used again.

    Raises:
        ProcessLookupError: There is no such process.
    """
    process = read(pid)
    if process is None:
        raise ProcessLookupError(pid)
    return f"{_pid_namespace()}.{pid}.{process.started}"


def marked(mark: str, *, by: str = MARK) -> list[Process]:
    """Return the living processes of the guardian with *mark*, or those *by* another variable."""
    return [
        process for process in everybody() if process.is_alive and _mark(process.pid, by) == mark
    ]


def abandoned() -> list[Process]:
    """Return the living processes whose guardian is dead: remains of an engine.

    Marks of other PID namespaces mean nothing here, and are left alone.
    """
    here = _pid_namespace()
    return [
        process
        for process in everybody()
        if process.is_alive and _is_abandoned(_mark(process.pid), here)
    ]


def _is_abandoned(mark: str, here: int) -> bool:
    namespace, _, guardian = mark.partition(".")
    pid, _, started = guardian.partition(".")
    if namespace != str(here) or not pid.isdecimal() or not started.isdecimal():
        return False
    return not is_same(Process(int(pid), int(started), 0, ""))


def _mark(pid: int, name: str = MARK) -> str:
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return ""
    prefix = f"{name}=".encode()
    for variable in environment.split(b"\0"):
        if variable.startswith(prefix):
            return variable[len(prefix) :].decode(errors="replace")
    return ""


def _pid_namespace() -> int:
    return (_PROC / "self" / "ns" / "pid").stat().st_ino
