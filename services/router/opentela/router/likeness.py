"""Events of a stream that differ in nothing but their words, known without being read.

An engine writes each token into the same JSON. Once an event was read that brings words and says
nothing else, another one that begins and ends with the same bytes, and has a string in between,
says as much: reading it would tell nothing new.
"""

import re
from typing import Final

from opentela.router.chunks import read_chunk

_FIELD: Final = b"data:"
_ENDS: Final = b"\n\n"
_LINES: Final = 2
_PROBE: Final = b"probe"
_STRING: Final = re.compile(rb'[^"\\\x00-\x1f]*(?:\\["\\/bfnrt][^"\\\x00-\x1f]*)*')
"""What a JSON string may hold, but for characters by their number: RFC 8259 section 7."""


class Likeness:
    """How the events of one kind look.

    Args:
        before: Their bytes up to the words.
        after: Those behind.
    """

    __slots__ = ("_after", "_before", "_begin", "_end", "_least")

    def __init__(self, before: bytes, after: bytes) -> None:
        self._before = before
        self._after = after
        self._begin = len(before)
        self._end = len(after)
        self._least = self._begin + self._end

    def holds(self, data: bytes) -> bool:
        """Return whether *data* is one such event, whole, and brings words."""
        return (
            data.startswith(self._before)
            and data.endswith(self._after)
            and len(data) > self._least
            and _STRING.fullmatch(data, self._begin, len(data) - self._end) is not None
        )

    def frames(self, data: bytes) -> bool:
        """Return whether *data* begins and ends like one."""
        return data.startswith(self._before) and data.endswith(self._after)


def likeness_of(data: bytes) -> Likeness | None:
    """Return how those look that are like *data*, if it is one event that brings only words."""
    if not (data.startswith(_FIELD) and data.endswith(_ENDS)):
        return None
    if data.count(b"\n") != _LINES or b"\r" in data:
        return None
    chunk = read_chunk(data[len(_FIELD) :])
    words = chunk.words if chunk else b""
    if not words or data.count(words) != 1:
        return None  # it may stand elsewhere as well; the next one will do
    begin = data.index(words) + 1
    before, after = data[:begin], data[begin + len(words) - 2 :]
    # What is read up to the words does not depend on them, nor does what is read behind them.
    probe = read_chunk(before[len(_FIELD) :] + _PROBE + after)
    if probe is None or probe.words != b'"%b"' % _PROBE:
        return None
    return Likeness(before, after)
