"""Replicas of records: a least join, memory that is shortened safely, a wire without loss."""

import random
from functools import reduce

from hypothesis import given, settings
from hypothesis import strategies as st

from opentela.core.account import account_of
from opentela.core.record import (
    Lifecycle,
    ModelOffer,
    Offer,
    SessionRecord,
    Statement,
    claim_of,
    ended_at_ms,
    lifecycle_of,
    merge,
    normal,
)
from opentela.core.session_map import SessionMap
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.testing.sim.keys import FakeIdentity, seal, vouch
from opentela.view import exchange
from opentela.wire.control import Records, encode, read_relay

WALL = BORN_AT_MS / 1000
SIGNERS = [FakeIdentity(random.Random(seed)) for seed in range(4)]
SEALS = [seal("r1", site="hub"), seal("r2", site="hub"), seal("r3", site="north"), seal("r4")]
OFFERS = [Offer(), Offer(models=(ModelOffer(name="m", context_max=8),), labels={"tier": "a"})]

lifecycles = st.sampled_from(Lifecycle)
ends = st.sampled_from([0, BORN_AT_MS - 5, BORN_AT_MS + 5, BORN_AT_MS + 9])
claims = st.tuples(lifecycles, st.integers(1, 3), st.sampled_from(OFFERS), ends)


@st.composite
def said_of(draw: st.DrawFn, owner: Owner, *, ended: bool) -> tuple[Statement, ...]:
    """What registries at one site and at several say of any claim, for any quorum."""
    return tuple(
        speaker.state(
            owner.claim.session,
            (draw(lifecycles), draw(st.integers(1, 3))),
            quorum=draw(st.integers(1, 3)),
            sites=draw(st.integers(1, 2)),
            ended_at_ms=draw(ends.filter(bool)) if ended else 0,
        )
        for speaker in draw(st.lists(st.sampled_from(SEALS), max_size=3))
    )


@st.composite
def records(draw: st.DrawFn, session: int | None = None) -> SessionRecord:
    """Any record of the whole product, each part as some peer might have come to hold it."""
    number = draw(st.integers(0, 3)) if session is None else session
    owner = Owner(SIGNERS[number], born_at_ms=BORN_AT_MS + number)
    lifecycle, incarnation, offer, ended = draw(claims)
    owner.say(lifecycle, incarnation=incarnation, offer=offer, ended_at_ms=ended)
    witnesses = draw(said_of(owner, ended=False))
    ending = draw(said_of(owner, ended=True))
    return normal(SessionRecord(signed=owner.signed, witnesses=witnesses, ending=ending))


one = records(session=0)
many = st.lists(records(), max_size=10)


def is_below(small: SessionRecord, great: SessionRecord) -> bool:
    """Return whether *great* knows all that *small* does."""
    return merge(small, great) == great


@given(one, one, one)
def test_merge_is_the_least_upper_bound(
    a: SessionRecord, b: SessionRecord, c: SessionRecord
) -> None:
    """It adds nothing that neither side knew: whoever knows both knows their join."""
    joined = merge(a, b)
    assert is_below(a, joined)
    assert is_below(b, joined)
    above = reduce(merge, (a, b, c))
    assert is_below(joined, above)
    assert merge(a, b) == merge(b, a)
    assert merge(merge(a, b), c) == merge(a, merge(b, c))


@given(one, one, one)
def test_to_know_more_is_an_order(a: SessionRecord, b: SessionRecord, c: SessionRecord) -> None:
    """Reflexive, antisymmetric, transitive."""
    assert is_below(a, a)
    if is_below(a, b) and is_below(b, a):
        assert a == b
    if is_below(a, b) and is_below(b, c):
        assert is_below(a, c)


@given(one, one, one)
def test_to_know_more_before_is_to_know_no_less_after(
    a: SessionRecord, b: SessionRecord, c: SessionRecord
) -> None:
    """Merging is monotone in both its sides."""
    assert is_below(merge(a, c), merge(merge(a, b), c))


@given(one)
def test_every_record_explains_itself(a: SessionRecord) -> None:
    """A line for its owner, one for each statement, and what follows."""
    lines = account_of(a)
    assert len(lines) == 2 + len(a.witnesses) + len(a.ending)
    assert lifecycle_of(a).name in lines[-1]


@given(many)
def test_the_wire_loses_nothing(batch: list[SessionRecord]) -> None:
    """What a peer reads is what the other held, to the byte that was signed."""
    message = Records(sender="r", records=tuple(batch))
    assert read_relay(encode(message)) == message


def told(batch: list[SessionRecord]) -> SessionMap:
    """Return a map that was told *batch*."""
    held = SessionMap(vouch())
    held.apply(batch, wall=WALL, source="test")
    return held


@settings(max_examples=40)
@given(st.lists(many, min_size=4, max_size=4), st.randoms(use_true_random=False))
def test_replicas_that_talk_in_any_order_come_to_hold_the_same(
    batches: list[list[SessionRecord]], rng: random.Random
) -> None:
    """A ring is enough, whoever begins: what one knows reaches all by way of others."""
    replicas = [told(batch) for batch in batches]
    pairs = [(place, (place + 1) % 4) for place in range(4)] * 3
    rng.shuffle(pairs)
    for a, b in [*pairs, *((place, place + 1) for place in (0, 1, 2)), (2, 3), (1, 2), (0, 1)]:
        _talk(replicas[a], replicas[b])
    whole = told([record for batch in batches for record in batch])
    for replica in replicas:
        assert replica.records == whole.records
        replica.validate()


def _talk(asker: SessionMap, answerer: SessionMap) -> None:
    asks = [exchange.opening(asker, "a")]
    while asks:
        repair = exchange.answer(answerer, "b", asks.pop())
        asker.apply(repair.records, wall=WALL, source="b")
        asks += exchange.asks(asker, "a", repair)  # type: ignore[arg-type]
        for message in exchange.wanted(asker, "a", repair.wanted):
            answerer.apply(message.records, wall=WALL, source="a")


@given(many, st.sampled_from([BORN_AT_MS + 4, BORN_AT_MS + 7, BORN_AT_MS + 20]))
def test_who_was_forgotten_does_not_rise(batch: list[SessionRecord], cut_ms: int) -> None:
    """Whatever of it is told again, by whom and in which order; and who lives is kept."""
    held = told(batch)
    before = dict(held.records)
    gone = held.forget(cut_ms)
    for session in gone:
        assert lifecycle_of(before[session]) is Lifecycle.LEFT
        assert ended_at_ms(before[session]) <= cut_ms
    assert set(held.records) == set(before) - set(gone)
    held.apply(batch, wall=WALL, source="late")
    for record in reversed(batch):
        held.apply([record], wall=WALL, source="later")
    assert set(held.records) == set(before) - set(gone)
    held.validate()


@given(many, st.sampled_from([BORN_AT_MS + 7, BORN_AT_MS + 20]))
def test_who_forgets_and_who_remembers_come_to_agree(
    batch: list[SessionRecord], cut_ms: int
) -> None:
    """As soon as the one hears how much the other has forgotten."""
    one_side, other_side = told(batch), told(batch)
    one_side.forget(cut_ms)
    other_side.adopt_horizon(cut_ms=one_side.cut_ms, horizon_ms=one_side.horizon_ms)
    assert one_side.records == other_side.records
    _talk(one_side, other_side)
    assert one_side.records == other_side.records
    for record in one_side.records.values():
        is_old = lifecycle_of(record) is Lifecycle.LEFT and ended_at_ms(record) <= cut_ms
        assert not is_old, claim_of(record)
