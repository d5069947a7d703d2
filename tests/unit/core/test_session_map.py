"""The session map: what enters, what is refused and why, what is forgotten, what is read."""

import random

import msgspec
import pytest

from opentela.core import story as stories
from opentela.core.record import (
    CLAIM_BYTES_MAX,
    Claim,
    Lifecycle,
    SessionRecord,
    SignedClaim,
    Statement,
    Warrant,
    lifecycle_of,
)
from opentela.core.refusal import SKEW_MS, WITNESSES_MAX, Reason
from opentela.core.session_map import TOMBSTONES_FACTOR, Applied, SessionMap, record_bytes
from opentela.core.story import STORY_LINES_MAX, described
from opentela.core.warrant import Authority
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.testing.sim import keys
from opentela.testing.sim.keys import FakeIdentity, said, vouch
from opentela.wire.subjects import SessionPath

WALL = BORN_AT_MS / 1000
DAY_MS = 86_400_000


def owners(count: int) -> list[Owner]:
    """Return owners of different sessions, oldest first."""
    rng = random.Random(7)
    return [
        Owner(FakeIdentity(rng), number=number, born_at_ms=BORN_AT_MS + number)
        for number in range(count)
    ]


@pytest.fixture
def owner() -> Owner:
    return owners(1)[0]


@pytest.fixture
def held() -> SessionMap:
    return SessionMap(vouch())


def admit(held: SessionMap, owner: Owner) -> Applied:
    return held.admit(owner.signed, owner.path, wall=WALL)


def apply(held: SessionMap, *records: SessionRecord) -> Applied:
    return held.apply(records, wall=WALL, source="r")


def reasons(applied: Applied) -> list[Reason]:
    return [rejection.reason for rejection in applied.rejected]


def test_a_new_session_is_a_change_from_nothing(held: SessionMap, owner: Owner) -> None:
    """Applying returns what changed, which is what to pass on."""
    applied = admit(held, owner)
    assert applied.changes == ((None, owner.record),)
    assert applied.changed == {owner.claim.session: owner.record}
    assert held.get(owner.claim.session) == owner.record
    assert held.living == held.records == {owner.claim.session: owner.record}
    held.validate()


def test_what_is_known_changes_nothing_and_verifies_nothing(owner: Owner) -> None:
    """A claim that is heard again and again costs no signature."""
    verified: list[str] = []

    class Counting(Authority):
        def __call__(self, claim: Claim, signed: SignedClaim) -> str:
            verified.append(claim.key)
            return super().__call__(claim, signed)

    held = SessionMap(Counting((keys.ISSUER.key,), keys.verify))
    for _ in range(3):
        admit(held, owner)
        apply(held, owner.record)
    assert len(verified) == 1
    assert admit(held, owner) == Applied((), ())


def test_a_change_shows_before_and_after(held: SessionMap, owner: Owner) -> None:
    """Events need both."""
    old = owner.record
    admit(held, owner)
    owner.say(Lifecycle.DRAINING)
    assert admit(held, owner).changes == ((old, owner.record),)


def test_a_wrong_signature_is_forged(held: SessionMap, owner: Owner) -> None:
    """Through either door, for an unknown session and for a known one."""
    forged = SignedClaim(body=owner.signed.body, signature=b"x" * 64)
    assert reasons(apply(held, SessionRecord(signed=forged))) == [Reason.FORGED]
    assert reasons(held.admit(forged, owner.path, wall=WALL)) == [Reason.FORGED]
    admit(held, owner)
    assert reasons(held.admit(forged, owner.path, wall=WALL)) == [Reason.FORGED]
    assert held.rejections == {Reason.FORGED: 3}
    assert held.records == {owner.claim.session: owner.record}


def test_a_claim_to_anothers_session_is_forged(held: SessionMap, owner: Owner) -> None:
    """Two nodes cannot hold one session id."""
    thief = owners(2)[1]
    thief.say(session=owner.claim.session)
    assert reasons(held.admit(thief.signed, owner.path, wall=WALL)) == [Reason.FORGED]


