"""What registries hold against a session, as parts of its record to be merged and published."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from opentela.core import record as records
from opentela.core.ids import SessionId
from opentela.core.record import (
    Lifecycle,
    SessionRecord,
    Statement,
    claim_meant,
    claim_of,
    is_suspected,
    names_of,
    support_of,
)
from opentela.core.warrant import Seal
from opentela.wire.control import Verdict


class Bar(NamedTuple):
    """What a judgement needs: so many registries, at so many sites."""

    quorum: int
    sites: int


def is_met(bar: Bar, statements: Sequence[Statement]) -> bool:
    """Return whether so many registries agree, at so many sites."""
    sites = {said.warrant.site for said in statements}
    return support_of(statements) >= bar.quorum and len(sites) >= bar.sites


def testimony(record: SessionRecord, seal: Seal, bar: Bar) -> SessionRecord | None:
    """Return the part by which a registry says that it cannot reach the session.

    With it a quorum may be reached, and the session be suspected. None when it would add nothing.
    """
    for said in record.witnesses:
        if said.registry == seal.name and said.quorum <= bar.quorum and said.sites <= bar.sites:
            return None
    claim = claim_of(record)
    said_of = [claim_meant(said) for said in record.witnesses]
    meant = max([*said_of, (claim.lifecycle, claim.incarnation)])
    own = seal.state(claim.session, meant, quorum=bar.quorum, sites=bar.sites)
    return SessionRecord(signed=record.signed, witnesses=(*record.witnesses, own))


def ending(record: SessionRecord, seal: Seal, bar: Bar, *, ended_at_ms: int = 0) -> SessionRecord:
    """Return the part by which a registry says that the session has left, and who agrees.

    Without a time, when its owner says that it ended.
    """
    claim = claim_of(record)
    own = seal.state(
        claim.session,
        (claim.lifecycle, claim.incarnation),
        quorum=bar.quorum,
        sites=bar.sites,
        ended_at_ms=ended_at_ms or max(claim.ended_at_ms, claim.born_at_ms),
    )
    agreeing = (*record.ending, *record.witnesses)
    others = {said.registry: said for said in reversed(agreeing) if said.registry != seal.name}
    return SessionRecord(signed=record.signed, ending=(*others.values(), own))


def denial(
    session: SessionId, incarnation: int, seal: Seal, bar: Bar, *, ended_at_ms: int
) -> Verdict:
    """Return a registry's word that it has forgotten the session as left."""
    meant = Lifecycle.LEFT, incarnation
    own = seal.state(session, meant, quorum=bar.quorum, sites=bar.sites, ended_at_ms=ended_at_ms)
    return Verdict(registry=seal.name, session=session, ending=(own,))


def seconded(verdict: Verdict, seal: Seal, *, ended_at_ms: int) -> Verdict:
    """Return a peer's verdict that a session has left, with a registry's own word added to it."""
    first = verdict.ending[0]
    own = seal.state(
        verdict.session,
        claim_meant(first),
        quorum=first.quorum,
        sites=first.sites,
        ended_at_ms=ended_at_ms,
    )
    return replace(verdict, registry=seal.name, ending=(*verdict.ending, own))


def verdict_on(record: SessionRecord, *, registry: str) -> Verdict:
    """Return all that registries hold against a session, as *registry* knows it."""
    return Verdict(
        registry=registry,
        session=claim_of(record).session,
        witnesses=record.witnesses,
        ending=record.ending,
    )


def held_against(record: SessionRecord, registry: str) -> int:
    """Return the incarnation that its owner must exceed to be trusted again; 0 if it is trusted."""
    if registry in names_of(record.witnesses) or is_suspected(record):
        return records.held_against(record)
    return 0


def without_suspicion(record: SessionRecord) -> SessionRecord:
    """Return *record* without what its owner can refute."""
    return replace(record, witnesses=())
