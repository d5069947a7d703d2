"""How far long work is, on stderr: bars for people, now and then a line for a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import Progress, TaskID

EVERY_S: Final = 10.0
"""Between two lines at the least; what is done sooner says nothing."""


class Lines:
    """Tells by lines what a `Progress` of rich tells by bars.

    Args:
        say: Writes a line.
        now: Monotonic seconds.
    """

    def __init__(self, say: Callable[[str], None], now: Callable[[], float]) -> None:
        self._say = say
        self._now = now
        self._said_at = now()
        self._names: list[str] = []

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End; nothing is to be taken away."""

    def begin(self, what: str) -> None:
        """Take in that *what* begins, of which nobody knows how long it takes."""
        if self._now() - self._said_at >= EVERY_S:
            self._said_at = self._now()
            self._say(f"{what} …")

    def add_task(self, description: str, *, total: float) -> TaskID:
        """Return a name for one piece of the work, of which *total* is the whole."""
        assert total == 1.0, "shares are told"
        self._names.append(description)
        return TaskID(len(self._names) - 1)

    def update(self, task: TaskID, *, completed: float) -> None:
        """Take in that so much of *task* is done."""
        if self._now() - self._said_at >= EVERY_S:
            self._said_at = self._now()
            self._say(f"{self._names[task]}: {completed:.0%}")


def shown() -> Progress | Lines:
    """Return what shows progress where stderr goes."""
    if sys.stderr.isatty():
        return Progress(console=Console(stderr=True), transient=True)
    return Lines(_say, time.monotonic)


@contextmanager
def steps(first: str) -> Iterator[Callable[[str], None]]:
    """Give what tells that the next step begins; a line for each where stderr is no terminal."""
    if sys.stderr.isatty():
        with Console(stderr=True).status(first) as status:
            yield status.update
        return
    lines = Lines(_say, time.monotonic)
    yield lines.begin


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()
