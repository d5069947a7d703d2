"""How long a request will take: what it asks for at most, and how long those before it took.

A request is as long as its answer, so the forecast is a pace, seconds per token, times the tokens
that may come. A bound that a client sets by habit, thousands of tokens for answers of a hundred,
says little: what answers of the model came to in the past counts where it is less.
"""

import re
from collections import deque
from typing import Final

import msgspec

KEPT: Final = 64
"""Answers that a forecast rests on: the last ones, so that it follows what is asked now."""
TRUSTED_MIN: Final = 8
"""With fewer answers than this, what was seen does not speak against what was asked for."""
PACE_GUESS_S: Final = 0.02
"""A token's time before any was seen: that of a middling model on one GPU."""
_HIGH: Final = 0.95
"""The share of answers that are no longer than the forecast; a few are always longer."""
_AHEAD: Final = 2.0
"""An answer may be so many times as long as the long ones of the past."""
_RENEW: Final = 8
"""Answers between two reckonings of the quantiles."""
_BOUND: Final = re.compile(rb'"max_(?:completion_|output_|new_)?tokens"\s*:\s*(\d{1,9})(?![\d.eE])')


class _Body(msgspec.Struct):
    max_tokens: object = None
    max_completion_tokens: object = None
    max_output_tokens: object = None


_decode: Final = msgspec.json.Decoder(_Body).decode


def tokens_asked(body: bytes, *, is_whole: bool = True) -> int:
    """Return the tokens that a request takes at most; 0 when it does not say.

    Args:
        body: JSON, or how it begins.
        is_whole: Nothing of it is missing; a part is searched for the bound, not read.
    """
    if not is_whole:
        found = _BOUND.search(body)
        return int(found[1]) if found else 0
    try:
        read = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0
    given = (read.max_completion_tokens, read.max_output_tokens, read.max_tokens)
    return next((one for one in given if type(one) is int and one > 0), 0)


class Forecast:
    """What the answers of one model came to lately."""

    __slots__ = ("_answers", "_duration_s", "_pace_s", "_since", "_tokens")

    def __init__(self) -> None:
        self._answers: deque[tuple[float, int]] = deque(maxlen=KEPT)
        self._since = 0
        self._duration_s = 0.0
        self._pace_s = PACE_GUESS_S
        self._tokens = 0

    def learn(self, duration_s: float, tokens: int) -> None:
        """Take note of an answer that came whole; 0 tokens when nobody counted them."""
        self._answers.append((duration_s, tokens))
        self._since += 1
        if self._since >= _RENEW or len(self._answers) <= _RENEW:
            self._since = 0
            self._reckon()

    def lasts_s(self, tokens_max: int = 0) -> float:
        """Return how long a request will take that asks for at most *tokens_max*; 0 = unbounded."""
        is_trusted = len(self._answers) >= TRUSTED_MIN
        if not tokens_max:
            return self._duration_s
        bounded_s = self._pace_s * tokens_max
        return min(bounded_s, _AHEAD * self._duration_s) if is_trusted else bounded_s

    def _reckon(self) -> None:
        self._duration_s = _high([duration_s for duration_s, _ in self._answers])
        paces = [duration_s / tokens for duration_s, tokens in self._answers if tokens]
        if paces:
            self._pace_s = _high(paces)


def _high(values: list[float]) -> float:
    """Return what nearly all *values* are not above."""
    values.sort()
    return values[min(len(values) - 1, int(_HIGH * len(values)))]
