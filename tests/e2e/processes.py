"""Processes that a test owns: ended by pid, whole trees, with their output kept for the report."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from opentela.local.mesh import free_ports
from opentela.testing import warden

STOP_WITHIN_S: Final = 20.0
LOG_TAIL_BYTES: Final = 3_000
_POLL_S: Final = 0.02


class GaveUpError(AssertionError):
    """A condition did not come true in time; the message says which, and what is known."""


def wait_until(
    holds: Callable[[], bool], what: str, *, within_s: float, detail: Callable[[], str] = str
) -> float:
    """Return the seconds until *holds*; the only place here where a test passes time.

    Raises:
        GaveUpError: It did not hold within *within_s*; carries *what* and *detail()*.
    """
    started = time.monotonic()
    while True:
        # Looked at first: what came true while this process stood still is true.
        is_late = time.monotonic() - started > within_s
        if holds():
            return time.monotonic() - started
        if is_late:
            raise GaveUpError(f"{what} did not come true within {within_s} s\n{detail()}")
        time.sleep(_POLL_S)


def descendants(pid: int) -> list[int]:
    """Return *pid* and all processes below it, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [pid]
    for parent in found:  # grows while it is walked: breadth first
        found.extend(sorted(children.get(parent, [])))
    return found


def is_running(pid: int) -> bool:
    """Whether *pid* exists and is no zombie that waits for its parent."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


class Process:
    """One process of ours with its output in a file; `end` never leaves a child behind."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        warden.watch()  # tests have one already, campaigns by hand do not
        self.name = name
        self.log = log
        self.argv = tuple(argv)
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if env is None else dict(env),
                cwd=cwd,
                start_new_session=True,
                pass_fds=pass_fds,
            )
        self.pid = self._popen.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, or None while it runs."""
        return self._popen.poll()

    def tail(self) -> str:
        """Return the end of its output, for a failure's message."""
        text = self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
        return f"--- {self.name} (pid {self.pid}, exit {self.returncode}) {self.log}\n{text}"

    def wait(self, within_s: float) -> int:
        """Return the exit status of a process that ends by itself.

        Raises:
            GaveUpError: It still runs after *within_s*.
        """
        wait_until(
            lambda: self.returncode is not None,
            f"the end of {self.name}",
            within_s=within_s,
            detail=self.tail,
        )
        status = self.returncode
        assert status is not None
        return status

    def send(self, sig: signal.Signals) -> None:
        """Signal this process alone."""
        if self.returncode is None:
            os.kill(self.pid, sig)

    def send_tree(self, sig: signal.Signals) -> list[int]:
        """Signal this process and everything below it; return the pids."""
        pids = descendants(self.pid) if self.returncode is None else []
        signal_all(pids, sig)
        return pids

    def kill(self) -> None:
        """End this process alone, at once, and wait for it."""
        self.send(signal.SIGKILL)
        self._popen.wait(STOP_WITHIN_S)

    def end_at_once(self) -> None:
        """End the whole tree, and wait for this process."""
        self.send_tree(signal.SIGKILL)
        self._popen.wait(STOP_WITHIN_S)

    def end(self) -> None:
        """End the whole tree: politely, then not; also when it is stopped."""
        pids = descendants(self.pid) if self.returncode is None else []
        signal_all(pids, signal.SIGCONT)
        self.send(signal.SIGTERM)
        try:
            self._popen.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
        signal_all([pid for pid in pids if is_running(pid)], signal.SIGKILL)


def free_port() -> int:
    """Return a port that is free until it is asked for, for programs that cannot choose one."""
    return free_ports(1)[0]


def signal_all(pids: Sequence[int], sig: signal.Signals) -> None:
    """Signal each of *pids* that still exists."""
    for pid in pids:
        try:
            os.kill(pid, sig)
        except ProcessLookupError:
            continue
