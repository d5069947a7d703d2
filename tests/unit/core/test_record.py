"""Records: what they say, what two copies of one become, and what is no claim."""

import random

import msgspec
import pytest

from opentela.core import record as records
from opentela.core.errors import ForgedRecordError, WireError
from opentela.core.record import (
    CLAIM_BYTES_MAX,
    CLAIM_ENCODER,
    Lifecycle,
    SessionRecord,
    Statement,
    claim_of,
    ended_at_ms,
    is_routable,
    is_suspected,
    lifecycle_of,
    merge,
    names_of,
    normal,
    read_claim,
)
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.testing.sim import keys
from opentela.testing.sim.keys import FakeIdentity, said


@pytest.fixture
def owner() -> Owner:
    """An owner whose session serves."""
    return Owner(FakeIdentity(random.Random(1)))


def test_a_claim_is_read_back(owner: Owner) -> None:
    """What the owner encoded is what everybody reads."""
    assert read_claim(owner.signed.body) == owner.claim == claim_of(owner.record)


def test_a_claim_of_another_key_is_forged(owner: Owner) -> None:
    """The session id follows from the key, so nobody else can have it."""
    stolen = msgspec.structs.replace(owner.claim, key="U" + "A" * 55)
    with pytest.raises(ForgedRecordError, match=owner.claim.session):
        read_claim(CLAIM_ENCODER.encode(stolen))


@pytest.mark.parametrize(
    "changes",
    [{"nonce": b"short"}, {"born_at_ms": 1 << 48}, {"lifecycle": 9}],
    ids=["nonce", "birth", "lifecycle"],
)
def test_an_impossible_claim_is_refused(owner: Owner, changes: dict[str, object]) -> None:
    """Bytes that are no claim are refused in one way, whatever is wrong with them."""
    fields = msgspec.to_builtins(owner.claim, builtin_types=(bytes,))
    with pytest.raises(WireError, match="not a claim"):
        read_claim(msgspec.msgpack.encode({**fields, **changes}))


def test_a_claim_of_a_newer_version_is_read(owner: Owner) -> None:
    """Fields that we do not know are passed over."""
    fields = msgspec.to_builtins(owner.claim, builtin_types=(bytes,))
    assert read_claim(msgspec.msgpack.encode({**fields, "later": 1})) == owner.claim


def test_a_huge_claim_is_refused_unread() -> None:
    """Whoever sends megabytes does not make us decode them."""
    with pytest.raises(WireError, match="exceeds"):
        read_claim(bytes(CLAIM_BYTES_MAX + 1))


def test_the_newer_claim_wins(owner: Owner) -> None:
    """Both ways round, and the same object when nothing is gained."""
    old = owner.record
    owner.say(Lifecycle.DRAINING)
    new = owner.record
    assert merge(old, new) == merge(new, old) == new
    assert merge(new, old) is new
    assert merge(new, SessionRecord(signed=new.signed)) is new


def test_an_owner_cannot_take_its_end_back(owner: Owner) -> None:
    """Who once was down never serves again, whatever is claimed later: that is not even held."""
    owner.say(Lifecycle.DOWN, ended_at_ms=BORN_AT_MS + 5)
    down = owner.record
    owner.say(Lifecycle.SERVING, ended_at_ms=0)
    merged = merge(down, owner.record)
    assert lifecycle_of(merged) is Lifecycle.DOWN
    assert ended_at_ms(merged) == BORN_AT_MS + 5
    assert merged is down


def test_a_verdict_that_the_owner_repeats_is_no_other_record(owner: Owner) -> None:
    """Equal knowledge is equal bytes, or digests would never agree."""
    evicted = SessionRecord(signed=owner.signed, ending=said(owner.claim, "r", ended_at_ms=7))
    owner.say(Lifecycle.LEFT, ended_at_ms=9)
    assert merge(evicted, owner.record) == owner.record


def test_witnesses_are_counted_for_the_greatest_incarnation_only(owner: Owner) -> None:
    """A refutation leaves old witnesses behind; those of one incarnation add up."""
    one, two, later = (
        SessionRecord(signed=owner.signed, witnesses=said(owner.claim, name, incarnation=number))
        for name, number in (("b", 1), ("a", 1), ("c", 2))
    )
    assert names_of(merge(one, two).witnesses) == ("a", "b")
    assert merge(one, later).witnesses == merge(later, one).witnesses == later.witnesses


