"""The engine as a process of this host: started behind a guardian, ended to the last child.

What the guardian does and why stands in `guardian.py`. This side starts it, reads what it says and
what the engine writes, and cleans up after it if somebody kills the guardian itself.
"""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from opentela.core.errors import EngineError
from opentela.supervisor import proctree
from opentela.supervisor.guardian import STUCK_S
from opentela.supervisor.output import Copier, Lines
from opentela.telemetry import log as logs

log: Final = logs.get_logger()

ORPHAN_S: Final = 3.0
"""The supervisor is dead; its engine has this long after SIGTERM, to free what SIGKILL would not,
such as shared memory."""
SPAWN_WITHIN_S: Final = 30.0
"""A guardian that has not started the command by then sits on a broken file system."""
_GUARDIAN_LATE_S: Final = 5.0
_POLL_S: Final = 0.05
ENDED_WELL: Final = "engine exited with status 0"
"""How an engine ends that did what it was told, which was not to serve."""


class Ending(NamedTuple):
    """How an engine ended.

    Attributes:
        reason: For people. It is told to the whole mesh, so it holds nothing that the engine
            wrote: that may be a prompt.
        is_hopeless: The command cannot be run at all.
        status: As of waitpid(2); None when that is not known.
    """

    reason: str
    is_hopeless: bool = False
    status: int | None = None


OnLine = Callable[[bytes], None]
OnExit = Callable[[str], None]
"""Told how the engine itself ended, while what it left is still being ended."""


class EngineProcess:
    """One run of the engine's command.

    Attributes:
        pid: The engine; 0 before it runs.
        lines: The last lines of its output.
        has_ended: Whether nothing of it is left; true before its start, too.
    """

    def __init__(
        self, *, tail_lines: int, copier: Copier | None, on_line: OnLine, on_exit: OnExit
    ) -> None:
        self.pid = 0
        self.has_ended = True
        self.lines = Lines(tail_lines)
        self._copier = copier
        self._on_line = on_line
        self._on_exit = on_exit
        self._status: int | None = None
        self._failed_with = 0
        self._stuck = ""
        self._mark = ""
        self._guardian: subprocess.Popen[bytes] | None = None
        self._control: asyncio.StreamWriter | None = None
        self._heard: asyncio.StreamReader | None = None
        self._output: asyncio.ReadTransport | None = None
        self._output_ended = asyncio.Event()
        self._last_resort: asyncio.TimerHandle | None = None

    async def spawn(
        self, argv: Sequence[str], environ: Mapping[str, str], *, pass_fds: Sequence[int] = ()
    ) -> bool:
        """Start the command; return whether it runs. `ended` says why it does not.

        Args:
            argv: The command.
            environ: Its environment.
            pass_fds: Further descriptors that it has, besides the standard ones.

        Raises:
            EngineError: This host starts no process at all.
        """
        ours, theirs, read_end, write_end = _ends()
        try:
            self._guardian = _start_guardian(argv, environ, theirs, write_end, pass_fds)
        except (OSError, ValueError) as error:
            ours.close()
            os.close(read_end)
            raise not_started(error) from error
        finally:
            theirs.close()
            os.close(write_end)
        self.has_ended = False
        self._mark = proctree.guardian_mark(self._guardian.pid)
        loop = asyncio.get_running_loop()
        self._output, _ = await loop.connect_read_pipe(
            lambda: _Output(self._take_in, self._output_ended.set), os.fdopen(read_end, "rb", 0)
        )
        self._heard, self._control = await asyncio.open_unix_connection(sock=ours)
        try:
            async with asyncio.timeout(SPAWN_WITHIN_S):
                await self._listen_once()
        except TimeoutError:
            self._stuck = "the guardian did not start it"
            self._guardian.kill()
        return self.pid != 0

    def stop(self, term_s: float) -> None:
        """Ask the engine to end, and make it after *term_s*; asked again it can only be sooner."""
        if self._control is None or self._guardian is None or self._control.is_closing():
            return
        self._control.write(f"stop {term_s}\n".encode())
        if self._last_resort is None:
            # A guardian that was itself frozen does nothing; the kernel then ends the engine.
            self._last_resort = asyncio.get_running_loop().call_later(
                term_s + STUCK_S + _GUARDIAN_LATE_S, self._guardian.kill
            )

    async def ended(self) -> Ending:
        """Return when nothing of the engine is left, and how it ended."""
        assert self._guardian is not None, "never started"
        assert self._control is not None
        while await self._listen_once():
            pass
        self._control.close()
        if self._last_resort is not None:
            self._last_resort.cancel()
        await asyncio.to_thread(self._guardian.wait)
        await self._kill_remains()
        with contextlib.suppress(TimeoutError):
            # Whatever still holds the pipe is stuck: its last words are not worth waiting for.
            async with asyncio.timeout(0 if self._stuck else 1.0):
                await self._output_ended.wait()
        if self._output is not None:
            self._output.close()
        self.lines.finish()
        self.has_ended = True
        return self._ending()

    async def _kill_remains(self) -> None:
        """Kill what has our mark: there is something only when the guardian itself was killed."""
        try:
            async with asyncio.timeout(STUCK_S):
                while remains := proctree.marked(self._mark):
                    log.warning("engine_remains_killed", pids=[process.pid for process in remains])
                    for process in remains:
                        proctree.send(process, signal.SIGKILL)
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            self._stuck = "processes that SIGKILL does not end"

    async def _listen_once(self) -> bool:
        """Take in one line of the guardian; return False at its end."""
        assert self._heard is not None
        try:
            line = (await self._heard.readline()).decode()
        except ConnectionError:
            return False
        word, _, rest = line.strip().partition(" ")
        match word:
            case "spawned":
                self.pid = int(rest)
            case "failed":
                self._failed_with = int(rest)
            case "exited":
                self._status = int(rest)
                self._on_exit(_how(self._status))
            case "stuck":
                self._stuck = f"processes that SIGKILL does not end: {rest}"
            case _:
                return False
        return True

    def _take_in(self, data: bytes) -> None:
        if self._copier is not None:
            self._copier.write(data)
        for line in self.lines.feed(data):
            self._on_line(line)

    def _ending(self) -> Ending:
        if self._failed_with:
            error = EngineError(f"the command cannot be run: {os.strerror(self._failed_with)}")
            return Ending(error.line(), is_hopeless=True)
        if self._stuck:
            return Ending(self._stuck, is_hopeless=True)
        return Ending(_how(self._status), status=self._status)


