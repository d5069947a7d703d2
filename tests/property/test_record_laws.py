"""Records and maps obey the laws that make any order, loss and repetition end in one state."""

import random
from collections.abc import Callable
from functools import reduce

from hypothesis import given, settings
from hypothesis import strategies as st

from opentela.core.digest import record_hash
from opentela.core.ids import SessionId
from opentela.core.record import (
    Lifecycle,
    SessionRecord,
    Statement,
    claim_meant,
    claim_of,
    is_final,
    is_refuted,
    is_suspected,
    lifecycle_of,
    merge,
    normal,
)
from opentela.core.session_map import SessionMap
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.testing.sim.keys import FakeIdentity, seal, vouch
from opentela.view import exchange
from opentela.wire.control import (
    CONTROL_BYTES_MAX,
    DigestAsk,
    Leaves,
    PageAsk,
    Records,
    Repair,
    encode,
)

WALL = BORN_AT_MS / 1000
_SIGNERS = [FakeIdentity(random.Random(seed)) for seed in range(4)]

lifecycles = st.sampled_from(Lifecycle)
ends = st.sampled_from([0, BORN_AT_MS - 5, BORN_AT_MS + 5, BORN_AT_MS + 9])
small = st.integers(0, 3)
SEALS = [seal(name) for name in ("r1", "r2", "r3")]


@st.composite
def statements(draw: st.DrawFn, session: SessionId, *, ended: bool) -> tuple[Statement, ...]:
    """What few registries say of few claims, also such as no honest one would."""
    speakers = draw(st.lists(st.sampled_from(SEALS), max_size=3))
    said = [
        speaker.state(
            session,
            (draw(lifecycles), draw(st.integers(1, 3))),
            quorum=draw(st.integers(1, 2)),
            sites=1,
            ended_at_ms=BORN_AT_MS + 5 if ended else 0,
        )
        for speaker in speakers
    ]
    return tuple(said)


@st.composite
def records(draw: st.DrawFn, session: int | None = None) -> SessionRecord:
    """Any record of one of few sessions, also such as a faulty owner would make."""
    number = draw(small) if session is None else session
    owner = Owner(_SIGNERS[number], born_at_ms=BORN_AT_MS + number)
    signed = owner.say(
        draw(lifecycles),
        incarnation=draw(st.integers(1, 3)),
        ended_at_ms=draw(ends),
        reason=draw(st.sampled_from(["", "why"])),
    )
    return normal(
        SessionRecord(
            signed=signed,
            witnesses=draw(statements(owner.claim.session, ended=False)),
            ending=draw(statements(owner.claim.session, ended=True)),
        )
    )


one = records(session=0)
many = st.lists(records(), max_size=12)


@given(one, one, one)
def test_merge_is_a_join(a: SessionRecord, b: SessionRecord, c: SessionRecord) -> None:
    """Idempotent, commutative, associative; and what it returns is normal."""
    assert merge(a, a) == a
    assert merge(a, b) == merge(b, a)
    assert merge(merge(a, b), c) == merge(a, merge(b, c))
    assert normal(merge(a, b)) == merge(a, b)


@given(one, one)
def test_merge_is_monotone(a: SessionRecord, b: SessionRecord) -> None:
    """Nothing goes back: neither claim nor lifecycle, nor what is held and was not refuted."""
    merged = merge(a, b)
    claim = claim_of(merged)
    for record in (a, b):
        assert merge(merged, record) is merged
        assert claim.lifecycle >= claim_of(record).lifecycle
        assert lifecycle_of(merged) >= lifecycle_of(record) or is_refuted(record.ending, claim)
        assert not is_final(record.ending) or lifecycle_of(merged) is Lifecycle.LEFT
        latest = max(map(claim_meant, record.witnesses), default=(Lifecycle.JOINING, 0))
        known = max(map(claim_meant, merged.witnesses), default=(Lifecycle.JOINING, 0))
        is_over = lifecycle_of(merged) is Lifecycle.LEFT
        assert known >= latest or latest < (claim.lifecycle, claim.incarnation) or is_over


@given(one, one)
def test_a_suspicion_is_not_lost(a: SessionRecord, b: SessionRecord) -> None:
    """It ends with a later claim, or with one of which nobody suspects anything yet."""
    merged = merge(a, b)
    if is_suspected(a) and not is_suspected(merged) and lifecycle_of(merged) < Lifecycle.LEFT:
        (latest,) = {claim_meant(said) for said in a.witnesses}
        claim = claim_of(merged)
        beyond = [claim_meant(said) for said in merged.witnesses]
        assert max([(claim.lifecycle, claim.incarnation), *beyond]) > latest


@given(one)
def test_what_is_refuted_or_gone_leaves_no_trace(a: SessionRecord) -> None:
    """Peers that heard of a suspicion and peers that did not come to hold the same."""
    claim = claim_of(a)
    for said in a.witnesses:
        assert claim_meant(said) >= (claim.lifecycle, claim.incarnation)
    if claim.lifecycle is Lifecycle.LEFT:
        assert a == SessionRecord(signed=a.signed)
    if is_final(a.ending):
        assert a.witnesses == ()


@given(one, one)
def test_equal_hashes_are_equal_records(a: SessionRecord, b: SessionRecord) -> None:
    """A digest neither hides a difference nor invents one."""
    assert (record_hash(a) == record_hash(b)) is (a == b)


