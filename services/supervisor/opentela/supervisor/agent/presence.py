"""The agent as a session of its own: no models, but found, watched and evicted like any other."""

import math
from typing import Final

import msgspec

from opentela.core.record import Lifecycle, Offer
from opentela.core.rng import Rng
from opentela.supervisor.actions import Announce, AnswerProbe, SendBeat
from opentela.supervisor.claims import OwnSession, Place
from opentela.supervisor.config import SupervisorConfig
from opentela.supervisor.events import MeshJoined, ProbeArrived, VerdictArrived
from opentela.supervisor.restart import Backoff
from opentela.wire.control import Beat, Verdict

_BEAT_JITTER: Final = 0.1
_NONCE_BYTES: Final = 8

Said = list[Announce | AnswerProbe | SendBeat]


class Presence:
    """What the agent says of itself.

    Attributes:
        session: The present one; the last one after its end.
    """

    def __init__(
        self, config: SupervisorConfig, *, place: Place, key: str, offer: Offer, rng: Rng
    ) -> None:
        self.session: OwnSession | None = None
        self._config = config
        self._place = place
        self._key = key
        self._offer = offer
        self._rng = rng
        self._renewals = Backoff(config.restart, rng)
        self._begin_at = -math.inf
        self._beat_at = math.inf

    def due(self, now: float, wall: float, *, running: int, is_leaving: bool) -> Said:
        """Return what is to be said by now."""
        said: Said = []
        if now >= self._begin_at:
            self._begin_at = math.inf
            if not is_leaving:
                said += self._begin(now, wall)
        if now >= self._beat_at:
            said += self._beat(now, running)
        return said

    def next_deadline(self) -> float:
        """Return when something is to be said next."""
        return min(self._begin_at, self._beat_at)

    def move(self, lifecycle: Lifecycle, wall: float, reason: str = "") -> Said:
        """Return the claim of *lifecycle*, if that is news."""
        session = self.session
        if session and session.move(lifecycle, wall=wall, reason=reason):
            return [Announce(session.claim)]
        return []

    def prolong(self, ends_at: float, wall: float) -> Said:
        """Return the offer with another end of its allocation; 0 for none."""
        self._offer = msgspec.structs.replace(self._offer, walltime_ends_at=ends_at)
        session = self.session
        if session is None:
            return []
        lifecycle, reason = session.claim.lifecycle, session.claim.reason
        is_news = session.move(lifecycle, wall=wall, reason=reason, offer=self._offer)
        return [Announce(session.claim)] if is_news else []

    def take_in(
        self, now: float, wall: float, event: ProbeArrived | VerdictArrived | MeshJoined
    ) -> Said:
        """Return what is to be said to what registries said, or to a mesh that is back."""
        match event:
            case ProbeArrived():
                return self._answer(event)
            case VerdictArrived(verdict=verdict):
                return self._hear(now, wall, verdict)
            case MeshJoined():
                # What was said before may be lost.
                return [Announce(self.session.claim)] if self.session else []

    def _answer(self, arrived: ProbeArrived) -> Said:
        session = self.session
        if session is None:
            return []
        refuted = self._refute(arrived.probe.suspected)
        return [*refuted, AnswerProbe(session.path, arrived.probe.sequence, arrived.reply)]

    def _hear(self, now: float, wall: float, verdict: Verdict) -> Said:
        """Refute a suspicion; follow an eviction by a new session, if that is no habit."""
        session = self.session
        if session is None or verdict.session != session.claim.session:
            return []
        if not session.is_evicted_by(verdict):
            return self._refute(verdict.held)
        if math.isinf(self._begin_at) and not session.has_ended:
            if wall - session.claim.born_at_ms / 1000 >= self._config.restart.steady_s:
                self._renewals.reset()
            self._begin_at = now + self._renewals.next()
        return []

    def _begin(self, now: float, wall: float) -> Said:
        left = self.move(Lifecycle.LEFT, wall, "followed by a new session")
        self.session = OwnSession(
            self._place,
            key=self._key,
            nonce=self._rng.randbytes(_NONCE_BYTES),
            wall=wall,
            offer=self._offer,
        )
        self._beat_at = now + self._beat_interval_s()
        return [*left, Announce(self.session.claim)]

    def _refute(self, held: int) -> Said:
        session = self.session
        return [Announce(session.claim)] if session and session.refute(held) else []

    def _beat(self, now: float, running: int) -> Said:
        every_s = self._beat_interval_s()
        self._beat_at = now + every_s
        session = self.session
        if session is None or session.has_left:
            return []
        beat = Beat(incarnation=session.claim.incarnation, running=running, every_s=every_s)
        return [SendBeat(session.path, beat)]

    def _beat_interval_s(self) -> float:
        return self._config.beat_s * (1 + _BEAT_JITTER * (2 * self._rng.random() - 1))
