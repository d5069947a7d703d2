"""A record explains itself: who signed what, and what follows."""

import random

import pytest

from opentela.core.account import account_of
from opentela.core.record import Lifecycle, SessionRecord
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.testing.sim.keys import FakeIdentity, said


@pytest.fixture
def owner() -> Owner:
    return Owner(FakeIdentity(random.Random(1)))


def test_what_nobody_disputes_is_its_owners_word(owner: Owner) -> None:
    """With its birth, so that two lives of one engine are told apart."""
    first, last = account_of(owner.record)
    assert first == "its owner: #1 SERVING, born 2027-01-15T08:00:00.000Z"
    assert last == "therefore: SERVING"


def test_an_end_is_told_with_its_reason(owner: Owner) -> None:
    """As its owner gave it."""
    owner.say(Lifecycle.LEFT, ended_at_ms=BORN_AT_MS + 1500, reason="the walltime ends")
    first, last = account_of(owner.record)
    assert first.endswith("ended 2027-01-15T08:00:01.500Z (the walltime ends)")
    assert last == "therefore: LEFT, as its owner says"


def test_each_witness_is_named_and_what_it_takes(owner: Owner) -> None:
    """One is not enough if it asks for two; two are."""

    def suspected_by(*names: str) -> tuple[str, ...]:
        witnesses = said(owner.claim, *names, quorum=2)
        return account_of(SessionRecord(signed=owner.signed, witnesses=witnesses))

    _, witness, last = suspected_by("r1")
    assert witness == "r1: cannot reach it, of #1 SERVING; asks for 2 registries at 1 site"
    assert last == "therefore: SERVING: 1 registry cannot reach it, too few to suspect it"
    assert suspected_by("r1", "r2")[-1].startswith(
        "therefore: SERVING but suspected: it gets no request"
    )


def test_an_end_that_can_be_taken_back_is_told_from_one_that_cannot(owner: Owner) -> None:
    """By how many registries say so."""

    def ended_by(*names: str) -> str:
        ending = said(owner.claim, *names, ended_at_ms=BORN_AT_MS + 1)
        return account_of(SessionRecord(signed=owner.signed, ending=ending))[-1]

    assert "as declared by r1 alone: the owner's next claim reverts it" in ended_by("r1")
    assert ended_by("r1", "r2") == "therefore: LEFT for good, as declared by r1, r2"


def test_a_time_beyond_every_calendar_is_a_number(owner: Owner) -> None:
    """Owners may claim what they like, and people must still be told."""
    owner.say(Lifecycle.DOWN, ended_at_ms=10**18)
    assert "ended 1000000000000000000 ms" in account_of(owner.record)[0]
