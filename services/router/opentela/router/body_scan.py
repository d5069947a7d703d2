"""What can be counted of a body while it comes."""

from typing import Final

BRACKETS_MAX: Final = 1_000_000
"""In all, within strings too: looking at so many takes a tenth of a second, and source code of ten
megabytes has half as many."""

FLAT_MAX: Final = 64
"""So many brackets nest less deep than any limit."""

_MODEL: Final = b'"model"'
_STREAM: Final = b'"stream"'
_ESCAPE: Final = b"\\u00"
# Nobody escapes plain letters but to hide a key: the letters of the keys lie in these rows.
_HIDING: Final = (b"\\u006", b"\\u007")


def says_one_thing(body: bytes) -> bool:
    """Return whether a look at a small *body* shows that no key can stand there twice, nor deep.

    Nearly always; of others `BodyScan` tells more.
    """
    return (
        body.count(_MODEL) == 1
        and body.count(_STREAM) <= 1
        and _ESCAPE not in body
        and body.count(b"{") + body.count(b"[") <= FLAT_MAX
    )


class BodyScan:
    """Counts over all parts so far.

    Attributes:
        brackets: That open an object or an array, within strings too.
        models: How often `"model"` stands there.
        streams: How often `"stream"` does.
        may_hide: A letter of a key may be written as an escape.
    """

    __slots__ = ("_last", "brackets", "may_hide", "models", "streams")

    def __init__(self, body: bytes = b"") -> None:
        self.brackets = body.count(b"{") + body.count(b"[")
        self.models = body.count(_MODEL)
        self.streams = body.count(_STREAM)
        self.may_hide = _ESCAPE in body and any(word in body for word in _HIDING)
        self._last = body[-len(_STREAM) :]

    @property
    def may_repeat(self) -> bool:
        """Whether a key that is read may stand there twice, or not at all."""
        return self.models != 1 or self.streams > 1 or self.may_hide

    def feed(self, part: bytes) -> None:
        """Take the next part in."""
        self.brackets += part.count(b"{") + part.count(b"[")
        if b'"' in part:  # a long text has none, and that is seen at once
            self.models += part.count(_MODEL) + self._across(part, _MODEL)
            self.streams += part.count(_STREAM) + self._across(part, _STREAM)
        if not self.may_hide:
            is_here = b"\\" in part and _ESCAPE in part and any(word in part for word in _HIDING)
            self.may_hide = is_here or any(self._across(part, word) for word in _HIDING)
        self._last = (self._last + part[-len(_STREAM) :])[-len(_STREAM) :]

    def _across(self, part: bytes, word: bytes) -> int:
        """Return how often *word* begins before *part* and ends in it."""
        reach = len(word) - 1
        return (self._last[-reach:] + part[:reach]).count(word)
