"""What we say of our own session: one claim at a time, under an incarnation that only rises."""

from typing import Final, NamedTuple

import msgspec

from opentela.core import ids
from opentela.core.ids import NodeId, ProviderId, SiteId
from opentela.core.record import Claim, Lifecycle, Offer, is_final
from opentela.supervisor.engines.base import EngineLoad
from opentela.wire.control import Beat, Verdict
from opentela.wire.subjects import SessionPath

_LEAP_MAX: Final = 1000
"""By how much others may be ahead of us: a claim or two, if any."""
_ENDED: Final = (Lifecycle.DOWN, Lifecycle.LEFT)


class Place(NamedTuple):
    """Where every session of this supervisor lives."""

    provider: ProviderId
    site: SiteId
    node: NodeId


class OwnSession:
    """One session of ours, from its birth to its end.

    Attributes:
        claim: The latest word on it.
    """

    def __init__(self, place: Place, *, key: str, nonce: bytes, wall: float, offer: Offer) -> None:
        born_at_ms = int(wall * 1000)
        self.claim = Claim(
            session=ids.session_id(born_at_ms, key, nonce),
            provider=place.provider,
            site=place.site,
            node=place.node,
            key=key,
            nonce=nonce,
            born_at_ms=born_at_ms,
            incarnation=1,
            lifecycle=Lifecycle.JOINING,
            offer=offer,
        )

    @property
    def path(self) -> SessionPath:
        """Where the session is addressed."""
        return SessionPath(self.claim.provider, self.claim.site, self.claim.session)

    @property
    def has_left(self) -> bool:
        """Whether nothing more will be said of it."""
        return self.claim.lifecycle is Lifecycle.LEFT

    @property
    def has_ended(self) -> bool:
        """Whether it serves no more, and never will again."""
        return self.claim.lifecycle in _ENDED

    def move(
        self, lifecycle: Lifecycle, *, wall: float, reason: str = "", offer: Offer | None = None
    ) -> bool:
        """Claim *lifecycle* and *offer*; return whether that is news.

        A life never goes back: an earlier lifecycle than the present one is no news.
        """
        now = self.claim
        wanted = msgspec.structs.replace(
            now,
            lifecycle=lifecycle,
            offer=now.offer if offer is None else offer,
            reason=reason,
        )
        if lifecycle < now.lifecycle or wanted == now:
            return False
        ended_at_ms = now.ended_at_ms
        if lifecycle in _ENDED and not ended_at_ms:
            # A clock that was set back must not end a life before its birth.
            ended_at_ms = max(int(wall * 1000), now.born_at_ms)
        self.claim = msgspec.structs.replace(
            wanted, incarnation=now.incarnation + 1, ended_at_ms=ended_at_ms
        )
        return True

    def beat(self, load: EngineLoad, *, running: int, every_s: float) -> Beat:
        """Return a heartbeat; *running* is what we carry, and counts if the engine is mute."""
        return Beat(
            incarnation=self.claim.incarnation,
            running=running if load.running is None else load.running,
            waiting=load.waiting,
            kv_used=load.kv_used,
            every_s=every_s,
        )

    def refute(self, held: int) -> bool:
        """Answer what is held against the present incarnation with a greater; return whether so."""
        mine = self.claim.incarnation
        # Of what we never claimed nobody suspects anything in good faith: we do not count up to it.
        if self.has_ended or not mine <= held <= mine + _LEAP_MAX:
            return False
        self.claim = msgspec.structs.replace(self.claim, incarnation=held + 1)
        return True

    def is_evicted_by(self, verdict: Verdict) -> bool:
        """Return whether the registries hold this session for gone, whatever we say."""
        return is_final(verdict.ending) and not self.has_left
