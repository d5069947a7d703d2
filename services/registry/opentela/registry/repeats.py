"""Verdicts that are said again: else whoever misses one waits for the next comparison of maps.

A verdict is published when it is reached, once. A view that loses it, or the answers of its next
comparisons, would send requests to the dead meanwhile. So a registry repeats its word a few times,
with growing gaps, for as long as it stands: what is refuted is not said again.
"""

from collections import OrderedDict
from typing import Final

from opentela.core.ids import SessionId
from opentela.core.record import SessionRecord, names_of
from opentela.core.session_map import SessionMap
from opentela.registry.judgement import verdict_on
from opentela.registry.messages import PublishVerdict
from opentela.registry.throttle import KEYS_MAX
from opentela.view import exchange

GAPS_S: Final = (0.5, 1.5, 3.5, 7.5)
"""From one time to the next, at least; with rounds of 1 s, after some 1, 3, 7 and 15 s."""
AT_ONCE_MAX: Final = 64
"""Repeats a round, some 1 KB each; those that are left over wait for the next round."""


class Repeats:
    """Which verdicts of the registry *name* are to be said again, and when."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._due: OrderedDict[SessionId, tuple[float, int]] = OrderedDict()

    def said(self, session: SessionId, now: float) -> None:
        """Take note that a verdict on *session* was published for the first time."""
        self._due[session] = now + GAPS_S[0], 0
        self._due.move_to_end(session)
        if len(self._due) > KEYS_MAX:
            self._due.popitem(last=False)

    def due(self, now: float, held: SessionMap) -> list[PublishVerdict]:
        """Return what is to be said again now."""
        actions: list[PublishVerdict] = []
        for session, (at, times) in tuple(self._due.items()):
            if at > now or len(actions) == AT_ONCE_MAX:
                continue
            record = held.get(session)
            if record is None or not self._stands(record):
                del self._due[session]
                continue
            if times + 1 < len(GAPS_S):
                self._due[session] = now + GAPS_S[times + 1], times + 1
            else:
                del self._due[session]
            verdict = verdict_on(record, registry=self._name)
            actions.append(PublishVerdict(path=exchange.path_to(record), verdict=verdict))
        return actions

    def _stands(self, record: SessionRecord) -> bool:
        return self._name in names_of((*record.witnesses, *record.ending))
