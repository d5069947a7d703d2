"""An asyncio loop on which an hour passes in a moment, and on which a hang is an error.

For tests of shells that wait: when every task waits for a timer, the selector does not sleep but
moves the loop's clock to that timer; when every task waits and there is no timer, nothing can ever
happen again, which is a hang and raises `HangError` instead of a time-out. Real sockets and
threads do not belong on it: what they bring is not known to the clock.

    def test_it_gives_up_after_an_hour() -> None:
        with virtual_time() as runner:
            runner.run(shell.main())
            assert runner.get_loop().time() == 3600.0
"""

import asyncio
import selectors
from collections.abc import Iterator
from contextlib import contextmanager


class HangError(AssertionError):
    """Every task waits for something that nobody will do."""


class _JumpingSelector(selectors.SelectSelector):
    """Looks at what is ready, and instead of sleeping moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready now; let *timeout* pass on the virtual clock if nothing is."""
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise HangError("every task waits and no timer is set")
            self.now += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """A selector loop whose clock starts at 0 and only moves when everybody waits."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        # asyncio rounds a timer to this; finer than any sum of floats a test would compare.
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """Return virtual seconds."""
        return self._jumping.now


@contextmanager
def virtual_time() -> Iterator[asyncio.Runner]:
    """Give a runner whose loop runs on virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        yield runner


async def elapse(seconds: float) -> None:
    """Let virtual time pass, and with it all that happens meanwhile."""
    assert isinstance(asyncio.get_running_loop(), VirtualLoop), "real time is waited for by `until`"
    await asyncio.sleep(seconds)