def reclaim(within_s: float = STUCK_S) -> list[int]:
    """End what engines of dead supervisors left on this host; return its pids once it is gone.

    Normally their guardians have done so long ago; this is for the case that those were killed
    too. Nothing may hold a GPU when the next engine starts, and memory of a GPU is freed only some
    time after the signal.

    Raises:
        EngineError: Something is still there after *within_s*.
    """
    ended: dict[int, None] = {}
    until = time.monotonic() + within_s
    while remains := proctree.abandoned():
        if ended and time.monotonic() > until:
            pids = ", ".join(str(process.pid) for process in remains)
            raise EngineError(
                f"processes that an earlier engine left do not end: {pids}",
                remedy="they hang in the kernel, such as in a GPU's driver; use another node",
            )
        for process in remains:
            proctree.send(process, signal.SIGKILL)
            ended[process.pid] = None
        time.sleep(_POLL_S)
    return list(ended)


def not_started(error: OSError | ValueError) -> EngineError:
    """Return what is to be said when no process could be started."""
    if isinstance(error, ValueError):
        return EngineError(
            f"the command cannot be passed on: {error}",
            remedy="look for a zero byte in its words and variables",
        )
    return EngineError(
        f"no process can be started: {os.strerror(error.errno or 0)}",
        remedy="look at ulimit -u and -n, and at the memory of this host",
    )


def _ends() -> tuple[socket.socket, socket.socket, int, int]:
    """Return both ends of a control socket and of a pipe.

    Raises:
        EngineError: This process may have no more open files.
    """
    try:
        ours, theirs = socket.socketpair()
    except OSError as error:
        raise not_started(error) from error
    try:
        return ours, theirs, *os.pipe()
    except OSError as error:
        ours.close()
        theirs.close()
        raise not_started(error) from error


def _start_guardian(
    argv: Sequence[str],
    environ: Mapping[str, str],
    control: socket.socket,
    output: int,
    pass_fds: Sequence[int],
) -> subprocess.Popen[bytes]:
    # One fork, then exec: a few milliseconds, once a launch. asyncio's own way would need a watcher
    # of child processes, and the socket tells us of the end anyway.
    module = [sys.executable, "-P", "-m", "opentela.supervisor.guardian"]
    return subprocess.Popen(  # noqa: S603 - the user's command is why we are here
        [*module, str(control.fileno()), str(ORPHAN_S), *argv],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=dict(environ),
        pass_fds=[control.fileno(), *pass_fds],
        # A signal to our process group must reach the engine through its guardian only.
        start_new_session=True,
    )


class _Output(asyncio.Protocol):
    """The read end of the engine's output."""

    def __init__(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_data = on_data
        self._on_end = on_end

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell that no more will come."""
        del exc
        self._on_end()


def _how(status: int | None) -> str:
    if status is None:
        return "the engine's guardian was killed"
    if os.WIFSIGNALED(status):
        return f"engine was ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"engine exited with status {os.WEXITSTATUS(status)}"
