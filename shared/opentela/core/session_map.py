"""The grow-only map of sessions that registries, routers and placers all hold.

Records enter by two doors. `admit` takes an owner's word: it must come over the owner's own subject
and be plausible in time. `apply` takes records from registries, who have checked that. Both verify
every signature that would change something, refuse what is wrong with a reason instead of an
exception, and return what changed, which is what to pass on.
"""

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import msgspec

from opentela.core.digest import DigestTrie, record_hash
from opentela.core.errors import ForgedRecordError, WireError
from opentela.core.ids import ProviderId, SessionId, SiteId
from opentela.core.record import (
    CLAIM_BYTES_MAX,
    Claim,
    Lifecycle,
    SessionRecord,
    SignedClaim,
    Statement,
    claim_of,
    ended_at_ms,
    lifecycle_of,
    merge,
    normal,
    read_claim,
)
from opentela.core.refusal import Reason, Rejection, fault_of, refusal_of_owner
from opentela.core.story import Stories, StoryLine
from opentela.core.warrant import Authority

Verify: TypeAlias = Authority
"""Why a claim is not its provider's word or a statement not its registry's, or nothing."""

Believe: TypeAlias = Callable[[SessionRecord], SessionRecord]
"""What to take of a record, all of whose parts are genuine."""

RECORDS_MAX: Final = 200_000
"""Records held, tombstones included; some 2 KB each. Newcomers beyond it are refused."""
SESSIONS_PER_PROVIDER: Final = 10_000
"""Sessions of one provider that live at a time; ten times as many as any has nodes."""
TOMBSTONES_FACTOR: Final = 4
"""Records of one provider, tombstones included, for each session that it may have: restarts of a
day. It cannot fill the map alone, and so keep others out."""
_RECORD_BYTES: Final = 128
"""What a record needs on the wire beside its claim and its statements."""
_STATEMENT_BYTES: Final = 384
"""What a statement needs on the wire: a name, a key, two signatures."""


class Change(NamedTuple):
    """What a session was (None: unknown) and what it is now."""

    before: SessionRecord | None
    after: SessionRecord


class Applied(NamedTuple):
    """What came of some records."""

    changes: tuple[Change, ...]
    rejected: tuple[Rejection, ...]

    @property
    def changed(self) -> dict[SessionId, SessionRecord]:
        """The records that are new or different, by session."""
        return {claim_of(after).session: after for _, after in self.changes}

    def without(self, refused: Iterable[Rejection]) -> "Applied":
        """Return the same, with what was not believed."""
        return Applied(self.changes, (*self.rejected, *refused))


