"""`least_load`: the better of two drawn by lot, by what this router has under way there.

Power of two choices: nearly as even as asking all, and routers that do not know of each other do
not all run to the same session. For fleets of equal engines; it takes a slow session for as good as
a fast one until requests pile up there. Mitzenmacher, "The Power of Two Choices in Randomized Load
Balancing", 2001.
"""

from collections.abc import Sequence

from opentela.core.rng import Rng
from opentela.router.directory import Candidate
from opentela.router.policies.base import Call, Observed
from opentela.router.policies.counts import Counts


class LeastLoad:
    """Fewest requests in flight of two candidates; the first drawn when they are equal."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._in_flight = Counts()

    def pick(self, _call: Call, candidates: Sequence[Candidate]) -> Candidate:
        """Return the less loaded of two different candidates."""
        count = len(candidates)
        if count == 1:
            return candidates[0]
        first = self._rng.randrange(count)
        second = self._rng.randrange(count - 1)
        one, other = candidates[first], candidates[second + (second >= first)]
        load = self._in_flight.of
        return other if load(other.session) < load(one.session) else one

    def on_request_start(self, _call: Call, chosen: Candidate) -> None:
        """One more is in flight."""
        self._in_flight.started(chosen.session)

    def on_request_end(self, _call: Call, chosen: Candidate, _observed: Observed) -> None:
        """One less is in flight."""
        self._in_flight.ended(chosen.session)
