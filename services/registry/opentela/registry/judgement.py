"""What registries hold against a session, as parts of its record to be merged and published."""

from collections.abc import Sequence

from msgspec.structs import replace

from opentela.core.record import Lifecycle, SessionRecord, claim_of, is_suspected
from opentela.wire.control import Verdict


def witnesses_now(record: SessionRecord) -> tuple[str, ...]:
    """Return who cannot reach the session since its owner last claimed."""
    return record.witnesses if record.witnesses_of >= claim_of(record).incarnation else ()


def testimony(record: SessionRecord, witness: str, *, quorum: int) -> SessionRecord | None:
    """Return the part by which *witness* says that it cannot reach the session.

    With it a quorum may be reached, and the session be suspected. None when it would add nothing.
    """
    incarnation = max(claim_of(record).incarnation, record.witnesses_of)
    names: Sequence[str] = sorted({*witnesses_now(record), witness})
    suspected = incarnation if len(names) >= quorum else record.suspected
    part = SessionRecord(
        signed=record.signed,
        suspected=max(suspected, record.suspected),
        witnesses_of=incarnation,
        witnesses=tuple(names),
    )
    has_testified = part.witnesses == record.witnesses and incarnation == record.witnesses_of
    return None if has_testified and part.suspected == record.suspected else part


def ending(record: SessionRecord, *, ended_at_ms: int) -> SessionRecord:
    """Return the part by which a registry says that the session has left."""
    return SessionRecord(signed=record.signed, verdict=Lifecycle.LEFT, ended_at_ms=ended_at_ms)


def verdict_on(record: SessionRecord, *, registry: str) -> Verdict:
    """Return all that registries hold against a session, as *registry* knows it."""
    return Verdict(
        registry=registry,
        session=claim_of(record).session,
        verdict=record.verdict,
        ended_at_ms=record.ended_at_ms,
        suspected=record.suspected,
        witnesses_of=record.witnesses_of,
        witnesses=record.witnesses,
    )


def held_against(record: SessionRecord, registry: str) -> int:
    """Return the incarnation that its owner must exceed to be trusted again; 0 if it is trusted."""
    testified = registry in witnesses_now(record)
    if not testified and not is_suspected(record):
        return 0
    return max(record.suspected, record.witnesses_of)


def without_suspicion(record: SessionRecord) -> SessionRecord:
    """Return *record* without what its owner can refute."""
    return replace(record, suspected=0, witnesses_of=0, witnesses=())
