"""How long a request will take: what it asks for at most, and how long others like it took.

A request is as long as its answer, so the forecast is a pace, seconds per token, times the tokens
that may come. A bound that a client sets by habit, thousands of tokens for answers of a hundred,
says little: what requests with about the same bound took in the past counts where it is less.
"""

import re
from collections import deque
from typing import Final

from opentela.core.pieces import Text

KEPT: Final = 64
"""Answers that a pace rests on: the last ones, so that it follows what is asked now."""
ALIKE_KEPT: Final = 32
"""The same of requests with bounds alike, which are those of one power of two."""
TRUSTED_MIN: Final = 8
"""With fewer answers than this, what was seen does not speak against what was asked for."""
PACE_GUESS_S: Final = 0.02
"""A token's time before any was seen: that of a middling model on one GPU."""
_HIGH: Final = 0.95
"""The share of answers that are no longer than the forecast; a few are always longer."""
_AHEAD: Final = 2.0
"""An answer may be so many times as long as the long ones of the past."""
_RENEW: Final = 8
"""Answers between two reckonings of a quantile."""
_WINDOW_BYTES: Final = 8192
"""Of a large body, the beginning and the end are searched for its bound: what is large is prompts
and images, and no client puts its numbers between two of them."""
_WORD: Final = b'"max_'
# In a prompt these quotes are escaped: the second one is then no quote right behind the word.
_BOUND: Final = re.compile(rb'"max_(?:completion_|output_|new_)?tokens"\s*:\s*(\d{1,9})(?![\d.eE])')


def tokens_asked(body: Text) -> int:
    """Return the tokens that a request takes at most, from its body; 0 when it does not say."""
    if not isinstance(body, bytes) or len(body) > 2 * _WINDOW_BYTES:
        body = body[:_WINDOW_BYTES] + b"\n" + body[-_WINDOW_BYTES:]
    if _WORD not in body:
        return 0
    return max((int(found) for found in _BOUND.findall(body)), default=0)


class _High:
    """What nearly all of the last values are not above."""

    __slots__ = ("_since", "_values", "value")

    def __init__(self, kept: int) -> None:
        self.value = 0.0
        self._values: deque[float] = deque(maxlen=kept)
        self._since = 0

    @property
    def is_trusted(self) -> bool:
        return len(self._values) >= TRUSTED_MIN

    def add(self, value: float) -> None:
        self._values.append(value)
        self._since += 1
        if self._since >= _RENEW or len(self._values) <= _RENEW:
            self._since = 0
            ordered = sorted(self._values)
            self.value = ordered[min(len(ordered) - 1, int(_HIGH * len(ordered)))]


class Forecast:
    """What the answers of one model came to lately."""

    __slots__ = ("_alike", "_all", "_pace")

    def __init__(self) -> None:
        self._all = _High(KEPT)
        self._pace = _High(KEPT)
        self._alike: dict[int, _High] = {}

    @property
    def is_trusted(self) -> bool:
        """Whether it rests on answers enough to be held against a request."""
        return self._all.is_trusted

    def learn(self, duration_s: float, *, tokens: int = 0, tokens_max: int = 0) -> None:
        """Take note of an answer that came whole.

        Args:
            duration_s: From the request to its end.
            tokens: That were counted; 0 when nobody did.
            tokens_max: That were asked for at most; 0 when there was no bound.
        """
        self._all.add(duration_s)
        if tokens:
            self._pace.add(duration_s / tokens)
        kind = tokens_max.bit_length()
        alike = self._alike.get(kind)
        if alike is None:
            alike = self._alike[kind] = _High(ALIKE_KEPT)
        alike.add(duration_s)

    def lasts_s(self, tokens_max: int = 0) -> float:
        """Return how long a request will take that asks for at most *tokens_max*; 0: unbounded."""
        alike = self._alike.get(tokens_max.bit_length())
        if not tokens_max:
            return alike.value if alike is not None and alike.is_trusted else self._all.value
        bounded_s = (self._pace.value or PACE_GUESS_S) * tokens_max
        if alike is None or not alike.is_trusted:
            return bounded_s
        return min(bounded_s, _AHEAD * alike.value)
