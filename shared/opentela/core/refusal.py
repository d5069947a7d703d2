"""What is refused at the door of a map, and why."""

from enum import StrEnum
from typing import Final, NamedTuple

from opentela.core import ids
from opentela.core.ids import ProviderId, SessionId, SiteId
from opentela.core.record import Claim, Lifecycle, SessionRecord, claim_of, support_of

WITNESSES_MAX: Final = 32
"""Statements of one kind in a record; more registries than that are a mistake or an attack."""
SKEW_MS: Final = 3_600_000
"""How far in the future an owner's times may lie: clocks of nodes differ by minutes, not hours."""


class Reason(StrEnum):
    """Why a record was refused."""

    UNSUPPORTED = "unsupported"  # fewer registries say so than are there to be asked
    OVERSIZED = "oversized"  # the claim is larger than CLAIM_BYTES_MAX
    MALFORMED = "malformed"  # not a claim, or parts that no peer of ours writes
    FORGED = "forged"  # signature, session id, provider or registry do not belong to the key
    FOREIGN = "foreign"  # it came over another session's subject
    FUTURE = "future"  # its times lie further ahead than clocks may differ
    FORGOTTEN = "forgotten"  # it ended so long ago that its tombstone is gone
    FULL = "full"  # the map holds RECORDS_MAX
    QUOTA = "quota"  # its provider has as many sessions as one may have


class Rejection(NamedTuple):
    """A record that was refused, and why, for people."""

    reason: Reason
    detail: str
    record: SessionRecord
    session: str = ""


def refusal_of_owner(
    record: SessionRecord,
    claim: Claim,
    path: tuple[ProviderId, SiteId, SessionId] | None,
    wall: float,
) -> Rejection | None:
    """Return why an owner's word is refused that came over the subject of *path*."""
    own = (claim.provider, claim.site, claim.session)
    if path is not None and own != tuple(path):
        detail = f"{'.'.join(own)} came over the subject of {'.'.join(path)}"
        return Rejection(Reason.FOREIGN, detail, record, claim.session)
    latest_ms = max(claim.born_at_ms, claim.ended_at_ms)
    if latest_ms > wall * 1000 + SKEW_MS:
        detail = f"{latest_ms / 1000 - wall:.0f} s ahead of this clock"
        return Rejection(Reason.FUTURE, detail, record, claim.session)
    return None


def fault_of(record: SessionRecord, claim: Claim) -> str:
    """Return what no peer of ours would write, or nothing."""
    if not (ids.is_name(claim.provider) and ids.is_name(claim.site)):
        return f"provider {claim.provider!r} or site {claim.site!r} is not a name"
    if claim.incarnation < 1:
        return f"incarnation {claim.incarnation} is below 1"
    statements = max(len(record.witnesses), len(record.ending))
    if statements > WITNESSES_MAX:
        return f"{statements} statements exceed {WITNESSES_MAX}"
    for one in (*record.witnesses, *record.ending):
        if not ids.is_name(one.registry) or one.incarnation < 1:
            return f"a statement of {one.registry!r} on incarnation {one.incarnation}"
    if record.ending and not any(one.ended_at_ms > 0 for one in record.ending):
        return "an ending without an end"
    return ""


def supported(record: SessionRecord, quorum: int) -> SessionRecord:
    """Return *record* without what fewer registries say, or ask to say it, than *quorum*.

    Whoever knows of several registries does not let one of them alone decide. What the owner has
    ended may be laid to rest by any.
    """
    if not (record.witnesses or record.ending):
        return record
    claim = claim_of(record)
    is_ending = claim.lifecycle >= Lifecycle.DOWN or support_of(record.ending) >= quorum
    is_heard = support_of(record.witnesses) >= quorum
    witnesses = tuple(one for one in record.witnesses if is_heard or one.quorum >= quorum)
    if len(witnesses) == len(record.witnesses) and (is_ending or not record.ending):
        return record
    return SessionRecord(
        signed=record.signed, witnesses=witnesses, ending=record.ending if is_ending else ()
    )


def lone(record: SessionRecord) -> Rejection:
    """Return that a record says what too few registries say."""
    names = ", ".join(sorted({one.registry for one in (*record.witnesses, *record.ending)}))
    detail = f"{names} alone says so, and more registries are there"
    return Rejection(Reason.UNSUPPORTED, detail, record, claim_of(record).session)
