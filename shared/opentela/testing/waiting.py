"""Waiting for a condition instead of for a time."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Final

UNTIL_S: Final = 30.0
"""Only what will never come true takes so long; cores may be shared, and machines stand still."""
TRIES: Final = 3
"""On shared cores one may be late for no fault of its own; what is slow is late each time."""
_POLL_S: Final = 0.01


async def until(
    holds: Callable[[], bool | Awaitable[bool]], what: str, *, within_s: float = UNTIL_S
) -> float:
    """Return the seconds until *holds* was true.

    Raises:
        AssertionError: It was not within *within_s*; says *what*.
    """
    started = time.monotonic()
    while True:
        # Looked at first: what came true while this process stood still is true.
        is_late = time.monotonic() - started > within_s
        answer = holds()
        if await answer if inspect.isawaitable(answer) else answer:
            return time.monotonic() - started
        if is_late:
            raise AssertionError(f"{what} did not come true within {within_s} s")
        await asyncio.sleep(_POLL_S)
