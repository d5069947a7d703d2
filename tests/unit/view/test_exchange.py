"""A digest exchange, step by step; its laws are in tests/property."""

import random

import pytest

from opentela.core.digest import DEPTH, FANOUT, path_of
from opentela.core.errors import WireError
from opentela.core.ids import SessionId, SiteId
from opentela.core.record import SessionRecord
from opentela.core.session_map import SessionMap
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.testing.sim.keys import FakeIdentity, said, vouch
from opentela.view import exchange
from opentela.wire.control import DigestAsk, Leaves, Page, PageAsk, Repair, Verdict

WALL = BORN_AT_MS / 1000


def crowd(count: int) -> list[Owner]:
    rng = random.Random(3)
    return [Owner(FakeIdentity(rng), number=number) for number in range(count)]


def holding(*owners: Owner) -> SessionMap:
    held = SessionMap(vouch())
    held.apply([owner.record for owner in owners], wall=WALL, source="test")
    return held


def test_equal_maps_have_nothing_to_say() -> None:
    """Which is the usual round."""
    owners = crowd(5)
    repair = exchange.answer(holding(*owners), "b", exchange.opening(holding(*owners), "a"))
    assert repair == Repair(registry="b")


def test_a_digest_is_answered_by_where_it_differs() -> None:
    """One prefix for one differing session."""
    first, second = crowd(2)
    asker, answerer = holding(first), holding(first, second)
    repair = exchange.answer(answerer, "b", exchange.opening(asker, "a"))
    place = path_of(second.claim.session)[:1]
    assert repair == Repair(registry="b", descend=(place,))
    asks = exchange.asks(asker, "a", repair)
    assert asks == [Leaves(asker="a", prefix=place, hashes=asker.trie.hashes(place))]


def test_leaves_are_answered_by_records_both_ways() -> None:
    """The asker gets what it lacks and is asked for what only it has."""
    owners = crowd(3)
    mine, theirs, both = owners
    asker, answerer = holding(mine, both), holding(theirs, both)
    ask = Leaves(asker="a", hashes=asker.trie.hashes())
    repair = exchange.answer(answerer, "b", ask)
    assert repair.records == (theirs.record,)
    assert repair.wanted == (mine.claim.session,)
    (sent,) = exchange.wanted(asker, "a", repair.wanted)
    assert sent.records == (mine.record,)


def test_a_full_bucket_is_descended_into_from_either_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither end names more sessions than fit."""
    monkeypatch.setattr(exchange, "LEAVES_MAX", 2)
    owners = crowd(40)
    full, empty = holding(*owners), SessionMap(vouch())
    asks = exchange.asks(full, "a", Repair(registry="b", descend=(b"",)))
    assert [type(ask) for ask in asks] == [DigestAsk]
    repair = exchange.answer(full, "b", Leaves(asker="a"))
    assert repair.records == ()
    assert len(repair.descend) > 1
    bottom = path_of(owners[0].claim.session)
    asks = exchange.asks(full, "a", Repair(registry="b", descend=(bottom,)))
    assert [type(ask) for ask in asks] == [Leaves]
    assert exchange.asks(empty, "a", Repair(registry="b", descend=(b"\xff",))) == []


def test_hashes_of_sessions_elsewhere_are_passed_over() -> None:
    """An asker that lies about where a session hangs gains nothing."""
    owner = crowd(1)[0]
    place = bytes((path_of(owner.claim.session)[0] ^ 1,))
    ask = Leaves(asker="a", prefix=place, hashes={owner.claim.session: 1})
    assert exchange.answer(SessionMap(vouch()), "b", ask) == Repair(registry="b")


@pytest.mark.parametrize(
    "ask",
    [
        DigestAsk(asker="a", prefix=b"\x10", hashes=(0,) * FANOUT),
        DigestAsk(asker="a", hashes=(0,)),
        DigestAsk(asker="a", prefix=b"\x00" * DEPTH, hashes=(0,) * FANOUT),
        Leaves(asker="a", prefix=b"\x00" * (DEPTH + 1)),
    ],
    ids=["no child", "too few sums", "below the bottom", "too deep"],
)
def test_an_impossible_question_is_refused(ask: DigestAsk | Leaves) -> None:
    """Peers may send anything."""
    with pytest.raises(WireError):
        exchange.answer(SessionMap(vouch()), "b", ask)


def test_records_are_sent_in_as_many_messages_as_they_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Never more than a message carries; what is not held is passed over."""
    monkeypatch.setattr(exchange, "RECORDS_BYTES_MAX", 1)
    held = holding(*crowd(3))
    sessions = [*held.records, SessionId("unknown")]
    assert [len(one.records) for one in exchange.wanted(held, "a", sessions)] == [1, 1, 1]
    assert exchange.wanted(held, "a", [SessionId("unknown")]) == []


def test_a_page_carries_the_horizon_and_leads_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until the last."""
    monkeypatch.setattr(exchange, "PAGE_RECORDS_MAX", 1)
    held = holding(*crowd(2))
    held.adopt_horizon(cut_ms=5, horizon_ms=7)
    first = exchange.page(held, "b", PageAsk())
    assert (first.cut_ms, first.horizon_ms, first.more) == (5, 7, True)
    following = exchange.following(first)
    assert following == PageAsk(after=min(held.records))
    last = exchange.page(held, "b", following)
    assert exchange.following(last) is None
    assert exchange.following(Page(registry="b", more=True)) is None


def test_a_verdict_is_about_the_session_of_its_subject() -> None:
    """Of one that is not held, or over another's subject, it says nothing."""
    owner = crowd(1)[0]
    witnesses = said(owner.claim, "r")
    ending = said(owner.claim, "r", ended_at_ms=9)
    verdict = Verdict(registry="r", session=owner.claim.session, witnesses=witnesses, ending=ending)
    held = holding(owner)
    assert exchange.judged(held, owner.path, verdict) == SessionRecord(
        signed=owner.signed, witnesses=witnesses, ending=ending
    )
    assert exchange.judged(SessionMap(vouch()), owner.path, verdict) is None
    elsewhere = owner.path._replace(site=SiteId("other"))
    assert exchange.judged(held, elsewhere, verdict) is None
    other = owner.path._replace(session=SessionId("other"))
    assert exchange.judged(held, other, verdict) is None
