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
    claim_of,
    ended_at_ms,
    is_routable,
    is_suspected,
    lifecycle_of,
    merge,
    normal,
    read_claim,
)
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.testing.sim.keys import FakeIdentity


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
    """Who once was down never serves again, whatever is claimed later."""
    owner.say(Lifecycle.DOWN, ended_at_ms=BORN_AT_MS + 5)
    down = owner.record
    owner.say(Lifecycle.SERVING, ended_at_ms=0)
    merged = merge(down, owner.record)
    assert lifecycle_of(merged) is Lifecycle.DOWN
    assert ended_at_ms(merged) == BORN_AT_MS + 5
    assert claim_of(merged).incarnation == 3


def test_a_verdict_that_the_owner_repeats_is_no_other_record(owner: Owner) -> None:
    """Equal knowledge is equal bytes, or digests would never agree."""
    evicted = SessionRecord(signed=owner.signed, verdict=Lifecycle.LEFT, ended_at_ms=7)
    owner.say(Lifecycle.LEFT, ended_at_ms=9)
    assert merge(evicted, owner.record) == owner.record


def test_witnesses_are_counted_for_the_greatest_incarnation_only(owner: Owner) -> None:
    """A refutation leaves old witnesses behind; those of one incarnation add up."""
    one = SessionRecord(signed=owner.signed, witnesses_of=1, witnesses=("b",))
    two = SessionRecord(signed=owner.signed, witnesses_of=1, witnesses=("a",))
    later = SessionRecord(signed=owner.signed, witnesses_of=2, witnesses=("c",))
    assert merge(one, two).witnesses == ("a", "b")
    assert merge(one, later).witnesses == merge(later, one).witnesses == ("c",)


def test_normal_form_sorts_and_drops_what_the_claim_says(owner: Owner) -> None:
    """There is one way to write a record."""
    odd = SessionRecord(
        signed=owner.signed, verdict=Lifecycle.SERVING, witnesses_of=1, witnesses=("b", "a", "b")
    )
    assert normal(odd) == SessionRecord(signed=owner.signed, witnesses_of=1, witnesses=("a", "b"))
    assert normal(owner.record) is not None
    plain = owner.record
    assert normal(plain) is plain


def test_suspicion_ends_with_the_next_incarnation(owner: Owner) -> None:
    """A suspected session takes no requests until its owner has spoken again."""
    suspected = SessionRecord(signed=owner.signed, suspected=1)
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
    evicted = SessionRecord(signed=owner.say(Lifecycle.SERVING), verdict=Lifecycle.LEFT)
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
