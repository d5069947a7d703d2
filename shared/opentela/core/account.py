"""Why a record says what it says: each part, who signed it, and what follows, in words."""

from collections.abc import Sequence
from datetime import UTC, datetime

from opentela.core.record import (
    Claim,
    Lifecycle,
    SessionRecord,
    Statement,
    agree,
    claim_of,
    is_final,
    is_suspected,
    lifecycle_of,
    names_of,
)


def account_of(record: SessionRecord) -> tuple[str, ...]:
    """Return how *record* came to say what it does, one part a line, what follows last."""
    claim = claim_of(record)
    return (
        _owned(claim),
        *(_stated(one, "cannot reach it") for one in record.witnesses),
        *(
            _stated(one, f"says that it left at {_moment(one.ended_at_ms)}")
            for one in record.ending
        ),
        f"therefore: {_consequence(record, claim)}",
    )


def _owned(claim: Claim) -> str:
    said = f"its owner: #{claim.incarnation} {claim.lifecycle.name}"
    ended = f", ended {_moment(claim.ended_at_ms)}" if claim.ended_at_ms else ""
    reason = f" ({claim.reason})" if claim.reason else ""
    return f"{said}, born {_moment(claim.born_at_ms)}{ended}{reason}"


def _stated(statement: Statement, what: str) -> str:
    site = f" at {statement.warrant.site}" if statement.warrant.site else ""
    meant = f"of #{statement.incarnation} {statement.lifecycle.name}"
    asks = f"asks for {_registries(statement.quorum)} at {_sites(statement.sites)}"
    return f"{statement.registry}{site}: {what}, {meant}; {asks}"


def _consequence(record: SessionRecord, claim: Claim) -> str:
    if claim.lifecycle is Lifecycle.LEFT:
        return "LEFT, as its owner says"
    if record.ending:
        by = _listed(names_of(record.ending))
        if is_final(record.ending):
            return f"LEFT for good, as declared by {by}"
        return f"LEFT, as declared by {by} alone: the owner's next claim reverts it"
    state = lifecycle_of(record).name
    if is_suspected(record):
        return (
            f"{state} but suspected: it gets no requests until its owner publishes a claim above"
            f" #{max(one.incarnation for one in record.witnesses)}"
        )
    if record.witnesses and not agree(record.witnesses):
        return (
            f"{state}: {_registries(len(record.witnesses))} cannot reach it, too few to suspect it"
        )
    return state


def _registries(count: int) -> str:
    return "1 registry" if count == 1 else f"{count} registries"


def _sites(count: int) -> str:
    return "1 site" if count == 1 else f"{count} sites"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def _moment(at_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        # Owners may claim any number.
        return f"{at_ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
