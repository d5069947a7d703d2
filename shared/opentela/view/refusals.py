"""What is refused is counted and logged, but nobody can fill a disk by sending rubbish."""

from collections.abc import Iterable
from typing import Final

from opentela.core.refusal import Rejection
from opentela.telemetry import metrics
from opentela.telemetry.log import get_logger

log: Final = get_logger()

LINES_MAX: Final = 50
"""Lines that may come at once; after them `LINES_PER_S`, while counting goes on."""
LINES_PER_S: Final = 1.0

_records: Final = metrics.counter(
    "otela_records_rejected_total", "Session records that were refused.", ("reason",)
)
_messages: Final = metrics.counter(
    "otela_messages_rejected_total", "Control messages that could not be read.", ("kind",)
)


class Refusals:
    """Counts everything that one receiver refuses, and logs as much of it as is of use."""

    def __init__(self) -> None:
        self._lines = float(LINES_MAX)
        self._at = 0.0

    def records(self, now: float, rejected: Iterable[Rejection], *, source: str) -> None:
        """Report records that were refused."""
        for rejection in rejected:
            _records.labels(rejection.reason.value).inc()
            if self._may_log(now):
                log.warning(
                    "record_rejected",
                    reason=rejection.reason.value,
                    session=rejection.session,
                    source=source,
                    error=rejection.detail,
                )

    def message(self, now: float, *, kind: str, subject: str, error: Exception) -> None:
        """Report bytes that are no message of ours."""
        _messages.labels(kind).inc()
        if self._may_log(now):
            log.warning("message_rejected", subject=subject, error=str(error))

    def _may_log(self, now: float) -> bool:
        self._lines = min(LINES_MAX, self._lines + (now - self._at) * LINES_PER_S)
        self._at = now
        if self._lines < 1:
            return False
        self._lines -= 1
        return True
