"""What registries hold against a session."""

import random

import pytest

from opentela.core.record import Lifecycle, SessionRecord, merge
from opentela.registry import judgement
from opentela.testing.owner import Owner
from opentela.testing.sim.keys import FakeIdentity
from opentela.wire.control import Verdict


@pytest.fixture
def owner() -> Owner:
    return Owner(FakeIdentity(random.Random(1)))


def test_one_witness_is_a_suspicion_where_one_is_a_quorum(owner: Owner) -> None:
    """Both in one part."""
    part = judgement.testimony(owner.record, "r1", quorum=1)
    assert part == SessionRecord(
        signed=owner.signed, suspected=1, witnesses_of=1, witnesses=("r1",)
    )


def test_the_last_witness_of_a_quorum_makes_the_suspicion(owner: Owner) -> None:
    """The first only testifies."""
    first = judgement.testimony(owner.record, "r2", quorum=2)
    assert first is not None
    assert first.suspected == 0
    second = judgement.testimony(merge(owner.record, first), "r1", quorum=2)
    assert second is not None
    assert (second.suspected, second.witnesses) == (1, ("r1", "r2"))


def test_a_testimony_is_given_once(owner: Owner) -> None:
    """Unless meanwhile it makes a quorum, or the owner has spoken again."""
    part = judgement.testimony(owner.record, "r1", quorum=2)
    assert part is not None
    held = merge(owner.record, part)
    assert judgement.testimony(held, "r1", quorum=2) is None
    alone = judgement.testimony(held, "r1", quorum=1)
    assert alone is not None
    assert alone.suspected == 1
    owner.say()
    again = judgement.testimony(merge(held, owner.record), "r1", quorum=2)
    assert again is not None
    assert (again.witnesses_of, again.witnesses, again.suspected) == (2, ("r1",), 0)


def test_witnesses_count_until_the_owner_speaks(owner: Owner) -> None:
    """Then they have been refuted."""
    held = SessionRecord(signed=owner.signed, witnesses_of=1, witnesses=("r1",))
    assert judgement.witnesses_now(held) == ("r1",)
    owner.say()
    assert judgement.witnesses_now(merge(held, owner.record)) == ()


def test_an_ending_is_for_good(owner: Owner) -> None:
    """It says when, unless the owner has said so."""
    part = judgement.ending(owner.record, ended_at_ms=9)
    assert (part.verdict, part.ended_at_ms) == (Lifecycle.LEFT, 9)


def test_a_verdict_repeats_all_that_is_held(owner: Owner) -> None:
    """So that who missed the earlier one needs no other."""
    record = SessionRecord(
        signed=owner.signed,
        verdict=Lifecycle.LEFT,
        ended_at_ms=9,
        suspected=1,
        witnesses_of=1,
        witnesses=("r1",),
    )
    assert judgement.verdict_on(record, registry="r") == Verdict(
        registry="r",
        session=owner.claim.session,
        verdict=Lifecycle.LEFT,
        ended_at_ms=9,
        suspected=1,
        witnesses_of=1,
        witnesses=("r1",),
    )


def test_an_owner_learns_what_it_must_exceed(owner: Owner) -> None:
    """If it is suspected, or this registry has testified; not for what others alone have seen."""
    testified = SessionRecord(signed=owner.signed, witnesses_of=1, witnesses=("r1",))
    assert judgement.held_against(owner.record, "r1") == 0
    assert judgement.held_against(testified, "r1") == 1
    assert judgement.held_against(testified, "r2") == 0
    assert judgement.held_against(SessionRecord(signed=owner.signed, suspected=3), "r2") == 3


def test_a_record_without_suspicion_keeps_the_rest(owner: Owner) -> None:
    """What can be refuted goes, what cannot stays."""
    record = SessionRecord(
        signed=owner.signed,
        verdict=Lifecycle.LEFT,
        suspected=1,
        witnesses_of=1,
        witnesses=("r1",),
    )
    expected = SessionRecord(signed=owner.signed, verdict=Lifecycle.LEFT)
    assert judgement.without_suspicion(record) == expected
