"""The terminal of somebody who starts an engine by hand: what is told there, and what is under way.

Everything goes through a thread of its own: a terminal that was paused stops neither the engine nor
its requests.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

from opentela.service import SystemClock
from opentela.supervisor.config import SupervisorConfig
from opentela.supervisor.engine_runner import EngineRunner
from opentela.supervisor.machine import Machine
from opentela.supervisor.output import Copier
from opentela.supervisor.tale import Scene, Tale, clock, on_one_line, shown, waiting

_STDOUT: Final = 1
_STDERR: Final = 2
_LOOK_S: Final = 0.5
"""How often what is under way is written anew: seconds are shown."""
_ERASE: Final = "\r\x1b[K"


class Terminal:
    """Tells on stderr what a supervisor does.

    Attributes:
        hides_output: The engine's output would come to the same screen: its last line is shown
            while it loads, and its last lines when it fails.
    """

    def __init__(self, tale: Tale, *, hides_output: bool, is_dumb: bool) -> None:
        self.hides_output = hides_output
        self._tale = tale
        self._is_dumb = is_dumb
        self._out = Copier(_STDERR)
        self._machine: Machine | None = None
        self._runner: EngineRunner | None = None
        self._status = ""
        self._is_closed = False

    @classmethod
    def of(
        cls, config: SupervisorConfig, environ: Mapping[str, str], tale: Tale
    ) -> "Terminal | None":
        """Return the terminal, if there is one and nobody wants the log itself on it."""
        is_wanted = config.log.form == "auto" and config.log.level == "info"
        if not is_wanted or not sys.stderr.isatty():
            return None
        hides_output = not config.engine.log_file and sys.stdout.isatty()
        return cls(tale, hides_output=hides_output, is_dumb=environ.get("TERM", "dumb") == "dumb")

    async def follow(self, machine: Machine, runner: EngineRunner) -> None:
        """Tell of *machine* and its engine, and show what is under way, as long as this runs."""
        self._machine, self._runner = machine, runner
        while not self._is_dumb:
            self._refresh()
            await asyncio.sleep(_LOOK_S)

    def tell(self, event: Mapping[str, Any]) -> None:
        """Tell what a log event means to people."""
        said = self._tale.tell(event, self._scene())
        if said and not self._is_closed:
            self._status = self._under_way()
            now, width = clock(SystemClock.wall()), self._width()
            lines = [
                line for one in said for line in shown(one, now, width, styles=not self._is_dumb)
            ]
            self._write("".join(f"{line}\n" for line in lines))

    def close(self) -> None:
        """Leave the line to whoever writes next."""
        self._status = ""
        self._write("")
        self._is_closed = True
        self._out.close()

    def _refresh(self) -> None:
        status = self._under_way()
        if status != self._status:
            self._status = status
            self._write("")

    def _under_way(self) -> str:
        machine, runner = self._machine, self._runner
        if self._is_dumb or machine is None or runner is None or machine.session is None:
            return ""
        loads_s = SystemClock.wall() - machine.session.claim.born_at_ms / 1000
        stage = runner.last_line if self.hides_output else ""
        said = waiting(machine.state, loads_s, stage, machine.running)
        return on_one_line(said, clock(SystemClock.wall()), self._width()) if said else ""

    def _scene(self) -> Scene:
        machine, runner, wall = self._machine, self._runner, SystemClock.wall()
        if machine is None or runner is None:
            return Scene(wall)
        return Scene(
            wall,
            leave_at=machine.allotment.leave_at,
            limit_s=machine.drain_by - SystemClock.now(),
            running=machine.running,
            leaves=bool(machine.leaving),
            output=runner.tail if self.hides_output else (),
        )

    def _write(self, text: str) -> None:
        if not self._is_closed:
            erase = "" if self._is_dumb else _ERASE
            self._out.write(f"{erase}{text}{self._status}".encode(errors="replace"))

    def _width(self) -> int:
        try:
            return os.get_terminal_size(_STDERR).columns or 80
        except OSError:
            return 80
