"""What is refused at the door of a map, and what fewer than are there may not say alone."""

import random

import pytest
from msgspec.structs import replace

from opentela.core.record import Lifecycle, SessionRecord, Statement
from opentela.core.refusal import Reason, fault_of, lone, supported
from opentela.testing.owner import Owner
from opentela.testing.sim.keys import FakeIdentity, said


@pytest.fixture
def owner() -> Owner:
    return Owner(FakeIdentity(random.Random(1)))


def test_what_is_supported_stays_the_very_record(owner: Owner) -> None:
    """Nothing is copied that need not be."""
    plain = owner.record
    assert supported(plain, 2) is plain
    both = SessionRecord(signed=owner.signed, witnesses=said(owner.claim, "r1", "r2"))
    assert supported(both, 2) is both
    patient = SessionRecord(signed=owner.signed, witnesses=said(owner.claim, "r1", quorum=2))
    assert supported(patient, 2) is patient


def test_one_alone_neither_suspects_nor_ends_where_there_are_two(owner: Owner) -> None:
    """Where it is alone, it does."""
    record = SessionRecord(
        signed=owner.signed,
        witnesses=said(owner.claim, "r1"),
        ending=said(owner.claim, "r1", ended_at_ms=7),
    )
    assert supported(record, 2) == owner.record
    assert supported(record, 1) is record


def test_whom_its_owner_has_ended_one_lays_to_rest(owner: Owner) -> None:
    """Nobody is harmed by that."""
    owner.say(Lifecycle.DOWN)
    record = SessionRecord(signed=owner.signed, ending=said(owner.claim, "r1", ended_at_ms=7))
    assert supported(record, 2) is record


def test_a_lone_word_is_refused_by_name(owner: Owner) -> None:
    """Operators learn who says it."""
    refused = lone(
        SessionRecord(signed=owner.signed, ending=said(owner.claim, "r7", ended_at_ms=7))
    )
    assert refused.reason is Reason.UNSUPPORTED
    assert refused.session == owner.claim.session
    assert refused.detail.startswith("r7 alone")


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"registry": "No Name"}, "a statement of 'No Name'"),
        ({"incarnation": 0}, "on incarnation 0"),
        ({"ended_at_ms": 0}, "an ending without an end"),
    ],
)
def test_what_no_registry_of_ours_says_is_a_fault(
    owner: Owner, changes: dict[str, object], fault: str
) -> None:
    """Signed or not."""
    (statement,) = said(owner.claim, "r1", ended_at_ms=7)
    odd: Statement = replace(statement, **changes)
    record = SessionRecord(signed=owner.signed, ending=(odd,))
    assert fault in fault_of(record, owner.claim)
    assert fault_of(replace(record, ending=(statement,)), owner.claim) == ""
