"""What attempts say about sessions: those that fail are ejected for a while, then tried once.

Passive outlier ejection as in Envoy, with a half-open trial as of a circuit breaker. What an engine
answers to a bad request says nothing against it: only transport failures, time-outs and runs of
5xx count.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

from opentela.core.ids import SessionId
from opentela.router.config import EjectionConfig
from opentela.router.directory import Candidate

SESSIONS_MAX: Final = 10_000
"""Failing sessions that are followed; the longest followed are forgotten first."""


class Result(Enum):
    """How one attempt ended, as far as its session is concerned."""

    ANSWERED = "answered"  # with anything below 500
    ERRORED = "errored"  # the engine answered 5xx, or told of an error within a stream
    REFUSED = "refused"  # the session takes no new work
    FAILED = "failed"  # no answer, or half an answer
    TIMED_OUT = "timed_out"  # no byte for too long
    CANCELLED = "cancelled"  # the client left


class _Record:
    """What is held against one session."""

    __slots__ = ("ejected_until", "errors", "failures", "is_on_trial")

    def __init__(self) -> None:
        self.failures = 0
        self.errors = 0
        self.ejected_until = 0.0
        self.is_on_trial = False


class Outcomes:
    """Which sessions to take last."""

    def __init__(self, config: EjectionConfig) -> None:
        self._config = config
        self._records: dict[SessionId, _Record] = {}

    @property
    def is_clean(self) -> bool:
        """Whether nothing is held against any session."""
        return not self._records

    def start(self, now: float, session: SessionId) -> None:
        """Take note that an attempt begins; the first one after an ejection is its trial."""
        record = self._records.get(session)
        if record is not None and 0 < record.ejected_until <= now:
            record.is_on_trial = True

    def end(self, now: float, session: SessionId, result: Result) -> None:
        """Take note of how an attempt ended."""
        if result is Result.ANSWERED:
            self._records.pop(session, None)
            return
        record = self._records.get(session)
        if result is Result.CANCELLED:
            if record is not None:
                record.is_on_trial = False
            return
        if record is None:
            record = self._records[session] = _Record()
            if len(self._records) > SESSIONS_MAX:
                del self._records[next(iter(self._records))]
        record.is_on_trial = False
        self._hold_against(now, record, result)

    def forget(self, session: SessionId) -> None:
        """Drop what is held against a session that is gone."""
        self._records.pop(session, None)

    def ejected(self, now: float, candidates: Sequence[Candidate]) -> Sequence[SessionId]:
        """Return the sessions among *candidates* to be taken last, never more than their share."""
        if not self._records:
            return ()
        out = [
            (record.ejected_until, candidate.session)
            for candidate in candidates
            if (record := self._records.get(candidate.session)) is not None
            and (record.ejected_until > now or record.is_on_trial)
        ]
        allowed = int(len(candidates) * self._config.share_max)
        # Who has served most of its time comes back first.
        return [session for _, session in sorted(out, reverse=True)[:allowed]]

    def _hold_against(self, now: float, record: _Record, result: Result) -> None:
        config = self._config
        if result is Result.REFUSED:
            record.ejected_until = max(record.ejected_until, now + config.refused_s)
            return
        if result is Result.ERRORED:
            record.errors += 1
            if record.errors < config.errors_max:
                return
        record.errors = 0
        record.failures += 1
        # Attempts that were under way together fail together: the exponent is bounded first.
        doubled = config.eject_s * 2.0 ** min(record.failures - 1, 16)
        record.ejected_until = now + min(doubled, config.eject_max_s)
