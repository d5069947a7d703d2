"""A replica as processes of this host: a supervisor behind a guardian, with an engine below.

The supervisor is `otela start`, which knows all that there is to know of engines. The guardian ends
everything below it when we die, by SIGKILL too; and a replica's GPUs count as free only when no
process that was born of it is left, wherever it has hidden.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from opentela.core.errors import OtelaError
from opentela.core.ids import SessionId
from opentela.supervisor import proctree
from opentela.supervisor.agent import report
from opentela.supervisor.agent.events import (
    AgentEvent,
    Ended,
    ReplicaEnded,
    ReplicaSpoke,
    ReplicaStuck,
)
from opentela.supervisor.process import Ending, EngineProcess, not_started
from opentela.telemetry import log as logs

log: Final = logs.get_logger()

START_VARIABLE: Final = "OTELA_AGENT_START"
"""In the environment of every process of a replica: the command that it was started by, and the
agent's own mark, which no other agent of this host has."""
KILL_AT_ONCE_S: Final = 0.5
"""After SIGTERM, when we were told to go at once."""
_OTELA: Final = (sys.executable, "-P", "-m", "opentela.cli")
_OWN: Final = ("OTELA_SUPERVISOR__", "OTELA_AGENT__")
"""Replicas are configured by the agent alone."""
_TAIL_LINES: Final = 50
_STUCK_AFTER_S: Final = 20.0
_POLL_S: Final = 0.05
_STUCK_POLL_S: Final = 1.0

Tell = Callable[[AgentEvent], None]


class ReplicaProcess:
    """One launch of a replica's supervisor.

    Attributes:
        pid: Of the supervisor; 0 before it runs.
    """

    def __init__(
        self, start: str, launch: int, *, tell: Tell, on_line: Callable[[bytes], None]
    ) -> None:
        self._start = start
        self._mark = mark(start, os.getpid())
        self._launch = launch
        self._tell = tell
        self._stop_after_s: float | None = None
        self._reason = ""
        self._process = EngineProcess(
            tail_lines=_TAIL_LINES, copier=None, on_line=on_line, on_exit=lambda _: None
        )
        self._is_started = False

    @property
    def pid(self) -> int:
        """The supervisor; 0 before it runs."""
        return self._process.pid

    def stop(self, term_s: float) -> None:
        """Ask it to drain and end, and make it after *term_s*."""
        self._stop_after_s = term_s
        if self._is_started:
            self._process.stop(term_s)

    async def run(self, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        """Run `otela start` with *arguments*, and tell how it goes until nothing is left of it."""
        try:
            read_end, write_end = os.pipe()
        except OSError as error:
            self._gave_up(not_started(error))
            return
        heard = await self._listen(read_end)
        try:
            is_up = await self._process.spawn(
                [*_OTELA, "start", "--report-fd", str(write_end), *arguments],
                {**environ, START_VARIABLE: self._mark},
                pass_fds=(write_end,),
            )
        except OtelaError as error:
            self._gave_up(error)
            return
        finally:
            os.close(write_end)
        self._is_started = True
        if is_up:
            log.info("replica_started", start=self._start, launch=self._launch, pid=self.pid)
        if self._stop_after_s is not None:
            self._process.stop(self._stop_after_s)
        ending = await self._process.ended()
        heard.close()
        await self._nothing_left()
        self._tell(ReplicaEnded(self._start, self._launch, _how(ending), self._why(ending)))

    def _gave_up(self, error: OtelaError) -> None:
        self._tell(ReplicaEnded(self._start, self._launch, Ended.GAVE_UP, error.line()))

    async def end_at_once(self) -> None:
        """Leave nothing behind: whoever calls this will not wait for long."""
        if self._is_started and not self._process.has_ended:
            self._process.stop(KILL_AT_ONCE_S)
            await self._process.ended()

    async def _listen(self, read_end: int) -> asyncio.ReadTransport:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: _Reports(self._hear), os.fdopen(read_end, "rb", 0)
        )
        return transport

    def _hear(self, line: bytes) -> None:
        try:
            said = report.read(line)
        except msgspec.DecodeError as error:
            log.warning("report_rejected", start=self._start, reason=str(error))
            return
        self._reason = said.reason
        self._tell(
            ReplicaSpoke(
                self._start, self._launch, said.state, SessionId(said.session), said.reason
            )
        )

    async def _nothing_left(self) -> None:
        """Kill what the guardians did not: there is something only when they were killed."""
        loop = asyncio.get_running_loop()
        stuck_at = loop.time() + _STUCK_AFTER_S
        is_told = False
        while left := await asyncio.to_thread(_kill, self._mark):
            if not is_told and loop.time() >= stuck_at:
                is_told = True
                pids = ", ".join(map(str, left))
                reason = f"processes that SIGKILL does not end: {pids}"
                log.error("replica_stuck", start=self._start, pids=left)
                self._tell(ReplicaStuck(self._start, self._launch, reason))
            await asyncio.sleep(_STUCK_POLL_S if is_told else _POLL_S)

    def _why(self, ending: Ending) -> str:
        """Return the supervisor's own last word, if it had one."""
        how = ending.reason.replace("engine", "its supervisor", 1)
        return self._reason if self._reason and _how(ending) is not Ended.KILLED else how


def mark(start: str, agent: int) -> str:
    """Return how processes are marked that the agent of that pid started for *start*.

    Raises:
        ProcessLookupError: There is no such process.
    """
    return f"{start}.{proctree.guardian_mark(agent)}"


def surroundings(
    environ: Mapping[str, str],
    *,
    template: Mapping[str, str],
    devices: Mapping[str, str | None],
) -> dict[str, str]:
    """Return the environment of a replica: ours, its template's, and its GPUs."""
    told = {name: value for name, value in environ.items() if not name.startswith(_OWN)}
    told.update(template)
    for name, value in devices.items():
        if value is None:
            told.pop(name, None)
        else:
            told[name] = value
    return told


def _kill(born_of: str) -> list[int]:
    """Kill whatever is marked so; return what there was."""
    left = proctree.marked(born_of, by=START_VARIABLE)
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            proctree.send(process, signal.SIGKILL)
    return [process.pid for process in left]


def _how(ending: Ending) -> Ended:
    if ending.status is None or os.WIFSIGNALED(ending.status):
        return Ended.GAVE_UP if ending.is_hopeless else Ended.KILLED
    return Ended.IN_ORDER if os.WEXITSTATUS(ending.status) == 0 else Ended.GAVE_UP


class _Reports(asyncio.Protocol):
    """The read end of the pipe, line by line."""

    def __init__(self, on_line: Callable[[bytes], None]) -> None:
        self._on_line = on_line
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        """Pass whole lines on."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._on_line(line)
        if len(self._rest) > report.LINE_BYTES_MAX:
            self._rest = b""
