"""Waiting for a condition instead of for a time."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Final

_POLL_S: Final = 0.01


async def until(
    holds: Callable[[], bool | Awaitable[bool]], what: str, *, within_s: float = 10.0
) -> float:
    """Return the seconds until *holds* was true.

    Raises:
        AssertionError: It was not within *within_s*; says *what*.
    """
    started = time.monotonic()
    while True:
        answer = holds()
        if await answer if inspect.isawaitable(answer) else answer:
            return time.monotonic() - started
        if time.monotonic() - started > within_s:
            raise AssertionError(f"{what} did not come true within {within_s} s")
        await asyncio.sleep(_POLL_S)
