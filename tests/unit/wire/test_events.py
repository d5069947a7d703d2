"""Lifecycle events: JSON that tools in any language read, for ever."""

import msgspec
import pytest

from opentela.core.ids import NodeId, ProviderId, SessionId, SiteId
from opentela.wire.events import DECODER, ENCODER, LifecycleEvent

EVENT = LifecycleEvent(
    id="01.3.SUSPECTED",
    kind="SUSPECTED",
    at="2027-01-15T08:00:00.250Z",
    registry="r",
    provider=ProviderId("p"),
    site=SiteId("s"),
    session=SessionId("01"),
    node=NodeId("n"),
    incarnation=3,
    models=("m",),
    reason="no path from r",
)
GOLDEN = (
    '{"id":"01.3.SUSPECTED","kind":"SUSPECTED","at":"2027-01-15T08:00:00.250Z","registry":"r",'
    '"provider":"p","site":"s","session":"01","node":"n","incarnation":3,"models":["m"],'
    '"reason":"no path from r"}'
)


def test_the_text_of_an_event_never_changes() -> None:
    """Both directions."""
    assert ENCODER.encode(EVENT).decode() == GOLDEN
    assert DECODER.decode(GOLDEN) == EVENT


def test_an_event_of_a_newer_registry_is_read() -> None:
    """Fields that we do not know are passed over."""
    assert DECODER.decode(GOLDEN.replace("{", '{"later":[1],', 1)) == EVENT


def test_an_unknown_kind_is_refused() -> None:
    """Tools count and drop it."""
    with pytest.raises(msgspec.ValidationError):
        DECODER.decode(GOLDEN.replace('"kind":"SUSPECTED"', '"kind":"PUZZLED"'))
