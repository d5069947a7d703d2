"""At which rates the requests of one model came: minute by minute, the older the less."""

import math
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

MINUTE_S: Final = 60.0
"""Parts of the past for which it is counted what was asked: as long as people wait."""
LISTENED_S: Final = 10.0
"""Who has listened for less divides by this."""
_STEP: Final = math.sqrt(2.0)
"""Rates of the long memory are told apart by this factor."""
_FADED: Final = 1e-6
"""Requests that are left of a rate when it is forgotten."""


class Rate(NamedTuple):
    """A rate at which requests came.

    Attributes:
        rate_rps: Mean of a minute.
        weight: Requests a second that are expected to come in such minutes.
    """

    rate_rps: float
    weight: float


class Levels:
    """Counts the requests of one model.

    Args:
        window_s: For which every minute is remembered.
        memory_s: In which the memory of those before fades; 0 for none.
    """

    def __init__(self, now: float, window_s: float, memory_s: float) -> None:
        # Of a window that is not much longer than a minute, minutes would be too coarse.
        self._part_s = min(MINUTE_S, window_s / 2)
        self._window = math.ceil(window_s / self._part_s)
        self._memory_s = memory_s
        self._minutes: deque[tuple[int, float]] = deque()
        self._past: dict[int, float] = {}
        self._faded_at = now

    def add(self, at: float, requests: float) -> None:
        """Count *requests* that came at *at*, which is now or not long ago."""
        minute = math.floor(at / self._part_s)
        minutes = self._minutes
        later: list[tuple[int, float]] = []
        while minutes and minutes[-1][0] > minute:
            later.append(minutes.pop())
        before = minutes.pop()[1] if minutes and minutes[-1][0] == minute else 0.0
        minutes.append((minute, before + requests))
        minutes.extend(reversed(later))

    def recent(self, now: float, listened_s: float) -> Iterator[Rate]:
        """Yield the minutes of the window as far as they were listened to."""
        self._forget(now)
        span_s = min(self._window * self._part_s, max(listened_s, LISTENED_S))
        for minute, requests in self._minutes:
            yield Rate(requests / self._lasts_s(now, minute, listened_s), requests / span_s)

    def past(self, now: float, listened_s: float) -> Iterator[Rate]:
        """Yield the rates of the long memory, this window's included."""
        self._forget(now)
        if not self._memory_s:
            return
        self._fade(now)
        counts = dict(self._past)
        for minute, requests in self._minutes:
            step = _step(requests / self._lasts_s(now, minute, listened_s))
            counts[step] = counts.get(step, 0.0) + requests
        span_s = self._memory_s * -math.expm1(-max(listened_s, LISTENED_S) / self._memory_s)
        for step, requests in sorted(counts.items()):
            yield Rate(_STEP**step, requests / span_s)

    def _forget(self, now: float) -> None:
        """Let minutes that have left the window become part of the long memory."""
        first = math.floor(now / self._part_s) - self._window
        while self._minutes and self._minutes[0][0] < first:
            _, requests = self._minutes.popleft()
            if self._memory_s:
                self._fade(now)
                step = _step(requests / self._part_s)
                self._past[step] = self._past.get(step, 0.0) + requests

    def _lasts_s(self, now: float, minute: int, listened_s: float) -> float:
        """Return over how many seconds the requests of *minute* came.

        Of a minute that has just begun nobody knows what it will be like.
        """
        part_s = self._part_s
        lasts_s = min(max(now - minute * part_s, part_s / 2), part_s)
        return min(lasts_s, max(listened_s, LISTENED_S))

    def _fade(self, now: float) -> None:
        left = math.exp(min(0.0, self._faded_at - now) / self._memory_s)
        self._faded_at = now
        self._past = {step: n * left for step, n in self._past.items() if n * left > _FADED}


def _step(rate_rps: float) -> int:
    """Return which power of `_STEP` is nearest."""
    return round(math.log(rate_rps, _STEP))