@pytest.mark.parametrize("field", ["provider", "site"])
def test_a_claim_over_anothers_subject_is_foreign(
    held: SessionMap, owner: Owner, field: str
) -> None:
    """The mesh vouches for who may speak on a subject; the claim must fit it."""
    path = SessionPath(**{**owner.path._asdict(), field: "other"})
    applied = held.admit(owner.signed, path, wall=WALL)
    assert reasons(applied) == [Reason.FOREIGN]
    assert "over the subject of" in applied.rejected[0].detail
    admit(held, owner)
    assert reasons(held.admit(owner.signed, path, wall=WALL)) == [Reason.FOREIGN]


def test_a_huge_claim_is_refused_unread(held: SessionMap, owner: Owner) -> None:
    """Size is checked before anything is decoded."""
    huge = SignedClaim(body=bytes(CLAIM_BYTES_MAX + 1), signature=b"")
    assert reasons(held.admit(huge, owner.path, wall=WALL)) == [Reason.OVERSIZED]


@pytest.mark.parametrize(
    "changes",
    [{"provider": "a.b"}, {"site": "*"}, {"incarnation": 0}],
    ids=["provider", "site", "incarnation"],
)
def test_a_claim_that_no_peer_of_ours_writes_is_malformed(
    held: SessionMap, owner: Owner, changes: dict[str, object]
) -> None:
    """Names become parts of subjects; they must be names."""
    owner.say(None, **changes)
    assert reasons(apply(held, owner.record)) == [Reason.MALFORMED]


def test_rubbish_is_malformed_and_keeps_no_good_record_out(held: SessionMap) -> None:
    """One bad record in a batch costs only itself."""
    first, second = owners(2)
    bad = SessionRecord(signed=SignedClaim(body=b"\xc1", signature=b""))
    many = msgspec.structs.replace(
        second.record, witnesses=said(second.claim, *map(str, range(WITNESSES_MAX + 1)))
    )
    applied = apply(held, bad, many, first.record)
    assert reasons(applied) == [Reason.MALFORMED, Reason.MALFORMED]
    assert applied.rejected[1].session == second.claim.session
    assert list(held.records) == [first.claim.session]


def test_an_owner_ahead_of_time_is_refused_but_not_a_registry(held: SessionMap) -> None:
    """Clocks differ by minutes; hours are a mistake, which one registry decides for all."""
    early, late = owners(2)
    early.say(Lifecycle.DOWN, ended_at_ms=BORN_AT_MS + SKEW_MS)
    late.say(Lifecycle.DOWN, ended_at_ms=BORN_AT_MS + SKEW_MS + 1)
    assert reasons(admit(held, early)) == []
    assert reasons(admit(held, late)) == [Reason.FUTURE]
    assert reasons(apply(held, late.record)) == []


def test_a_full_map_refuses_newcomers_only(owner: Owner) -> None:
    """Memory is bounded; what is held goes on."""
    other = owners(2)[1]
    held = SessionMap(vouch(), records_max=1)
    admit(held, owner)
    assert reasons(admit(held, other)) == [Reason.FULL]
    owner.say(Lifecycle.DRAINING)
    assert reasons(admit(held, owner)) == []


def test_a_provider_may_have_so_many_sessions() -> None:
    """A newcomer beyond is refused and counted; the living go on, and make room when they leave."""
    first, second, third = owners(3)
    stranger = Owner(FakeIdentity(random.Random(9)), provider="q")
    held = SessionMap(vouch(), sessions_per_provider=2)
    for owner in (first, second, stranger):
        assert reasons(admit(held, owner)) == []
    (refused,) = admit(held, third).rejected
    assert (refused.reason, refused.session) == (Reason.QUOTA, third.claim.session)
    assert refused.detail == "p has 2 sessions, and 0 that have left"
    assert held.rejections == {Reason.QUOTA: 1}
    first.say()
    assert reasons(admit(held, first)) == []
    held.validate()
    first.say(Lifecycle.LEFT, ended_at_ms=BORN_AT_MS + 10)
    admit(held, first)
    assert reasons(admit(held, third)) == []
    held.validate()


