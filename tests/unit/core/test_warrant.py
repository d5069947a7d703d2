"""Whose word a claim is, as every peer can check for itself."""

import random

import pytest
from msgspec.structs import replace

from opentela.core import warrant as warrants
from opentela.core.record import (
    CLAIM_ENCODER,
    Claim,
    Lifecycle,
    SessionRecord,
    SignedClaim,
    Warrant,
)
from opentela.core.refusal import Reason
from opentela.core.session_map import SessionMap
from opentela.core.warrant import Authority
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.testing.sim import keys
from opentela.testing.sim.keys import FakeIdentity, vouch

BORN_AT_S = BORN_AT_MS // 1000


@pytest.fixture
def signer() -> FakeIdentity:
    return FakeIdentity(random.Random(1))


def fault(signer: FakeIdentity, claim: Claim) -> str:
    """Return what is wrong with *claim*, well signed."""
    body = CLAIM_ENCODER.encode(claim)
    return vouch()(claim, SignedClaim(body=body, signature=signer.sign(body)))


def warranted(signer: FakeIdentity, warrant: Warrant, **changes: object) -> Claim:
    return replace(Owner(signer).claim, warrant=warrant, **changes)


def test_a_warranted_provider_is_believed(signer: FakeIdentity) -> None:
    """With its own key, for its own sessions."""
    owner = Owner(signer)
    assert vouch()(owner.claim, owner.signed) == ""


def test_a_key_that_nobody_warrants_is_not_believed(signer: FakeIdentity) -> None:
    """However well the claim is signed and whoever relays it."""
    stranger = FakeIdentity(random.Random(2))
    self_made = keys.warrant(signer.key, "p", issuer=signer)
    by_another = keys.warrant(signer.key, "p", issuer=stranger)
    for warrant in (Warrant(), Warrant(signature=b"x" * 64), self_made, by_another):
        assert "nobody whom this mesh trusts" in fault(signer, warranted(signer, warrant))


def test_one_provider_does_not_speak_for_another(signer: FakeIdentity) -> None:
    """A good warrant of one's own does not help."""
    mine = keys.warrant(signer.key, "p")
    assert "its key is q's" in fault(signer, warranted(signer, mine, provider="q"))


def test_a_warrant_is_for_one_key(signer: FakeIdentity) -> None:
    """It stands in every record for all to see, and is of use to its owner alone."""
    owner, thief = Owner(signer), FakeIdentity(random.Random(2))
    stolen = replace(Owner(thief).claim, warrant=owner.claim.warrant)
    assert "nobody whom this mesh trusts" in fault(thief, stolen)
    # Nor with the owner's key beside it, for which the thief cannot sign.
    body = CLAIM_ENCODER.encode(owner.claim)
    forged = SignedClaim(body=body, signature=thief.sign(body))
    assert vouch()(owner.claim, forged) == "the signature is not its owner's"


@pytest.mark.parametrize(("site", "believed"), [("", True), ("s", True), ("t", False)])
def test_a_warrant_may_hold_for_one_site(signer: FakeIdentity, site: str, believed: bool) -> None:  # noqa: FBT001
    """As the server's permission does."""
    claim = warranted(signer, keys.warrant(signer.key, "p", site=site))
    assert (fault(signer, claim) == "") is believed


@pytest.mark.parametrize(("expires_at", "believed"), [(0, True), (1, True), (-1, False)])
def test_no_session_is_born_after_the_warrant_expired(
    signer: FakeIdentity,
    expires_at: int,
    believed: bool,  # noqa: FBT001
) -> None:
    """One that was born before lives on: every peer, at any time, decides alike."""
    at = BORN_AT_S + expires_at if expires_at else 0
    claim = warranted(signer, keys.warrant(signer.key, "p", expires_at=at))
    assert (fault(signer, claim) == "") is believed


def test_limits_cannot_be_loosened(signer: FakeIdentity) -> None:
    """They are part of what the mesh signed."""
    strict = keys.warrant(signer.key, "p", site="t", expires_at=BORN_AT_S - 1)
    for loosened in (
        replace(strict, site="s", expires_at=0),
        replace(strict, site="", expires_at=0),
        replace(strict, site="s", expires_at=BORN_AT_S + 1),
    ):
        assert "nobody whom this mesh trusts" in fault(signer, warranted(signer, loosened))