class SessionMap:
    """Session records, joined as they come.

    Attributes:
        records: Every record, tombstones included.
        living: Those that have not `LEFT`, which is all that applications want.
        trie: Hashes of all records, for comparing with a peer.
        rejections: How many records were refused, by reason.
        cut_ms: Tombstones that ended at or before this are forgotten; Unix milliseconds.
        horizon_ms: Latest birth among the forgotten: an older id that is not held has `LEFT`.
    """

    def __init__(
        self,
        verify: Verify,
        *,
        records_max: int = RECORDS_MAX,
        sessions_per_provider: int = SESSIONS_PER_PROVIDER,
    ) -> None:
        self._verify = verify
        self._records_max = records_max
        self._quota = sessions_per_provider
        self._living_of: Counter[ProviderId] = Counter()
        self._held_of: Counter[ProviderId] = Counter()
        self._records: dict[SessionId, SessionRecord] = {}
        self._living: dict[SessionId, SessionRecord] = {}
        self._left_at_ms: dict[SessionId, int] = {}
        self._order: list[SessionId] = []
        self._stories = Stories()
        self.records: Mapping[SessionId, SessionRecord] = MappingProxyType(self._records)
        self.living: Mapping[SessionId, SessionRecord] = MappingProxyType(self._living)
        self.trie = DigestTrie()
        self.rejections: Counter[Reason] = Counter()
        self.cut_ms = 0
        self.horizon_ms = 0

    def __len__(self) -> int:
        return len(self._records)

    def get(self, session: SessionId) -> SessionRecord | None:
        """Return what is held of *session*."""
        return self._records.get(session)

    def like(self, record: SessionRecord) -> SessionRecord | None:
        """Return what is held of the session that *record*, still unchecked, is about."""
        try:
            return self._records.get(claim_of(record).session)
        except (msgspec.DecodeError, RecursionError):
            return None

    # Entering ----------------------------------------------------------------

    def admit(
        self,
        signed: SignedClaim,
        path: tuple[ProviderId, SiteId, SessionId] | None,
        *,
        wall: float,
        source: str = "owner",
    ) -> Applied:
        """Take an owner's word for its session, which came over the subject of *path*.

        None when somebody else passed it on: then its signature alone speaks for it.
        """
        record = SessionRecord(signed=signed)
        checked = self._checked(record)
        if not isinstance(checked, Rejection):
            refusal = refusal_of_owner(record, checked, path, wall)
            checked = refusal or self._refusal_by_quota(record, checked) or checked
        if isinstance(checked, Rejection):
            return self._outcome([], [checked])
        return self._outcome(*_parted([self._join(record, checked, source, wall)]))

    def apply(
        self,
        records: Iterable[SessionRecord],
        *,
        wall: float,
        source: str,
        believe: Believe = lambda record: record,
        is_own: bool = False,
    ) -> Applied:
        """Take records from a registry; one that is wrong does not keep the others out.

        *believe* returns what to take of a record in which everything was truly said. Of a record
        that *is_own*, the statements are known to be: we made them, or hold them.
        """
        results: list[Change | Rejection | None] = []
        for record in records:
            checked = self._checked(record)
            if isinstance(checked, Rejection):
                results.append(checked)
            else:
                genuine, forged = (record, []) if is_own else self._genuine(record, checked)
                results += [*forged, self._join(believe(genuine), checked, source, wall)]
        return self._outcome(*_parted(results))

    def _genuine(
        self, record: SessionRecord, claim: Claim
    ) -> tuple[SessionRecord, list[Rejection]]:
        """Return *record* with only what registries truly said; its claim stands for itself."""
        if not (record.witnesses or record.ending):
            return record, []
        mine = self._records.get(claim.session)
        known = (*mine.witnesses, *mine.ending) if mine is not None else ()
        faults: dict[Statement, str] = {}
        for statement in (*record.witnesses, *record.ending):
            # What is held was verified.
            if statement not in known and statement not in faults:
                fault = self._verify.statement(claim.session, statement)
                if fault:
                    faults[statement] = fault
        if not faults:
            return record, []
        ending = tuple(one for one in record.ending if one not in faults)
        genuine = SessionRecord(
            signed=record.signed,
            witnesses=tuple(one for one in record.witnesses if one not in faults),
            ending=ending if any(one.ended_at_ms for one in ending) else (),
        )
        return genuine, [
            Rejection(Reason.FORGED, fault, record, claim.session) for fault in faults.values()
        ]

    def _checked(self, record: SessionRecord) -> Claim | Rejection:
        """Return the claim in a well-formed record; its signature is not looked at yet."""
        if len(record.signed.body) > CLAIM_BYTES_MAX:
            detail = f"a claim of {len(record.signed.body)} bytes exceeds {CLAIM_BYTES_MAX}"
            return Rejection(Reason.OVERSIZED, detail, record)
        try:
            claim = read_claim(record.signed.body)
        except WireError as error:
            return Rejection(Reason.MALFORMED, str(error), record)
        except ForgedRecordError as error:
            return Rejection(Reason.FORGED, str(error), record)
        detail = fault_of(record, claim)
        if detail:
            return Rejection(Reason.MALFORMED, detail, record, claim.session)
        return claim

    def _join(
        self, record: SessionRecord, claim: Claim, source: str, wall: float
    ) -> Change | Rejection | None:
        theirs, session = normal(record), claim.session
        mine = self._records.get(session)
        refusal = self._refusal_of_newcomer(theirs, claim) if mine is None else None
        if refusal is not None:
            return refusal
        # What is held was verified: a repeated claim costs no signature.
        is_known = mine is not None and mine.signed == theirs.signed
        fault = "" if is_known else self._verify(claim, record.signed)
        if fault:
            return Rejection(Reason.FORGED, fault, record, session)
        joined = theirs if mine is None else merge(mine, theirs)
        if joined is mine:
            return None
        self._store(session, joined, new=mine is None)
        self._stories.tell(joined, source, wall)
        return Change(mine, joined)

    def _refusal_of_newcomer(self, record: SessionRecord, claim: Claim) -> Rejection | None:
        session = claim.session
        if claim.born_at_ms <= self.horizon_ms:
            return Rejection(
                Reason.FORGOTTEN, "born before the horizon of what is remembered", record, session
            )
        if lifecycle_of(record) is Lifecycle.LEFT and ended_at_ms(record) <= self.cut_ms:
            return Rejection(Reason.FORGOTTEN, "its tombstone is out of date", record, session)
        if len(self._records) >= self._records_max:
            return Rejection(Reason.FULL, f"{self._records_max} sessions are held", record, session)
        return None

    def _refusal_by_quota(self, record: SessionRecord, claim: Claim) -> Rejection | None:
        """Return why a provider may not have one more session.

        Only owners are held to it: what one registry has let in, the others take, or they would
        never agree. A mesh of several may so hold a few more.
        """
        if claim.session in self._records:
            return None
        living, held = self._living_of[claim.provider], self._held_of[claim.provider]
        if living < self._quota and held < self._quota * TOMBSTONES_FACTOR:
            return None
        detail = f"{claim.provider} has {living} sessions, and {held - living} that have left"
        return Rejection(Reason.QUOTA, detail, record, claim.session)

    def _store(self, session: SessionId, record: SessionRecord, *, new: bool) -> None:
        provider = claim_of(record).provider
        self._records[session] = record
        self.trie.put(session, record_hash(record))
        if new:
            insort(self._order, session)
            self._held_of[provider] += 1
        self._living_of[provider] -= session in self._living
        if lifecycle_of(record) is Lifecycle.LEFT:
            self._living.pop(session, None)
            self._left_at_ms[session] = ended_at_ms(record)
        else:
            self._living[session] = record
            self._left_at_ms.pop(session, None)
            self._living_of[provider] += 1

    def refuse(self, reason: Reason, detail: str, record: SessionRecord) -> Rejection:
        """Count a refusal for a reason that only the caller can see, and return it."""
        self.count(reason)
        return Rejection(reason, detail, record, claim_of(record).session)

    def count(self, reason: Reason) -> None:
        """Count a refusal that the caller has seen and worded."""
        self.rejections[reason] += 1

    def _outcome(self, changes: list[Change], rejected: list[Rejection]) -> Applied:
        self.rejections.update(rejection.reason for rejection in rejected)
        return Applied(tuple(changes), tuple(rejected))

    # Leaving -----------------------------------------------------------------

    def forget(self, cut_ms: int) -> list[SessionId]:
        """Drop tombstones that ended at or before *cut_ms* and return whose they were.

        What is dropped does not come back: see `horizon_ms`.
        """
        if cut_ms <= self.cut_ms:
            return []
        self.cut_ms = cut_ms
        gone = [session for session, at_ms in self._left_at_ms.items() if at_ms <= cut_ms]
        for session in gone:
            self.trie.put(session, 0)
            claim = claim_of(self._records.pop(session))
            self.horizon_ms = max(self.horizon_ms, claim.born_at_ms)
            self._held_of[claim.provider] -= 1
            self._left_at_ms.pop(session)
            self._stories.forget(session)
        if gone:
            self._order = sorted(self._records)
        return gone

    def adopt_horizon(self, *, cut_ms: int, horizon_ms: int) -> None:
        """Forget as a registry did whose whole map has been taken over."""
        self.forget(cut_ms)
        self.horizon_ms = max(self.horizon_ms, horizon_ms)

    # Reading -----------------------------------------------------------------

    def page(
        self, after: SessionId, *, count_max: int, bytes_max: int
    ) -> tuple[tuple[SessionRecord, ...], bool]:
        """Return records behind *after* in order of session id, and whether more follow."""
        start = bisect_right(self._order, after)
        page = self.fitting(self._order[start : start + count_max], bytes_max=bytes_max)
        return page, start + len(page) < len(self._order)

    def fitting(
        self, sessions: Iterable[SessionId], *, bytes_max: int
    ) -> tuple[SessionRecord, ...]:
        """Return the records of *sessions*, as many from the front as fit into *bytes_max*.

        One record always fits: `CLAIM_BYTES_MAX` is far below any message.
        """
        records: list[SessionRecord] = []
        for session in sessions:
            record = self._records.get(session)
            if record is None:
                continue
            bytes_max -= record_bytes(record)
            if records and bytes_max < 0:
                break
            records.append(record)
        return tuple(records)

    def story(self, session: SessionId) -> tuple[StoryLine, ...]:
        """Return the latest steps of how the record of *session* came to be."""
        return self._stories.of(session)

    def validate(self) -> None:
        """Assert that everything derived from the records is what they say; for tests."""
        trie = DigestTrie()
        for session, record in self._records.items():
            assert claim_of(record).session == session
            assert normal(record) is record
            has_left = lifecycle_of(record) is Lifecycle.LEFT
            assert (session in self._living) is not has_left
            assert self._left_at_ms.get(session) == (ended_at_ms(record) if has_left else None)
            trie.put(session, record_hash(record))
        assert self._order == sorted(self._records)
        assert len(self._living) + len(self._left_at_ms) == len(self._records)
        for count, records in (
            (self._held_of, self._records),
            (self._living_of, self._living),
        ):
            assert +count == Counter(claim_of(record).provider for record in records.values())
        assert trie.hashes() == self.trie.hashes()
        assert trie.children(b"") == self.trie.children(b"")


def record_bytes(record: SessionRecord) -> int:
    """Return an upper bound of what *record* takes in a message."""
    statements = (len(record.witnesses) + len(record.ending)) * _STATEMENT_BYTES
    return len(record.signed.body) + len(record.signed.signature) + statements + _RECORD_BYTES


def _parted(
    results: Iterable[Change | Rejection | None],
) -> tuple[list[Change], list[Rejection]]:
    changes: list[Change] = []
    rejected: list[Rejection] = []
    for result in results:
        if isinstance(result, Change):
            changes.append(result)
        elif isinstance(result, Rejection):
            rejected.append(result)
    return changes, rejected
