"""What a process tells on its output, one JSON object a line, read as it grows."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.e2e.processes import GaveUpError, Process, wait_until


class Lines:
    """The JSON lines of a process; what was read once is not read again."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._offset = 0
        self._rest = b""
        self._read: list[dict[str, Any]] = []

    def all(self, event: str = "") -> Iterator[dict[str, Any]]:
        """Return every line so far, or those of one event."""
        with self.process.log.open("rb") as log:
            log.seek(self._offset)
            data = log.read()
        self._offset += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        self._read += [json.loads(line) for line in whole if line.startswith(b"{")]
        return iter([one for one in self._read if not event or one.get("event") == event])

    def wait_for(
        self, event: str, *, within_s: float, count: int = 1, since: float = 0.0
    ) -> list[dict[str, Any]]:
        """Return the lines of *event* that were told after *since*, once there are so many.

        Raises:
            GaveUpError: There are not within *within_s*, or the process ended before.
        """
        found: list[dict[str, Any]] = []

        def is_told() -> bool:
            found[:] = [one for one in self.all(event) if one.get("at", time.monotonic()) > since]
            return len(found) >= count or self.process.returncode is not None

        name = f"{count} times {event!r} from {self.process.name}"
        wait_until(is_told, name, within_s=within_s, detail=self.process.tail)
        if len(found) < count:
            raise GaveUpError(f"{self.process.name} ended\n{self.process.tail()}")
        return found

    def wait_until(
        self, holds: Callable[[list[dict[str, Any]]], bool], what: str, *, within_s: float
    ) -> None:
        """Return once *holds* of all lines."""
        wait_until(
            lambda: holds(list(self.all())), what, within_s=within_s, detail=self.process.tail
        )