def test_what_one_registry_has_let_in_the_others_take() -> None:
    """Or two that heard different ones first would never agree."""
    first, second = owners(2)
    held = SessionMap(vouch(), sessions_per_provider=1)
    admit(held, first)
    assert reasons(apply(held, second.record)) == []
    assert len(held.living) == 2
    held.validate()


def test_sessions_that_come_and_go_do_not_fill_the_map() -> None:
    """Tombstones of one provider are bounded, too, until they are forgotten."""
    held = SessionMap(vouch(), sessions_per_provider=1)
    crowd = owners(TOMBSTONES_FACTOR + 1)
    for owner in crowd[:-1]:
        admit(held, owner)
        owner.say(Lifecycle.LEFT, ended_at_ms=BORN_AT_MS + 10)
        assert reasons(admit(held, owner)) == []
    assert reasons(admit(held, crowd[-1])) == [Reason.QUOTA]
    held.forget(BORN_AT_MS + 10)
    held.validate()
    assert reasons(admit(held, crowd[-1])) == []


def test_what_has_left_lives_on_as_a_tombstone(held: SessionMap, owner: Owner) -> None:
    """Applications no longer see it; merges still do."""
    admit(held, owner)
    serving = owner.record
    owner.say(Lifecycle.LEFT, ended_at_ms=BORN_AT_MS + 10)
    admit(held, owner)
    assert held.living == {}
    assert apply(held, serving).changes == ()
    assert lifecycle_of(held.records[owner.claim.session]) is Lifecycle.LEFT
    held.validate()


def test_a_forgotten_session_does_not_come_back(held: SessionMap) -> None:
    """An old copy of its record is refused, and so is any older id that is not held."""
    oldest, gone, newer = owners(3)
    for owner in (gone, newer):
        admit(held, owner)
    before = gone.record
    gone.say(Lifecycle.LEFT, ended_at_ms=BORN_AT_MS + 10)
    admit(held, gone)
    assert held.forget(BORN_AT_MS + 9) == []
    assert held.forget(BORN_AT_MS + 10) == [gone.claim.session]
    assert held.forget(BORN_AT_MS + 10) == []
    assert reasons(apply(held, before, gone.record, oldest.record)) == [Reason.FORGOTTEN] * 3
    assert list(held.records) == [newer.claim.session]
    assert held.story(gone.claim.session) == ()
    held.validate()


def test_a_live_session_older_than_the_forgotten_stays(held: SessionMap) -> None:
    """The horizon is for what is not held."""
    old, gone = owners(2)
    admit(held, old)
    gone.say(Lifecycle.LEFT, ended_at_ms=BORN_AT_MS + 1)
    admit(held, gone)
    held.forget(BORN_AT_MS + DAY_MS)
    old.say()
    assert reasons(admit(held, old)) == []
    assert held.records[old.claim.session] == old.record


def test_a_tombstone_before_the_cut_is_not_taken_back(held: SessionMap, owner: Owner) -> None:
    """A peer that sweeps later does not fill us up again."""
    held.adopt_horizon(cut_ms=BORN_AT_MS + 10, horizon_ms=0)
    owner.say(Lifecycle.LEFT, ended_at_ms=BORN_AT_MS + 10)
    assert reasons(apply(held, owner.record)) == [Reason.FORGOTTEN]
    owner.say(ended_at_ms=BORN_AT_MS + 11)
    assert reasons(apply(held, owner.record)) == []


def test_the_horizon_of_a_registry_is_taken_over(held: SessionMap, owner: Owner) -> None:
    """Whoever has the whole map of another also knows what that one has forgotten."""
    held.adopt_horizon(cut_ms=0, horizon_ms=BORN_AT_MS)
    assert reasons(admit(held, owner)) == [Reason.FORGOTTEN]
    held.adopt_horizon(cut_ms=0, horizon_ms=1)
    assert held.horizon_ms == BORN_AT_MS