def test_normal_form_sorts_and_drops_what_the_claim_says(owner: Owner) -> None:
    """There is one way to write a record."""
    odd = SessionRecord(signed=owner.signed, witnesses=said(owner.claim, "b", "a", "b"))
    assert normal(odd) == SessionRecord(signed=owner.signed, witnesses=said(owner.claim, "a", "b"))
    plain = owner.record
    assert normal(plain) is plain


def test_suspicion_ends_with_the_next_incarnation(owner: Owner) -> None:
    """A suspected session takes no requests until its owner has spoken again."""
    suspected = SessionRecord(signed=owner.signed, witnesses=said(owner.claim, "r"))
    assert is_suspected(suspected)
    assert not is_routable(suspected)
    owner.say()
    refuted = merge(suspected, owner.record)
    assert not is_suspected(refuted)
    assert is_routable(refuted)


def test_only_a_serving_session_is_routable(owner: Owner) -> None:
    """Neither before nor after."""
    for lifecycle in Lifecycle:
        owner.say(lifecycle)
        assert is_routable(owner.record) is (lifecycle is Lifecycle.SERVING)
    serving = Owner(FakeIdentity(random.Random(2)))
    ending = said(serving.claim, "r", ended_at_ms=7)
    evicted = SessionRecord(signed=serving.signed, ending=ending)
    assert not is_routable(evicted)


def test_an_end_is_never_before_the_birth(owner: Owner) -> None:
    """A wrong clock cannot make a tombstone old."""
    assert ended_at_ms(owner.record) == 0
    owner.say(Lifecycle.LEFT, ended_at_ms=1)
    assert ended_at_ms(owner.record) == BORN_AT_MS


def test_claims_are_decoded_once(owner: Owner) -> None:
    """Routers ask for the claim at every request."""
    assert claim_of(owner.record) is claim_of(SessionRecord(signed=owner.signed))
    assert records.CLAIM_DECODER.decode(owner.signed.body) == owner.claim


def test_a_bottomless_claim_is_none() -> None:
    """A field of a newer owner is skipped, and only so deep."""
    body = b"\x81\xa3zzz" + b"\x91" * 20_000 + b"\xc0"
    with pytest.raises(WireError):
        records.read_claim(body)
    assert len(body) < records.CLAIM_BYTES_MAX


def test_a_quorum_is_what_one_of_its_witnesses_asks_for(owner: Owner) -> None:
    """So many registries, at so many sites: each knows best who else is there to be asked."""

    def suspected(*statements: Statement) -> bool:
        return is_suspected(SessionRecord(signed=owner.signed, witnesses=statements))

    meant = owner.claim.lifecycle, owner.claim.incarnation
    here, near, far = (
        keys.seal(name, site=site).state(owner.claim.session, meant, quorum=2, sites=2)
        for name, site in (("r1", "a"), ("r2", "a"), ("r3", "b"))
    )
    assert not suspected(here)
    assert not suspected(here, near)
    assert suspected(here, near, far)
    assert suspected(near, far)
    alone = keys.seal("r1").state(owner.claim.session, meant, quorum=1, sites=1)
    assert suspected(alone)


def test_what_one_registry_alone_has_ended_its_owner_takes_back(owner: Owner) -> None:
    """It may lie, or have been cut off; what two of them ended has left for good."""
    lone = SessionRecord(signed=owner.signed, ending=said(owner.claim, "r1", ended_at_ms=7))
    both = SessionRecord(signed=owner.signed, ending=said(owner.claim, "r1", "r2", ended_at_ms=7))
    assert lifecycle_of(lone) is lifecycle_of(both) is Lifecycle.LEFT
    owner.say()
    assert merge(lone, owner.record) == owner.record
    assert lifecycle_of(merge(both, owner.record)) is Lifecycle.LEFT


def test_a_denial_of_the_long_forgotten_is_for_good(owner: Owner) -> None:
    """Nobody could ever take such a session in again."""
    meant = Lifecycle.LEFT, 1
    denied = keys.seal("r1").state(owner.claim.session, meant, quorum=1, sites=1, ended_at_ms=7)
    held = SessionRecord(signed=owner.signed, ending=(denied,))
    owner.say()
    assert lifecycle_of(merge(held, owner.record)) is Lifecycle.LEFT


def test_the_better_supported_ending_is_kept(owner: Owner) -> None:
    """Whoever has heard only the other one comes to the same."""
    one = SessionRecord(signed=owner.signed, ending=said(owner.claim, "r9", ended_at_ms=9))
    two = SessionRecord(signed=owner.signed, ending=said(owner.claim, "r1", "r2", ended_at_ms=7))
    assert merge(one, two) == merge(two, one) == two
    assert ended_at_ms(two) == BORN_AT_MS
