"""`round_robin`: each session in turn, however the set of them changes."""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from opentela.core.ids import SessionId
from opentela.core.rng import Rng
from opentela.router.directory import Candidate
from opentela.router.policies.base import Call, Observed

MODELS_MAX: Final = 10_000
"""Models whose turn is remembered; the longest known are forgotten first."""

_session: Final = attrgetter("session")


class RoundRobin:
    """The session after the last one picked, in order of session id.

    The turn is a place in the order and not a count, so that a session that joins or leaves
    makes nobody be picked twice or left out.
    """

    def __init__(self, _rng: Rng) -> None:
        self._last: dict[str, SessionId] = {}

    def pick(self, call: Call, candidates: Sequence[Candidate]) -> Candidate:
        """Return the candidate whose turn it is."""
        last = self._last.get(call.model)
        place = 0 if last is None else bisect_right(candidates, last, key=_session)
        chosen = candidates[place % len(candidates)]
        if last is None and len(self._last) >= MODELS_MAX:
            del self._last[next(iter(self._last))]
        self._last[call.model] = chosen.session
        return chosen

    def on_request_start(self, call: Call, chosen: Candidate) -> None:
        """Nothing is counted."""

    def on_request_end(self, call: Call, chosen: Candidate, observed: Observed) -> None:
        """Nothing is counted."""
