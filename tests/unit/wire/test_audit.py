"""Audit events are JSON that any language reads."""

import msgspec
import pytest

from opentela.core.errors import WireError
from opentela.wire import audit
from opentela.wire.audit import AUDIT_BYTES_MAX, Asked, AuditEvent, Placed

EVENT = AuditEvent(
    id="i",
    kind="PLANNED",
    at="2026-01-01T00:00:00Z",
    placer="one",
    term=3,
    reason="a waits",
    asked=(Asked(model="a", rate_rps=1.0),),
    placed=(Placed(model="a", pool="x", tp=1, planned=1),),
)


def test_an_event_is_read_as_it_was_written() -> None:
    """And what says nothing is left out."""
    payload = audit.encode(EVENT)
    assert audit.read_audit(payload) == EVENT
    assert "command" not in msgspec.json.decode(payload)


@pytest.mark.parametrize("payload", [b"", b"{}", b" " * (AUDIT_BYTES_MAX + 1)])
def test_what_is_no_event_is_refused(payload: bytes) -> None:
    """Readers count it and go on."""
    with pytest.raises(WireError):
        audit.read_audit(payload)
