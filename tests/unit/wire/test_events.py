"""Lifecycle events: JSON that tools in any language read, for ever."""

from pathlib import Path

import jsonschema
import msgspec
import pytest

from opentela.core.ids import NodeId, ProviderId, SessionId, SiteId
from opentela.wire import subjects
from opentela.wire.events import DECODER, ENCODER, KINDS, LifecycleEvent
from opentela.wire.subjects import SessionPath

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


DOCUMENT = Path("docs/asyncapi.json")
SCHEMA = Path("tests/data/asyncapi/schema-3.0.0.json")


def faults(document: object) -> list[str]:
    """Return what AsyncAPI's own schema has against a document."""
    schema = msgspec.json.decode(SCHEMA.read_bytes())
    return [fault.message for fault in jsonschema.Draft7Validator(schema).iter_errors(document)]


def test_the_document_is_valid_asyncapi() -> None:
    """So that generators of clients and of pages take it."""
    assert faults(msgspec.json.decode(DOCUMENT.read_bytes())) == []


@pytest.mark.parametrize("part", ["asyncapi", "info", "operations", "channels"])
def test_a_document_that_is_wrong_is_found(part: str) -> None:
    """The schema is not one that lets everything pass."""
    document = msgspec.json.decode(DOCUMENT.read_bytes())
    document[part] = ["nonsense"]
    assert faults(document)


def test_an_event_is_valid_by_the_schema_in_the_document() -> None:
    """What registries write is what the document promises, and nothing else is."""
    document = msgspec.json.decode(DOCUMENT.read_bytes())
    schema = document["components"]["schemas"]["LifecycleEvent"]
    check = jsonschema.Draft7Validator(schema)
    written = msgspec.json.decode(ENCODER.encode(EVENT))
    assert list(check.iter_errors(written)) == []
    assert list(check.iter_errors({**written, "kind": "PUZZLED"}))
    assert list(check.iter_errors({key: value for key, value in written.items() if key != "id"}))


def test_the_document_describes_every_event() -> None:
    """Whoever generates a client from it understands what registries write."""
    made = msgspec.json.decode(Path("docs/asyncapi.json").read_bytes())
    schema = made["components"]["schemas"]["LifecycleEvent"]
    written = msgspec.json.decode(ENCODER.encode(EVENT))
    assert list(schema["properties"]) == list(written)
    assert set(schema["required"]) <= set(written)
    assert all(field["description"] for field in schema["properties"].values())
    assert schema["properties"]["kind"]["enum"] == sorted(KINDS)
    channel = made["channels"]["events"]
    path = SessionPath(EVENT.provider, EVENT.site, EVENT.session)
    assert channel["address"].format(
        kind=EVENT.kind, provider=EVENT.provider, site=EVENT.site, session=EVENT.session
    ) == subjects.event(EVENT.kind, path)
    assert channel["parameters"]["kind"]["enum"] == list(KINDS)
