"""A small process between supervisor and engine that leaves nothing of the engine behind.

`python -m opentela.supervisor.guardian SOCKET ORPHAN_S COMMAND…` starts the command in a session of
its own and then watches two things: its descendants, and the socket to the supervisor.

- It is the *subreaper* of everything below: a process that forks twice, or moves to a session or
  group of its own, becomes its child and is found. PR_SET_CHILD_SUBREAPER(2const).
- When the socket ends, the supervisor is dead, by SIGKILL too: whatever is below ends.
- If this process itself is killed, the kernel kills the engine (PR_SET_PDEATHSIG), and the
  supervisor finds the others by the mark in their environment, as does the next supervisor.

Why a process of its own: a process that is killed cannot clean up after itself, and a subreaper
has to be an ancestor. Why `prctl` between fork and exec is safe here: this process has one thread,
so the child holds no lock of another. It imports nothing that is not in the standard library.

To the supervisor it writes lines: `spawned PID`, or `failed ERRNO`; `exited STATUS` as of
waitpid(2); `stuck PID…` if something survives SIGKILL. Then it closes the socket: nothing is left.
From the supervisor it reads `stop SECONDS`: SIGTERM now, SIGKILL after so long.
"""

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from typing import Final

from opentela.supervisor import proctree

LEFTOVER_S: Final = 2.0
"""The engine has ended by itself: what it left running has this long after SIGTERM."""
STUCK_S: Final = 20.0
"""What lives so long after SIGKILL hangs in the kernel (a GPU driver, a file server)."""
_POLL_S: Final = 0.02
"""Between two looks while something is being killed."""
_LINE_BYTES_MAX: Final = 4096

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_IGNORED: Final = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""Slurm signals every process of a step: the guardian goes last, whoever asks."""
_WARNINGS: Final = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""By these a scheduler warns every process of a step. The supervisor leaves in order then; an
engine that has no use of its own for them would be ended on the spot, with all its requests."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


class Guardian:
    """One engine and everything that descends from it."""

    def __init__(self, control: socket.socket, command: Sequence[str], orphan_s: float) -> None:
        self._control = control
        self._command = command
        self._orphan_s = orphan_s
        self._engine = 0
        self._has_exited = False
        self._has_pressed = False
        self._has_supervisor = True
        self._heard = b""
        self._kill_at = float("inf")
        self._killing_since = float("inf")

    def run(self) -> int:
        """Return when nothing is left; the exit status is 0 unless something is stuck."""
        wakeup = _prepare_signals()
        if not self._spawn():
            return 0
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(wakeup, select.POLLIN)
        while True:
            self._reap()
            if self._has_exited:
                left = proctree.descendants(os.getpid())
                if not left:
                    return 0
                self._press(left)
            if time.monotonic() >= self._kill_at:
                left = self._kill()
                if time.monotonic() - self._killing_since > STUCK_S:
                    self._say("stuck " + " ".join(str(process.pid) for process in left))
                    return 1
            for descriptor, _ in poll.poll(self._timeout_ms()):
                if descriptor == wakeup:
                    os.read(wakeup, _LINE_BYTES_MAX)
                else:
                    self._listen(poll)

    def _spawn(self) -> bool:
        report_read, report_write = os.pipe()
        guardian = os.getpid()
        environment = {**os.environ, proctree.MARK: proctree.guardian_mark(guardian)}
        self._engine = os.fork()
        if self._engine == 0:
            _become(self._command, environment, guardian, report_write)
        os.close(report_write)
        with os.fdopen(report_read, "rb") as report:
            errno = report.read()
        if errno:
            os.waitpid(self._engine, 0)
            self._say(f"failed {errno.decode()}")
            return False
        self._say(f"spawned {self._engine}")
        return True

    def _reap(self) -> None:
        """Collect every dead child: the engine, and orphans that became ours."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._engine:
                self._has_exited = True
                self._say(f"exited {status}")

    def _listen(self, poll: select.poll) -> None:
        try:
            data = self._control.recv(_LINE_BYTES_MAX)
        except OSError:
            data = b""
        if not data:
            self._has_supervisor = False
            poll.unregister(self._control)
            self._stop(self._orphan_s)
            return
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            word, _, seconds = line.decode().partition(" ")
            assert word == "stop", line
            self._stop(float(seconds))

    def _stop(self, term_s: float) -> None:
        """Ask the engine's process group to end; a second request may only hasten it."""
        self._kill_at = min(self._kill_at, time.monotonic() + term_s)
        if not self._has_exited:
            for number in (signal.SIGTERM, signal.SIGCONT):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._engine, number)

    def _press(self, left: Sequence[proctree.Process]) -> None:
        """Ask what outlived the engine to end: it has not been asked before."""
        if not self._has_pressed:
            self._has_pressed = True
            self._kill_at = min(self._kill_at, time.monotonic() + LEFTOVER_S)
            for process in left:
                proctree.send(process, signal.SIGTERM)

    def _kill(self) -> list[proctree.Process]:
        """Kill whatever lives and return it; once more after each poll, since it may fork."""
        now = time.monotonic()
        self._killing_since = min(self._killing_since, now)
        self._kill_at = now + _POLL_S
        left = proctree.descendants(os.getpid())
        for process in left:
            proctree.send(process, signal.SIGKILL)
        return left

    def _timeout_ms(self) -> float | None:
        if self._has_exited:
            # Grandchildren die without a signal to us unless they became our children.
            return 1000 * _POLL_S
        if self._kill_at == float("inf"):
            return None
        return max(0.0, 1000 * (self._kill_at - time.monotonic()))

    def _say(self, line: str) -> None:
        if self._has_supervisor:
            with contextlib.suppress(OSError):
                self._control.sendall(line.encode() + b"\n")


def _prctl(option: int, argument: int) -> int:
    # Declared as variadic in C: every argument must have the width of a register.
    status: int = _libc.prctl(option, *(ctypes.c_ulong(value) for value in (argument, 0, 0, 0)))
    return status


def _prepare_signals() -> int:
    """Ignore whatever others send to us, and return a descriptor that wakes at a child's end."""
    if _prctl(_PR_SET_CHILD_SUBREAPER, 1):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return wake_read


def _become(
    command: Sequence[str], environment: dict[str, str], guardian: int, report: int
) -> None:
    """Become the engine, in the forked child; on failure report errno and end."""
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guardian:
            os._exit(1)  # it died before the kernel knew that we care
        signal.set_wakeup_fd(-1)
        # Python ignores SIGPIPE and SIGXFSZ; an engine expects what every program gets.
        expected = {*_IGNORED, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ} - {*_WARNINGS}
        for number in sorted(expected):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(command[0], list(command), environment)  # noqa: S606 - the user's command
    except OSError as error:
        os.write(report, str(error.errno).encode())
    finally:
        os._exit(127)


def main() -> None:
    """Guard the command of our arguments."""
    descriptor, orphan_s, *command = sys.argv[1:]
    with socket.socket(fileno=int(descriptor)) as control:
        control.set_inheritable(False)
        status = Guardian(control, command, float(orphan_s)).run()
    # Not sys.exit: nothing here needs Python's own clean-up, and the supervisor waits for us.
    os._exit(status)


if __name__ == "__main__":
    main()
