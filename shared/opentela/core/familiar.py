"""Heads of HTTP messages that come again with nothing changed but the length of the body.

Clients and engines mostly send the head of their last message once more. A head that begins and
ends with the same bytes, with a number in between, says what that one said: nothing of it need be
read but the number.
"""

from typing import Final

LENGTH_DIGITS_MAX: Final = 15
_LINE: Final = b"\r\ncontent-length:"
_BLANK: Final = b" \t"


class Familiar:
    """A head that was read, cut around the length of the body.

    Attributes:
        bytes_but_length: Its size without the digits of the length.
    """

    __slots__ = ("_after", "_before", "bytes_but_length")

    def __init__(self, before: bytes, after: bytes) -> None:
        self._before = before
        self._after = after
        self.bytes_but_length = len(before) + len(after)

    @classmethod
    def of(cls, head: bytes) -> "Familiar | None":
        """Return how *head*, which a reader has taken, is known; None without just one length."""
        lower = head.lower()
        if lower.count(_LINE) != 1:
            return None
        start = lower.index(_LINE) + len(_LINE)
        value = head[start : head.index(b"\r", start)]
        begin = start + len(value) - len(value.lstrip(_BLANK))
        return cls(head[:begin], head[begin + len(value.strip(_BLANK)) :])

    def length_in(self, data: bytes) -> bytes:
        """Return the digits of the length, if *data* begins with this head again; else nothing."""
        before = self._before
        if not data.startswith(before):
            return b""
        start = len(before)
        end = data.find(b"\r", start, start + LENGTH_DIGITS_MAX + 1)
        digits = data[start:end]
        return digits if end > 0 and digits.isdigit() and data.startswith(self._after, end) else b""
