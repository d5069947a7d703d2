"""Which session a request is tried on next: directory, wishes, ejections, policy, in that order."""

from collections.abc import Callable, Collection
from typing import Final, TypeAlias

import msgspec

from opentela.core.ids import SessionId
from opentela.core.pieces import Text
from opentela.router.constraints import PIN
from opentela.router.directory import Candidate, Directory, Pool
from opentela.router.fault import Fault, FaultKind, no_such_model
from opentela.router.matching import NO_WISH, Wish, admitted, best_tier, first_tier, unmatched
from opentela.router.outcomes import Outcomes
from opentela.router.policies.base import Call, Policy
from opentela.router.waiting import Waiting

LASTS_MAX_S: Final = 3600.0
"""No request is reckoned to take longer: routers end what does, by default."""
SILENT_S: Final = 3.0
"""Requests wait this long at most for sessions that are all suspected: a host that stood still for
seconds, or was starved, is back within it. Who is dead is not, and clients are to know soon."""
_ALL_TRIED: Final = Fault(
    kind=FaultKind.NO_LIVE_SESSION, message="No other session serves the model now."
)


class Held(msgspec.Struct, frozen=True):
    """Nobody can take the request now, and somebody will.

    Attributes:
        wait_s: How long it may wait for that, from the first time on.
        fault: What it is told when it has waited in vain.
        has_room: Whether one that does not wait yet may begin to.
    """

    wait_s: float
    fault: Fault
    has_room: bool = True


Lasts: TypeAlias = Callable[[str, Text], float]
"""Says how many seconds a request for a model will take, by its body."""
Choose: TypeAlias = Callable[[tuple[SessionId, ...]], Candidate | Fault | Held]
"""Names a session that is not among those tried, or says why there is none yet or at all."""


class Chooser:
    """Chooses among what is known now."""

    def __init__(
        self,
        directory: Directory,
        outcomes: Outcomes,
        policy: Policy,
        *,
        walltime_margin_s: float,
        waiting: Waiting | None = None,
    ) -> None:
        self._waiting = waiting
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
        lasts: Lasts | None = None,
    ) -> Candidate | Fault | Held:
        """Return a session that was not *tried*, or why there is none, or that one will be.

        Args:
            call: What is asked.
            wish: What the client insists on.
            tried: Who had it before.
            now: Monotonic seconds.
            wall: Unix seconds.
            lasts: Asked only if it matters.
        """
        waiting, pool = self._waiting, self._directory.pool(call.model)
        if not pool.candidates:
            return self._absent(call.model, wall)
        if self._is_ordinary(pool, wish, tried, wall):
            return self._policy.pick(call, pool.candidates)
        candidates = admitted(pool, wish, tried, wall=wall)
        if not candidates:
            return _ALL_TRIED if tried else unmatched(call.model, wish, pool.candidates, wall)
        if waiting is not None and waiting.full:
            open_ = [one for one in candidates if one.session not in waiting.full]
            if not open_:
                return self._busy(waiting, call, len(candidates), lasts)
            candidates = open_
        ejected = self._outcomes.ejected(now, pool.candidates)
        if wish.tiers:
            candidates = first_tier(candidates, wish.tiers, ejected)
        tier = best_tier(
            candidates,
            ejected=ejected,
            ends_first_at=pool.ends_first_at,
            ends_before=self._needed_until(call, pool.ends_first_at, wall, lasts),
        )
        return self._policy.pick(call, tier)

    def _is_ordinary(
        self, pool: Pool, wish: Wish, tried: Collection[SessionId], wall: float
    ) -> bool:
        """Return whether nothing tells the candidates apart, as for nearly every request."""
        return (
            wish is NO_WISH
            and not tried
            and self._outcomes.is_clean
            and pool.ends_first_at >= wall + self._margin_s + LASTS_MAX_S
            and not (self._waiting is not None and self._waiting.full)
        )

    def _needed_until(
        self, call: Call, ends_first_at: float, wall: float, lasts: Lasts | None
    ) -> float:
        """Return until when a session should be there, which is reckoned only if one may not."""
        until = wall + self._margin_s
        if lasts is None or ends_first_at >= until + LASTS_MAX_S:
            return until
        return until + min(lasts(call.model, call.body), LASTS_MAX_S)

    def is_pinned(self, model: str) -> bool:
        """Return whether what stands behind the last `@` is a fingerprint and no part of a name."""
        name = model.rpartition(PIN)[0]
        known = self._directory.was_offered
        return bool(name) and not known(model) and known(name)

    def only_model(self) -> str:
        """Return the name of the one model that is served, or nothing when there are several."""
        names = list(self._directory.models())
        return names[0] if len(names) == 1 else ""

    def serves(self, session: SessionId, model: str) -> bool:
        """Return whether *session* serves *model* now."""
        return any(one.session == session for one in self._directory.pool(model).candidates)

    def _busy(
        self, waiting: Waiting, call: Call, sessions: int, lasts: Lasts | None
    ) -> Fault | Held:
        places = sessions * waiting.config.session_requests_max
        ahead = (waiting.depth(call.model) + 1) / places
        fault = Fault(
            kind=FaultKind.MODEL_BUSY,
            message=f"All {sessions} sessions that could serve this request are busy.",
            retry_s=ahead * lasts(call.model, call.body) if lasts is not None else 0.0,
        )
        return _held(waiting, call.model, waiting.config.full_s, fault)

    def _absent(self, model: str, wall: float) -> Fault | Held:
        if not self._directory.was_offered(model):
            return no_such_model(model)
        loading = self._directory.loading(model, wall)
        if loading is not None:
            when = f", the first in about {loading.ready_in_s:.0f} s" if loading.ready_in_s else ""
            fault = Fault(
                kind=FaultKind.MODEL_LOADING,
                message=f"{loading.sessions} sessions are loading the model {model!r}{when}.",
                param="model",
                retry_s=loading.ready_in_s,
            )
            waiting = self._waiting
            if waiting is None:
                return fault
            return _held(waiting, model, waiting.config.loading_s, fault)
        fault = Fault(
            kind=FaultKind.NO_LIVE_SESSION,
            message=f"No session serves the model {model!r} now; try again shortly.",
            param="model",
        )
        waiting = self._waiting
        if waiting is None or not self._directory.silent(model):
            return fault
        return _held(waiting, model, min(SILENT_S, waiting.config.loading_s), fault)


def _held(waiting: Waiting, model: str, wait_s: float, fault: Fault) -> Fault | Held:
    return Held(wait_s, fault, waiting.has_room(model)) if wait_s else fault
