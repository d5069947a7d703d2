"""`least_load`: the better of two drawn by lot, by what this router has under way there.

Power of two choices: nearly as even as asking all, and routers that do not know of each other do
not all run to the same session. Mitzenmacher, "The Power of Two Choices in Randomized Load
Balancing", 2001.
"""

from collections.abc import Sequence

from opentela.core.ids import SessionId
from opentela.core.rng import Rng
from opentela.router.directory import Candidate
from opentela.router.policies.base import Call


class LeastLoad:
    """Fewest requests in flight of two candidates; the first drawn when they are equal."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._in_flight: dict[SessionId, int] = {}

    def pick(self, _call: Call, candidates: Sequence[Candidate]) -> Candidate:
        """Return the less loaded of two different candidates."""
        count = len(candidates)
        if count == 1:
            return candidates[0]
        first = self._rng.randrange(count)
        second = self._rng.randrange(count - 1)
        one, other = candidates[first], candidates[second + (second >= first)]
        load = self._in_flight
        return other if load.get(other.session, 0) < load.get(one.session, 0) else one

    def on_request_start(self, _call: Call, chosen: Candidate) -> None:
        """One more is in flight."""
        self._in_flight[chosen.session] = self._in_flight.get(chosen.session, 0) + 1

    def on_request_end(self, _call: Call, chosen: Candidate) -> None:
        """One less is in flight; a session with none is not remembered."""
        left = self._in_flight.get(chosen.session, 0) - 1
        assert left >= 0, f"an end without a start at {chosen.session}"
        if left:
            self._in_flight[chosen.session] = left
        else:
            del self._in_flight[chosen.session]
