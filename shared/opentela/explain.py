"""What failures and warnings look like to people: one line, or a traceback if a bug."""

import os
import select
import sys
from collections.abc import Mapping
from typing import Any, Final

from opentela.core.errors import OtelaError

_MARKS: Final = ("timestamp", "level", "service", "event", "exception")
"""What an event has besides its values."""


def explain(error: BaseException, name: str) -> int | None:
    """Print what *error* means to people; return the exit code, or None if it is a bug."""
    leaves = _leaves(error)
    expected = [leaf for leaf in leaves if isinstance(leaf, OtelaError)]
    if len(expected) == len(leaves):
        for line in dict.fromkeys(leaf.line() for leaf in expected):
            sys.stderr.write(f"{_title(name)}: {line}\n")
        return max(leaf.exit_code for leaf in expected)
    if all(isinstance(leaf, BrokenPipeError) for leaf in leaves) and _reader_left():
        # Python flushes stdout once more at exit; let that go nowhere instead of complaining.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return None


def warn(event: Mapping[str, Any], name: str) -> None:
    """Print a log event as one line, for people who read no logs; a bug also with its traceback."""
    values = (f"{key}: {value}" for key, value in event.items() if key not in _MARKS)
    words = "; ".join((str(event["event"]).replace("_", " "), *values))
    trace = f"\n{event['exception']}" if event.get("exception") else ""
    sys.stderr.write(f"{_title(name)}: {event['level']}: {words}{trace}\n")


def _title(name: str) -> str:
    return name if name.startswith("otela") else f"otela {name}"


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]


def _reader_left() -> bool:
    """Return whether whoever read our stdout has gone, as `head` does."""
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), select.POLLOUT)
    except (OSError, ValueError):
        return False
    return any(events & select.POLLERR for _, events in poll.poll(0))
