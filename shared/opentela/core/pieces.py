"""A large body as the pieces in which it came: joining it would stop everything else meanwhile."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeAlias


class Pieces:
    """Bytes in several objects. It is cut and measured as if it were one, and never changes."""

    __slots__ = ("_pieces", "_starts")

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = tuple(pieces)
        self._starts = [0, *accumulate(map(len, self._pieces))]

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, span: slice) -> bytes:
        start, stop, step = span.indices(len(self))
        if step != 1:
            raise ValueError("a body is cut into spans")
        return b"".join(self._span(start, stop))

    def startswith(self, beginning: bytes) -> bool:
        """Return whether it begins so."""
        return self[: len(beginning)] == beginning

    def whole(self) -> bytes:
        """Return everything as one, which takes its time."""
        return b"".join(self._pieces)

    def replaced(self, start: int, stop: int, by: bytes) -> "Pieces":
        """Return it with *by* in place of the bytes from *start* to *stop*."""
        return Pieces([*self._span(0, start), by, *self._span(stop, len(self))])

    def _span(self, start: int, stop: int) -> list[bytes]:
        """Return the pieces between, of which only the first and the last are copied."""
        found: list[bytes] = []
        index = bisect_right(self._starts, start) - 1
        while start < stop:
            at, piece = self._starts[index], self._pieces[index]
            found.append(piece[start - at : stop - at])
            index += 1
            start = self._starts[index]
        return found


Text: TypeAlias = bytes | Pieces
"""A body, which is one object unless it is large."""


def replaced(body: Text, start: int, stop: int, by: bytes) -> Text:
    """Return *body* with *by* in place of the bytes from *start* to *stop*."""
    if isinstance(body, bytes):
        return body[:start] + by + body[stop:]
    return body.replaced(start, stop, by)


def whole(body: Text) -> bytes:
    """Return all of *body* as one."""
    return body if isinstance(body, bytes) else body.whole()
