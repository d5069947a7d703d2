"""A file that is there while requests are taken: how a job script, or its successor, learns it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from opentela.core.errors import ConfigError
from opentela.mesh.seldom import Seldom
from opentela.telemetry import log as logs

log: Final = logs.get_logger()

_FOR_ALL: Final = 0o644


class ReadyFile:
    """Keeps the file as readiness is; passes on what it is told.

    Args:
        path: Of the file; empty for none.
        wall: Unix seconds of now; the file holds when we became ready.
        on_ready: Whom to tell, too.

    Raises:
        ConfigError: The file cannot be written.
    """

    def __init__(
        self, path: str, *, wall: Callable[[], float], on_ready: Callable[[bool, str], None]
    ) -> None:
        self._path = Path(path) if path else None
        self._wall = wall
        self._on_ready = on_ready
        self._is_there = False
        self._logs_failure = Seldom()
        if self._path:
            try:
                self._path.unlink(missing_ok=True)
                self._write(self._path.with_suffix(".try"))
                self._path.with_suffix(".try").unlink()
            except OSError as error:
                raise ConfigError(
                    f"ready_file = {path}: {os.strerror(error.errno or 0)}",
                    remedy="name a file in a folder that exists and can be written",
                ) from error

    def tell(self, flag: bool, reason: str = "") -> None:  # noqa: FBT001 - reads as a fact
        """State whether requests are taken; a file that fails is tried again the next time."""
        self._on_ready(flag, reason)
        if self._path is None or flag is self._is_there:
            return
        try:
            if flag:
                # Whoever sees the file sees all of it.
                self._write(self._path.with_suffix(".try"))
                self._path.with_suffix(".try").replace(self._path)
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            # A full disk is no reason to end an engine that serves.
            if self._logs_failure.now():
                why = os.strerror(error.errno or 0)
                log.warning("ready_file_unwritten", file=str(self._path), reason=why)
        else:
            self._is_there = flag

    def _write(self, path: Path) -> None:
        path.write_text(f"{self._wall():.3f}\n", encoding="ascii")
        path.chmod(_FOR_ALL)
