"""What happened, as one line an event: time, node, message."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

ENTRIES_MAX: Final = 400_000
"""Entries kept for printing; the hash goes on over all of them."""

Describe: TypeAlias = Callable[[str, bytes], str]


class Entry(NamedTuple):
    """One event.

    Attributes:
        at: Virtual seconds.
        node: Where it happened; `world` for faults.
        mark: `>` sent, `<` received, `x` lost, `!` fault or violation, `.` something else.
        subject: Of a message; else what happened, in words.
        payload: Of a message.
    """

    at: float
    node: str
    mark: str
    subject: str
    payload: bytes


def plain(subject: str, payload: bytes) -> str:
    """Return a description for messages of any kind."""
    return f"{subject} {len(payload)} B" if payload else subject


class Trace:
    """Every event of a run, and a hash over them that equal runs share."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, at: float, node: str, mark: str, subject: str, payload: bytes = b"") -> None:
        """Record one event."""
        self._hash.update(f"{at!r}|{node}|{mark}|{subject}|".encode())
        self._hash.update(payload)
        if len(self.entries) < ENTRIES_MAX:
            self.entries.append(Entry(at, node, mark, subject, payload))

    def digest(self) -> str:
        """Return the hash of all that was recorded."""
        return self._hash.hexdigest()

    def lines(self, describe: Describe = plain, *, last: int = 0) -> Iterator[str]:
        """Yield the diagram, columns time, node, message; only the *last* events if not 0."""
        width = max((len(entry.node) for entry in self.entries), default=0)
        for entry in self.entries[-last:]:
            text = describe(entry.subject, entry.payload)
            yield f"{entry.at:10.4f}  {entry.node:<{width}}  {entry.mark} {text}"


class Silence(Trace):
    """A trace of a run whose events nobody will read, for campaigns of thousands."""

    def add(self, at: float, node: str, mark: str, subject: str, payload: bytes = b"") -> None:
        """Record nothing."""
