"""What is refused is counted without end and logged within reason."""

import random

from structlog.testing import capture_logs

from opentela.core.refusal import Reason, Rejection
from opentela.telemetry import metrics
from opentela.testing.owner import Owner
from opentela.testing.sim.keys import FakeIdentity
from opentela.view.refusals import LINES_MAX, Refusals

OWNER = Owner(FakeIdentity(random.Random(1)))
REJECTION = Rejection(Reason.FORGED, "why", OWNER.record, OWNER.claim.session)


def _count() -> float:
    value = metrics.REGISTRY.get_sample_value("otela_records_rejected_total", {"reason": "forged"})
    return value or 0.0


def test_a_flood_is_counted_but_not_written_out() -> None:
    """Some lines at once, then one a second; whoever sends rubbish fills no disk."""
    refusals, before = Refusals(), _count()
    with capture_logs() as logs:
        refusals.records(100.0, [REJECTION] * 1000, source="r")
        assert len(logs) == LINES_MAX
        refusals.records(103.0, [REJECTION] * 1000, source="r")
        assert len(logs) == LINES_MAX + 3
    assert _count() == before + 2000


def test_a_line_says_what_and_whence() -> None:
    """All that is needed to find who sent it."""
    with capture_logs() as logs:
        refusals = Refusals()
        refusals.records(0.0, [REJECTION], source="owner")
        refusals.message(0.0, kind="delta", subject="a.b", error=ValueError("bad"))
    assert logs == [
        {
            "event": "record_rejected",
            "log_level": "warning",
            "reason": "forged",
            "session": OWNER.claim.session,
            "source": "owner",
            "error": "why",
        },
        {
            "event": "message_rejected",
            "log_level": "warning",
            "subject": "a.b",
            "error": "bad",
        },
    ]
