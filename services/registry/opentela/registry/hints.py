"""What others than sessions and registries say of sessions: reasons to look, and never verdicts.

A provider's scheduler knows that a job is over, or that it runs; a router, that its requests fail.
Either makes a registry probe at once instead of at the next late beat, and only so often, whoever
asks for more. Nobody is suspected for what a router says: only for finding nobody there.
"""

from typing import Final

from opentela.core.record import Lifecycle, lifecycle_of
from opentela.core.refusal import Reason
from opentela.core.session_map import SessionMap
from opentela.registry.detector import Detector
from opentela.registry.messages import Action, Refused
from opentela.registry.throttle import Budget, Throttle
from opentela.view import exchange
from opentela.wire.control import Advice
from opentela.wire.subjects import SessionPath

LOOK_EVERY_S: Final = 1.0
"""Seconds between two looks at one session because of routers; its beats are as often."""
LOOKS_PER_S: Final = 100.0
"""Looks because of routers, at all sessions together: a probe and an answer each, some 300 B."""


class Hints:
    """Hears what may be the matter, and has it looked into."""

    def __init__(self, held: SessionMap, detector: Detector) -> None:
        self._held = held
        self._detector = detector
        self._looks = Throttle(LOOK_EVERY_S)
        self._budget = Budget(LOOKS_PER_S)

    def advised(self, now: float, path: SessionPath, advice: Advice) -> list[Action]:
        """Take what a provider's scheduler knows of one of its own sessions."""
        record = self._held.get(path.session)
        if record is None:
            return []
        if exchange.path_to(record) != path:
            detail = f"advice over the subject of {'.'.join(path)}"
            foreign = self._held.refuse(Reason.FOREIGN, detail, record)
            return [Refused(rejected=(foreign,), source="advice")]
        if lifecycle_of(record) < Lifecycle.DOWN:
            self._detector.advise(path.session, now, alive=advice.alive)
        return []

    def sighted(self, now: float, path: SessionPath) -> None:
        """Take what a router saw; it says nothing against a session that answers."""
        record = self._held.get(path.session)
        if record is None or exchange.path_to(record) != path:
            return
        if self._looks.may(path.session, now) and self._budget.may(now):
            self._detector.doubt(path.session, now)
