"""Which session a request is tried on next: directory, wishes, ejections, policy, in that order."""

from collections.abc import Collection
from typing import Final

from opentela.core.ids import SessionId
from opentela.router.directory import Candidate, Directory
from opentela.router.fault import Fault, FaultKind, no_such_model
from opentela.router.matching import Wish, admitted, best_tier
from opentela.router.outcomes import Outcomes
from opentela.router.policies.base import Call, Policy

_ALL_TRIED: Final = Fault(
    kind=FaultKind.NO_LIVE_SESSION, message="No other session serves the model now."
)


class Chooser:
    """Chooses among what is known now."""

    def __init__(
        self, directory: Directory, outcomes: Outcomes, policy: Policy, *, walltime_margin_s: float
    ) -> None:
        self._directory = directory
        self._outcomes = outcomes
        self._policy = policy
        self._margin_s = walltime_margin_s

    def choose(
        self,
        call: Call,
        wish: Wish,
        tried: Collection[SessionId],
        *,
        now: float,
        wall: float,
    ) -> Candidate | Fault:
        """Return a session that was not *tried*, or why there is none."""
        pool = self._directory.pool(call.model)
        if not pool.candidates:
            return self._absent(call.model)
        candidates = admitted(pool, wish, tried)
        if not candidates:
            return _ALL_TRIED if tried else _unmatched(call.model, wish)
        tier = best_tier(
            candidates,
            ejected=self._outcomes.ejected(now, pool.candidates),
            ends_first_at=pool.ends_first_at,
            ends_before=wall + self._margin_s,
        )
        return self._policy.pick(call, tier)

    def _absent(self, model: str) -> Fault:
        if not self._directory.was_offered(model):
            return no_such_model(model)
        return Fault(
            kind=FaultKind.NO_LIVE_SESSION,
            message=f"No session serves the model {model!r} now; try again shortly.",
            param="model",
        )


def _unmatched(model: str, wish: Wish) -> Fault:
    return Fault(
        kind=FaultKind.NO_MATCHING_SESSION,
        message=f"No session that serves the model {model!r} matches {wish}.",
    )
