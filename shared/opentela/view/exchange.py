"""Both ends of a digest exchange: what to ask, what to answer, where to look further.

    asker                            answerer
      DigestAsk: sums of 16 buckets →
                                   ← Repair: these buckets differ (descend)
      DigestAsk or Leaves of each   →
                                   ← Repair: records you lack, sessions I want
      Records                       →

No end remembers anything of it: each message is answered from the map as it is, prefixes only grow
longer, and a lost message is made up for by the next round.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

from opentela.core.digest import DEPTH, FANOUT, is_prefix, path_of, sums_below
from opentela.core.errors import WireError
from opentela.core.ids import SessionId
from opentela.core.record import SessionRecord, claim_of
from opentela.core.session_map import SessionMap, record_bytes
from opentela.wire.control import DigestAsk, Leaves, Page, PageAsk, Records, Repair, Verdict
from opentela.wire.subjects import SessionPath

LEAVES_MAX: Final = 64
"""Sessions below a bucket that are named one by one, 36 bytes each, rather than descended into."""
PAGE_RECORDS_MAX: Final = 256
"""Records a page: a router verifies that many signatures in some 20 ms."""
RECORDS_BYTES_MAX: Final = 192 * 1024
"""Bytes of records a message; leaves room for the rest below `CONTROL_BYTES_MAX`."""

Ask: TypeAlias = DigestAsk | Leaves


def opening(held: SessionMap, asker: str) -> DigestAsk:
    """Return what starts an exchange: the digest of everything."""
    return _digest(held, asker, b"")


def asks(held: SessionMap, asker: str, repair: Repair) -> list[Ask]:
    """Return the questions that follow from an answer."""
    return [_ask(held, asker, prefix) for prefix in repair.descend if is_prefix(prefix)]


def answer(held: SessionMap, registry: str, ask: Ask) -> Repair:
    """Return what the asker lacks, what it has that we lack, and where to look further.

    Raises:
        WireError: The question names no bucket of ours.
    """
    if not is_prefix(ask.prefix):
        raise WireError(f"{ask.prefix!r} is no prefix of a digest")
    match ask:
        case DigestAsk():
            if len(ask.hashes) != FANOUT or len(ask.prefix) == DEPTH:
                raise WireError(f"a digest of {len(ask.hashes)} sums at depth {len(ask.prefix)}")
            return _descent(held, registry, ask.prefix, ask.hashes)
        case Leaves():
            return _answer_leaves(held, registry, ask)


def page(held: SessionMap, registry: str, ask: PageAsk) -> Page:
    """Return the part of the whole map that follows what the asker has."""
    records, more = held.page(ask.after, count_max=PAGE_RECORDS_MAX, bytes_max=RECORDS_BYTES_MAX)
    return Page(
        registry=registry,
        records=records,
        more=more,
        cut_ms=held.cut_ms,
        horizon_ms=held.horizon_ms,
    )


def following(page: Page) -> PageAsk | None:
    """Return the question for the next page, None when this was the last."""
    if not page.more or not page.records:
        return None
    return PageAsk(after=claim_of(page.records[-1]).session)


def wanted(held: SessionMap, sender: str, sessions: Iterable[SessionId]) -> list[Records]:
    """Return the records of *sessions*, in as many messages as they need."""
    messages: list[Records] = []
    batch: list[SessionRecord] = []
    size = 0
    for session in sessions:
        record = held.get(session)
        if record is None:
            continue
        if batch and size + record_bytes(record) > RECORDS_BYTES_MAX:
            messages.append(Records(sender=sender, records=tuple(batch)))
            batch, size = [], 0
        batch.append(record)
        size += record_bytes(record)
    if batch:
        messages.append(Records(sender=sender, records=tuple(batch)))
    return messages


def judged(held: SessionMap, path: SessionPath, verdict: Verdict) -> SessionRecord | None:
    """Return a verdict as a record to apply; None when it is not about a session that is held."""
    mine = held.get(path.session)
    if mine is None or verdict.session != path.session or path_to(mine) != path:
        return None
    return SessionRecord(signed=mine.signed, witnesses=verdict.witnesses, ending=verdict.ending)


def path_to(record: SessionRecord) -> SessionPath:
    """Return where the session of *record* lives."""
    claim = claim_of(record)
    return SessionPath(claim.provider, claim.site, claim.session)


def _ask(held: SessionMap, asker: str, prefix: bytes) -> Ask:
    if len(prefix) == DEPTH or held.trie.count(prefix) <= LEAVES_MAX:
        return Leaves(
            asker=asker, prefix=prefix, hashes=held.trie.hashes(prefix), cut_ms=held.cut_ms
        )
    return _digest(held, asker, prefix)


def _digest(held: SessionMap, asker: str, prefix: bytes) -> DigestAsk:
    return DigestAsk(
        asker=asker, prefix=prefix, hashes=held.trie.children(prefix), cut_ms=held.cut_ms
    )


def _descent(held: SessionMap, registry: str, prefix: bytes, theirs: tuple[int, ...]) -> Repair:
    mine = held.trie.children(prefix)
    differing = [step for step in range(FANOUT) if mine[step] != theirs[step]]
    return Repair(
        registry=registry,
        descend=tuple(prefix + bytes((step,)) for step in differing),
        cut_ms=held.cut_ms,
    )


def _answer_leaves(held: SessionMap, registry: str, ask: Leaves) -> Repair:
    prefix = ask.prefix
    theirs = {
        session: value
        for session, value in ask.hashes.items()
        if path_of(session)[: len(prefix)] == prefix
    }
    # The asker holds little here; if we hold much, it asks again bucket by bucket.
    if len(prefix) < DEPTH and held.trie.count(prefix) > LEAVES_MAX:
        return _descent(held, registry, prefix, sums_below(prefix, theirs))
    mine = held.trie.hashes(prefix)
    lacking = sorted(session for session, value in mine.items() if theirs.get(session) != value)
    return Repair(
        registry=registry,
        records=held.fitting(lacking, bytes_max=RECORDS_BYTES_MAX),
        wanted=tuple(sorted(s for s, value in theirs.items() if mine.get(s) != value)),
        cut_ms=held.cut_ms,
    )