def test_pages_cover_the_map_once_in_order(held: SessionMap) -> None:
    """However small the pages are."""
    everybody = owners(10)
    for owner in reversed(everybody):
        admit(held, owner)
    seen: list[SessionRecord] = []
    after, more = everybody[0].claim.session[:0], True
    while more:
        page, more = held.page(after, count_max=3, bytes_max=10**6)  # type: ignore[arg-type]
        seen += page
        after = everybody[len(seen) - 1].claim.session
    assert seen == [owner.record for owner in everybody]


def test_a_page_is_bounded_in_bytes_but_never_empty(held: SessionMap) -> None:
    """One record always fits, so that asking again makes progress."""
    for owner in owners(3):
        admit(held, owner)
    size = record_bytes(owners(1)[0].record)
    everybody = list(held.records)
    assert len(held.fitting(everybody, bytes_max=1)) == 1
    assert len(held.fitting(everybody, bytes_max=2 * size)) == 2
    assert held.fitting(["unknown"], bytes_max=1) == ()  # type: ignore[list-item]


def test_record_bytes_is_an_upper_bound(owner: Owner) -> None:
    """A message that should fit does fit."""
    longest = Statement(
        registry="r" * 63,
        key="U" * 56,
        warrant=Warrant(site="s" * 63, signature=b"x" * 64),
        incarnation=2**40,
        ended_at_ms=2**47,
        signature=b"x" * 64,
    )
    record = msgspec.structs.replace(
        owner.record,
        witnesses=(longest,) * WITNESSES_MAX,
        ending=(longest,) * WITNESSES_MAX,
    )
    assert len(msgspec.msgpack.encode(record)) <= record_bytes(record)


def test_a_story_tells_how_a_record_came_to_be(held: SessionMap, owner: Owner) -> None:
    """Bounded, the latest lines, and readable on one line."""
    admit(held, owner)
    witnessed = msgspec.structs.replace(
        owner.record, witnesses=said(owner.claim, "r1", "r2", quorum=2)
    )
    apply(held, witnessed)
    text = described(held.story(owner.claim.session))
    assert text == (f"{WALL:.3f} owner: #1 SERVING; {WALL:.3f} r: #1 SERVING suspected by r1,r2")
    for _ in range(STORY_LINES_MAX + 5):
        owner.say()
        admit(held, owner)
    story = held.story(owner.claim.session)
    assert len(story) == STORY_LINES_MAX
    assert story[-1].incarnation == owner.claim.incarnation
    assert story[-1].witnesses == ()


def test_stories_of_many_sessions_are_bounded(
    held: SessionMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest is given up first."""
    monkeypatch.setattr(stories, "STORIES_MAX", 2)
    first, *others = owners(3)
    for owner in (first, *others):
        admit(held, owner)
    assert held.story(first.claim.session) == ()
    assert held.story(others[0].claim.session) != ()


def test_like_finds_what_an_unchecked_record_is_about(held: SessionMap, owner: Owner) -> None:
    """Rubbish is about nothing."""
    assert held.like(owner.record) is None
    admit(held, owner)
    assert held.like(SessionRecord(signed=owner.say())) == held.get(owner.claim.session)
    assert held.like(SessionRecord(signed=SignedClaim(body=b"\xc1", signature=b""))) is None


def test_a_callers_own_refusal_is_counted(held: SessionMap, owner: Owner) -> None:
    """A beat may be foreign too."""
    rejection = held.refuse(Reason.FOREIGN, "a beat", owner.record)
    assert (rejection.session, held.rejections[Reason.FOREIGN]) == (owner.claim.session, 1)


def test_len_counts_tombstones(held: SessionMap, owner: Owner) -> None:
    """They take memory too."""
    owner.say(Lifecycle.LEFT)
    admit(held, owner)
    assert (len(held), len(held.living)) == (1, 0)
