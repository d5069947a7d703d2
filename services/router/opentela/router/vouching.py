"""Which suspected sessions a router goes on using, because their own channels to it answer.

Registries suspect whom they cannot reach; a site whose link to the hub broke may still be dialled,
or have dialled, this router. What comes on such a channel after that is better evidence, for this
router alone; what came before says nothing of a link that has just gone silent, and would keep its
session in use for longer than registries take to find it. A process of the session speaks there
every two seconds, so one that froze later is vouched for no longer than that; a frozen engine is
found by the time-outs of its streams. Nobody is once registries have ended the session for good.
"""

from collections.abc import Callable, Iterable
from typing import Final

from opentela.core.ids import SessionId
from opentela.core.record import (
    Lifecycle,
    SessionRecord,
    claim_of,
    is_suspected,
    lifecycle_of,
)
from opentela.wire.subjects import SessionPath

HEARD_WITHIN_S: Final = 2.5
"""Both ends of a channel speak every two seconds; the rest is for a busy loop."""
LOOK_EVERY_S: Final = 0.5
"""Between two looks at suspected sessions that have channels."""

HeardAt = Callable[[SessionPath], float]
"""Returns when a session's channel last brought anything; 0 when there is no channel."""


class Vouching:
    """Keeps what is suspected apart, and says of whom the opinion has changed."""

    def __init__(self, heard_at: HeardAt) -> None:
        self._heard_at = heard_at
        self._suspected: dict[SessionId, SessionRecord] = {}
        self._since: dict[SessionId, float] = {}
        self._vouched: dict[SessionId, None] = {}

    @property
    def has_suspects(self) -> bool:
        """Return whether there is anybody to look at."""
        return bool(self._suspected)

    def vouches_for(self, session: SessionId) -> bool:
        """Return whether requests may go on to a session although it is suspected."""
        return session in self._vouched

    def take(self, now: float, changed: Iterable[SessionRecord]) -> None:
        """Take in records, before anybody asks about them."""
        for record in changed:
            session = claim_of(record).session
            if is_suspected(record) and lifecycle_of(record) is Lifecycle.SERVING:
                self._suspected[session] = record
                self._since.setdefault(session, now)
                self._judge(now, session, record)
            else:
                self._suspected.pop(session, None)
                self._since.pop(session, None)
                self._vouched.pop(session, None)

    def look(self, now: float) -> list[SessionRecord]:
        """Return the records of those of whom the opinion has changed since."""
        return [
            record
            for session, record in self._suspected.items()
            if self._judge(now, session, record)
        ]

    def _judge(self, now: float, session: SessionId, record: SessionRecord) -> bool:
        claim = claim_of(record)
        path = SessionPath(claim.provider, claim.site, claim.session)
        heard_at, was = self._heard_at(path), session in self._vouched
        answers = heard_at > self._since[session] and now - heard_at <= HEARD_WITHIN_S
        if answers:
            self._vouched[session] = None
        else:
            self._vouched.pop(session, None)
        return answers is not was
