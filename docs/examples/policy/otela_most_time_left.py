"""`most_time_left`: the better of two drawn by lot, by how long its allocation lasts.

    pip install ./docs/examples/policy
    otela router --config router.toml --set policy=most_time_left

The older of two jobs is left alone, and ends with less to drain. It does not look at load, which a
policy for daily use should; see `least_load.py` of the project.
"""

from collections.abc import Sequence

from opentela.core.rng import Rng
from opentela.router.directory import Candidate
from opentela.router.policies.base import Call, Observed


class MostTimeLeft:
    """Of two candidates the one that ends later."""

    def __init__(self, rng: Rng) -> None:
        """Draw from *rng* alone: then a seed replays every choice in a test."""
        self._rng = rng

    def pick(self, _call: Call, candidates: Sequence[Candidate]) -> Candidate:
        """Return one of *candidates*; there is always at least one."""
        one, other = (candidates[self._rng.randrange(len(candidates))] for _ in range(2))
        return max(one, other, key=lambda candidate: candidate.ends_at)

    def on_request_start(self, call: Call, chosen: Candidate) -> None:
        """Take note that an attempt at *chosen* begins; count here what is under way."""

    def on_request_end(self, call: Call, chosen: Candidate, observed: Observed) -> None:
        """Take note that it ended, how, how long it took and how many tokens it brought."""
