"""`random`: every session is as likely as any other."""

from collections.abc import Sequence

from opentela.core.rng import Rng
from opentela.router.directory import Candidate
from opentela.router.policies.base import Call, Observed


class Random:
    """A fair draw; remembers nothing."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng

    def pick(self, _call: Call, candidates: Sequence[Candidate]) -> Candidate:
        """Return a candidate by lot."""
        return candidates[self._rng.randrange(len(candidates))]

    def on_request_start(self, call: Call, chosen: Candidate) -> None:
        """Nothing is counted."""

    def on_request_end(self, call: Call, chosen: Candidate, observed: Observed) -> None:
        """Nothing is counted."""
