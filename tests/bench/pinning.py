"""Who runs on which core, so that what a system does on one core can be told."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Cores(NamedTuple):
    """Two cores: one for what is measured, one for who measures and the engine."""

    measured: int
    other: int

    @classmethod
    def of_this_machine(cls) -> "Cores":
        """Return the first two that this process may use.

        Raises:
            RuntimeError: There is only one.
        """
        usable = sorted(os.sched_getaffinity(0))
        if len(usable) == 1:
            raise RuntimeError("what is done on one core needs a second one for the load")
        return cls(usable[1], usable[0])


def pin(pids: Iterable[int], core: int) -> None:
    """Let every thread of *pids* run on *core* alone; threads to come inherit it."""
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), {core})