def test_a_warrant_is_checked_once(monkeypatch: pytest.MonkeyPatch, signer: FakeIdentity) -> None:
    """Each further claim costs its own signature only; a bad one is never remembered as good."""
    monkeypatch.setattr(warrants, "_KEPT_MAX", 1)
    checked: list[str] = []

    def check(key: str, body: bytes, signature: bytes) -> bool:
        checked.append(key)
        return keys.verify(key, body, signature)

    authority = Authority((keys.ISSUER.key,), check)
    owner, other = Owner(signer), Owner(FakeIdentity(random.Random(2)))
    for _ in range(3):
        owner.say()
        assert authority(owner.claim, owner.signed) == ""
    assert checked == [keys.ISSUER.key, *[signer.key] * 3]
    # Only so many are kept.
    assert authority(other.claim, other.signed) == ""
    assert authority(owner.claim, owner.signed) == ""
    assert checked.count(keys.ISSUER.key) == 3
    bad = replace(owner.claim, warrant=Warrant())
    assert authority(bad, owner.signed)
    assert authority(bad, owner.signed)


def test_a_mesh_that_trusts_nobody_believes_nobody(signer: FakeIdentity) -> None:
    """There is no way to leave the check out by leaving something empty."""
    owner = Owner(signer)
    assert Authority((), keys.verify)(owner.claim, owner.signed)


def test_an_unwarranted_record_is_refused_at_both_doors_and_counted(signer: FakeIdentity) -> None:
    """From an owner and from a registry."""
    owner = Owner(signer)
    owner.say(warrant=Warrant())
    held = SessionMap(vouch())
    wall = BORN_AT_S
    for applied in (
        held.admit(owner.signed, owner.path, wall=wall),
        held.admit(owner.signed, None, wall=wall),
        held.apply([owner.record], wall=wall, source="registry r"),
    ):
        assert [rejection.reason for rejection in applied.rejected] == [Reason.FORGED]
    assert held.rejections == {Reason.FORGED: 3}
    assert not held.records


def test_a_registrys_statement_is_believed(signer: FakeIdentity) -> None:
    """Whoever passes it on."""
    owner = Owner(signer)
    (statement,) = keys.said(owner.claim, "r1")
    assert vouch().statement(owner.claim.session, statement) == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"registry": "r2"},
        {"incarnation": 2},
        {"lifecycle": Lifecycle.LEFT},
        {"quorum": 2},
        {"sites": 2},
        {"ended_at_ms": 9},
        {"warrant": Warrant()},
        {"signature": b"x"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_no_part_of_a_statement_can_be_altered(
    signer: FakeIdentity, changes: dict[str, object]
) -> None:
    """Nor can it be turned against another session."""
    owner = Owner(signer)
    (statement,) = keys.said(owner.claim, "r1")
    assert vouch().statement(owner.claim.session, replace(statement, **changes))
    assert vouch().statement(Owner(FakeIdentity(random.Random(9))).claim.session, statement)


def test_a_provider_is_no_registry(signer: FakeIdentity) -> None:
    """A warrant of the one is none of the other, though both are of the mesh."""
    owner = Owner(signer)
    seal = warrants.Seal(owner.claim.provider, signer, owner.claim.warrant)
    statement = seal.state(owner.claim.session, (Lifecycle.SERVING, 1), quorum=1, sites=1)
    assert "nobody whom this mesh trusts" in vouch().statement(owner.claim.session, statement)


def test_a_map_drops_what_no_registry_said_and_keeps_the_claim(signer: FakeIdentity) -> None:
    """A liar on the way costs nobody the owner's word, nor the true statements beside its own."""
    owner = Owner(signer)
    (true,) = keys.said(owner.claim, "r1", quorum=2)
    forged = replace(true, registry="r2")
    held = SessionMap(vouch())
    record = SessionRecord(signed=owner.signed, witnesses=(true, forged), ending=(forged,))
    record = replace(record, ending=(replace(forged, ended_at_ms=9),))
    applied = held.apply([record], wall=BORN_AT_S, source="registry r3")
    assert {rejection.reason for rejection in applied.rejected} == {Reason.FORGED}
    assert held.get(owner.claim.session) == SessionRecord(signed=owner.signed, witnesses=(true,))