def filled(batch: list[SessionRecord]) -> SessionMap:
    """Return a map that was told *batch*, one by one."""
    held = SessionMap(vouch())
    for record in batch:
        held.apply([record], wall=WALL, source="test")
    return held


@given(many, st.randoms(use_true_random=False))
def test_any_order_and_repetition_of_deltas_ends_in_one_map(
    batch: list[SessionRecord], rng: random.Random
) -> None:
    """Loss aside, the mesh may do with messages what it likes."""
    shuffled = batch + rng.choices(batch, k=len(batch)) if batch else []
    rng.shuffle(shuffled)
    one_way, other_way = filled(batch), filled(shuffled)
    assert one_way.records == other_way.records
    assert one_way.trie.children(b"") == other_way.trie.children(b"")
    one_way.validate()
    other_way.validate()


@given(many)
def test_what_a_map_holds_is_the_join_of_what_it_was_told(batch: list[SessionRecord]) -> None:
    """And each report of a change is the change."""
    held = SessionMap(vouch())
    told: dict[str, SessionRecord] = {}
    for record in batch:
        applied = held.apply([record], wall=WALL, source="test")
        assert applied.rejected == ()
        for before, after in applied.changes:
            assert told.get(claim_of(after).session) == before
            told[claim_of(after).session] = after
    assert told == held.records
    for session, record in held.records.items():
        mine = [one for one in batch if claim_of(one).session == session]
        assert record == reduce(merge, mine)


@given(many)
def test_a_second_telling_changes_nothing(batch: list[SessionRecord]) -> None:
    """So that repair may repeat itself."""
    held = filled(batch)
    assert held.apply(batch, wall=WALL, source="again").changes == ()


def exchanged(asker: SessionMap, answerer: SessionMap) -> list[SessionRecord]:
    """Run one exchange to its end and return every record that travelled."""
    moved: list[SessionRecord] = []
    asks: list[DigestAsk | Leaves] = [exchange.opening(asker, "a")]
    while asks:
        repair = exchange.answer(answerer, "b", asks.pop())
        moved += repair.records
        asker.apply(repair.records, wall=WALL, source="b")
        asks += exchange.asks(asker, "a", repair)
        for message in exchange.wanted(asker, "a", repair.wanted):
            moved += message.records
            answerer.apply(message.records, wall=WALL, source="a")
    return moved


@given(many, many, many)
def test_one_exchange_makes_two_maps_equal_and_moves_only_what_differs(
    common: list[SessionRecord], mine: list[SessionRecord], theirs: list[SessionRecord]
) -> None:
    """Whatever two registries have missed, on either side."""
    asker, answerer = filled(common + mine), filled(common + theirs)
    differing = {
        session
        for session in {*asker.records, *answerer.records}
        if asker.get(session) != answerer.get(session)
    }
    moved = exchanged(asker, answerer)
    assert asker.records == answerer.records
    assert {claim_of(record).session for record in moved} == differing
    assert exchanged(asker, answerer) == []


def crowd(count: int, seed: int) -> list[SessionRecord]:
    """Return records of *count* different sessions."""
    rng = random.Random(seed)
    return [
        Owner(FakeIdentity(rng), born_at_ms=BORN_AT_MS + number, number=number).record
        for number in range(count)
    ]


CROWD = crowd(1500, seed=5)
sides: list[Callable[[int], bool]] = [
    lambda number: number % 2 == 0,
    lambda number: number < 700,
    lambda number: number == 3,
    lambda _number: False,
    lambda _number: True,
]


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sides), st.sampled_from(sides))
def test_large_maps_are_compared_by_small_messages(
    mine: Callable[[int], bool], theirs: Callable[[int], bool]
) -> None:
    """Also when one side is empty; and no message nears what the mesh carries."""
    asker = filled([record for number, record in enumerate(CROWD) if mine(number)])
    answerer = filled([record for number, record in enumerate(CROWD) if theirs(number)])
    asks: list[DigestAsk | Leaves] = [exchange.opening(asker, "a")]
    while asks:
        ask = asks.pop()
        repair = exchange.answer(answerer, "b", ask)
        asker.apply(repair.records, wall=WALL, source="b")
        asks += exchange.asks(asker, "a", repair)
        sent = exchange.wanted(asker, "a", repair.wanted)
        for message in sent:
            answerer.apply(message.records, wall=WALL, source="a")
        sizes = [len(encode(one)) for one in (ask, repair, *sent)]
        assert max(sizes) < CONTROL_BYTES_MAX
        assert len(encode(ask)) < 4096
    assert asker.trie.hashes() == answerer.trie.hashes()


def test_pages_carry_a_whole_map() -> None:
    """Which is how a view begins."""
    held, copy = filled(CROWD), SessionMap(vouch())
    ask: PageAsk | None = PageAsk()
    while ask is not None:
        page = exchange.page(held, "r", ask)
        assert len(encode(page)) < CONTROL_BYTES_MAX
        copy.apply(page.records, wall=WALL, source="r")
        ask = exchange.following(page)
    assert copy.records == held.records


def test_the_messages_of_an_exchange_are_those_of_the_wire() -> None:
    """A registry sends nothing else to another."""
    held = filled(CROWD[:3])
    repair = exchange.answer(held, "b", exchange.opening(SessionMap(vouch()), "a"))
    assert isinstance(repair, Repair)
    wanted = exchange.wanted(held, "b", list(held.records))
    assert [type(one) for one in wanted] == [Records]
