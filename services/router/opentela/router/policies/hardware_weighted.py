"""`hardware_weighted`: faster sessions get more, by the speed that they have shown.

Two are drawn in proportion to speed, and the one wins at which the request will wait less: what is
under way there, by speed. For fleets of unequal GPUs; where all are alike, `least_load` does the
same for less.
Weighted draws keep slow sessions out of most pairs, the comparison keeps bursts off the fast ones.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from opentela.core.rng import Rng
from opentela.router.directory import Candidate
from opentela.router.policies.base import Call, Observed
from opentela.router.policies.counts import Counts
from opentela.router.policies.speeds import Speeds

LESSONS_BETWEEN: Final = 32
"""Requests that end between two looks at all speeds: one look costs a microsecond a session."""
MODELS_MAX: Final = 1_000


class _Shares:
    """The speeds of some candidates, and their sums from the first on."""

    __slots__ = ("candidates", "lessons", "speeds", "sums")

    def __init__(
        self, candidates: Sequence[Candidate], speeds: Sequence[float], lessons: int
    ) -> None:
        self.candidates = candidates
        self.speeds = speeds
        self.sums = list(accumulate(speeds))
        self.lessons = lessons


class HardwareWeighted:
    """The better of two that were drawn by speed."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._speeds = Speeds()
        self._in_flight = Counts()
        self._shares: dict[str, _Shares] = {}

    def pick(self, call: Call, candidates: Sequence[Candidate]) -> Candidate:
        """Return the one of two at which the request is done sooner."""
        if len(candidates) == 1:
            return candidates[0]
        shares = self._shares_of(call.model, candidates)
        first, second = self._draw_two(shares)
        one, other = candidates[first], candidates[second]
        waits_one = (self._in_flight.of(one.session) + 1) / shares.speeds[first]
        waits_other = (self._in_flight.of(other.session) + 1) / shares.speeds[second]
        return other if waits_other < waits_one else one

    def on_request_start(self, _call: Call, chosen: Candidate) -> None:
        """One more is in flight."""
        self._in_flight.started(chosen.session)

    def on_request_end(self, call: Call, chosen: Candidate, observed: Observed) -> None:
        """One less is in flight, and its session's speed is better known."""
        self._in_flight.ended(chosen.session)
        self._speeds.learn(call.model, chosen, observed)

    def _draw_two(self, shares: _Shares) -> tuple[int, int]:
        """Return two different numbers: with one twice, a session that hangs would be picked."""
        sums, speeds = shares.sums, shares.speeds
        last = len(sums) - 1
        # A sum that rounding made a little smaller than a draw must not lead beyond the last.
        first = min(bisect_right(sums, self._rng.random() * sums[-1]), last)
        drawn = self._rng.random() * (sums[-1] - speeds[first])
        if drawn >= sums[first] - speeds[first]:
            drawn += speeds[first]
        second = min(bisect_right(sums, drawn), last)
        return first, second if second != first else (first + 1) % (last + 1)

    def _shares_of(self, model: str, candidates: Sequence[Candidate]) -> _Shares:
        shares, lessons = self._shares.get(model), self._speeds.lessons
        if (
            shares is None
            or shares.candidates is not candidates
            or lessons >= shares.lessons + LESSONS_BETWEEN
        ):
            speeds = [self._speeds.of(model, one) for one in candidates]
            shares = self._shares[model] = _Shares(candidates, speeds, lessons)
            if len(self._shares) > MODELS_MAX:
                del self._shares[next(iter(self._shares))]
        return shares
