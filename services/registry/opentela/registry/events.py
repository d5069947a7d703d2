"""Changes of records as events for tools."""

from datetime import UTC, datetime

from opentela.core.record import (
    Lifecycle,
    SessionRecord,
    claim_of,
    is_suspected,
    lifecycle_of,
    names_of,
)
from opentela.core.session_map import Change
from opentela.wire.events import Kind, LifecycleEvent

_KINDS: dict[Lifecycle, Kind] = {
    Lifecycle.JOINING: "JOINING",
    Lifecycle.SERVING: "SERVING",
    Lifecycle.DRAINING: "DRAINING",
    Lifecycle.DOWN: "DOWN",
    Lifecycle.LEFT: "LEFT",
}


def events_of(change: Change, *, registry: str, wall: float) -> list[LifecycleEvent]:
    """Return what tools are told about a change, mostly one event, sometimes none."""
    kinds = _kinds(change)
    record = change.after
    claim = claim_of(record)
    at = datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds")
    return [
        LifecycleEvent(
            id=f"{claim.session}.{claim.incarnation}.{kind}",
            kind=kind,
            at=at.replace("+00:00", "Z"),
            registry=registry,
            provider=claim.provider,
            site=claim.site,
            session=claim.session,
            node=claim.node,
            incarnation=claim.incarnation,
            models=tuple(model.name for model in claim.offer.models),
            reason=_reason(kind, record),
        )
        for kind in kinds
    ]


def _kinds(change: Change) -> list[Kind]:
    before, after = change
    lifecycle = lifecycle_of(after)
    # An owner takes back what one registry alone has ended: that it serves is news.
    if before is None or lifecycle_of(before) != lifecycle:
        kinds = [_KINDS[lifecycle]]
    elif claim_of(before).offer != claim_of(after).offer:
        kinds = ["CHANGED"]
    else:
        kinds = []
    was_suspected = before is not None and is_suspected(before)
    # Nobody trusts or suspects what has ended.
    if lifecycle < Lifecycle.DOWN and was_suspected != is_suspected(after):
        kinds.append("TRUSTED" if was_suspected else "SUSPECTED")
    return kinds


def _reason(kind: Kind, record: SessionRecord) -> str:
    claim = claim_of(record)
    if kind == "LEFT" and claim.lifecycle < Lifecycle.DOWN:
        return "evicted: no path to it for the whole of the grace"
    if kind == "SUSPECTED":
        return f"no path from {', '.join(names_of(record.witnesses))}"
    return claim.reason
