"""What registries hold against a session."""

import random

import pytest

from opentela.core.record import (
    Lifecycle,
    SessionRecord,
    ended_at_ms,
    is_final,
    is_suspected,
    lifecycle_of,
    merge,
    names_of,
)
from opentela.registry import judgement
from opentela.registry.judgement import Bar
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.testing.sim.keys import FakeIdentity, said, seal, vouch
from opentela.wire.control import Verdict

ALONE, TWO = Bar(1, 1), Bar(2, 1)


@pytest.fixture
def owner() -> Owner:
    return Owner(FakeIdentity(random.Random(1)))


def test_one_witness_is_a_suspicion_where_one_is_a_quorum(owner: Owner) -> None:
    """And what it says is signed."""
    part = judgement.testimony(owner.record, seal("r1"), ALONE)
    assert part == SessionRecord(signed=owner.signed, witnesses=said(owner.claim, "r1"))
    assert is_suspected(part)
    assert vouch().statement(owner.claim.session, part.witnesses[0]) == ""


def test_the_last_witness_of_a_quorum_makes_the_suspicion(owner: Owner) -> None:
    """The first only testifies."""
    first = judgement.testimony(owner.record, seal("r2"), TWO)
    assert first is not None
    assert not is_suspected(first)
    second = judgement.testimony(merge(owner.record, first), seal("r1"), TWO)
    assert second is not None
    assert is_suspected(merge(first, second))
    assert names_of(merge(first, second).witnesses) == ("r1", "r2")


def test_a_testimony_is_given_once(owner: Owner) -> None:
    """Unless meanwhile less is asked for, or the owner has spoken again."""
    part = judgement.testimony(owner.record, seal("r1"), Bar(2, 2))
    assert part is not None
    held = merge(owner.record, part)
    assert judgement.testimony(held, seal("r1"), Bar(2, 2)) is None
    for bar in (TWO, ALONE):
        again = judgement.testimony(held, seal("r1"), bar)
        assert again is not None
        held = merge(held, again)
    assert is_suspected(held)
    owner.say()
    renewed = judgement.testimony(merge(held, owner.record), seal("r1"), TWO)
    assert renewed is not None
    assert [one.incarnation for one in renewed.witnesses] == [2]
    assert not is_suspected(renewed)


def test_what_others_know_of_a_later_claim_is_what_is_spoken_of(owner: Owner) -> None:
    """A registry that missed the claim adds to their word."""
    later = said(owner.claim, "r2", incarnation=5, quorum=2)
    held = merge(owner.record, SessionRecord(signed=owner.signed, witnesses=later))
    part = judgement.testimony(held, seal("r1"), TWO)
    assert part is not None
    assert [one.incarnation for one in merge(held, part).witnesses] == [5, 5]


def test_sites_are_counted_beside_registries(owner: Owner) -> None:
    """Two of one site are one link's word."""
    meant = owner.claim.lifecycle, owner.claim.incarnation
    one, two, three = (
        seal(name, site=site).state(owner.claim.session, meant, quorum=2, sites=2)
        for name, site in (("r1", "a"), ("r2", "a"), ("r3", "b"))
    )
    bar = Bar(2, 2)
    assert not judgement.is_met(bar, (one, two))
    assert judgement.is_met(bar, (one, three))
    assert judgement.is_met(TWO, (one, two))


def test_an_ending_names_all_who_could_not_reach_it(owner: Owner) -> None:
    """Two make it final."""
    held = SessionRecord(signed=owner.signed, witnesses=said(owner.claim, "r1", "r2", quorum=2))
    part = judgement.ending(held, seal("r1"), TWO, ended_at_ms=BORN_AT_MS + 9)
    assert sorted(names_of(part.ending)) == ["r1", "r2"]
    assert is_final(part.ending)
    assert (lifecycle_of(part), ended_at_ms(part)) == (Lifecycle.LEFT, BORN_AT_MS + 9)
    lone = judgement.ending(owner.record, seal("r1"), ALONE, ended_at_ms=BORN_AT_MS + 9)
    assert not is_final(lone.ending)


def test_who_seconds_an_ending_keeps_the_first(owner: Owner) -> None:
    """So that it becomes final."""
    lone = judgement.ending(owner.record, seal("r1"), ALONE, ended_at_ms=BORN_AT_MS + 9)
    both = judgement.ending(lone, seal("r2"), ALONE, ended_at_ms=BORN_AT_MS + 10)
    assert is_final(merge(lone, both).ending)


def test_an_end_that_the_owner_told_is_when_it_says(owner: Owner) -> None:
    """A registry only lays it to rest."""
    owner.say(Lifecycle.DOWN, ended_at_ms=BORN_AT_MS + 5)
    part = judgement.ending(owner.record, seal("r1"), ALONE)
    assert ended_at_ms(part) == BORN_AT_MS + 5


def test_a_denial_is_final(owner: Owner) -> None:
    """Of one registry, too: what is forgotten cannot come back."""
    verdict = judgement.denial(owner.claim.session, 1, seal("r1"), ALONE, ended_at_ms=9)
    assert is_final(verdict.ending)
    assert verdict.session == owner.claim.session


def test_a_verdict_repeats_all_that_is_held(owner: Owner) -> None:
    """So that who missed the earlier one needs no other."""
    record = SessionRecord(
        signed=owner.signed,
        witnesses=said(owner.claim, "r1"),
        ending=said(owner.claim, "r1", ended_at_ms=9),
    )
    assert judgement.verdict_on(record, registry="r") == Verdict(
        registry="r",
        session=owner.claim.session,
        witnesses=record.witnesses,
        ending=record.ending,
    )


def test_an_owner_learns_what_it_must_exceed(owner: Owner) -> None:
    """If it is suspected, or this registry has testified; not for what others alone have seen."""
    testified = SessionRecord(signed=owner.signed, witnesses=said(owner.claim, "r1", quorum=2))
    assert judgement.held_against(owner.record, "r1") == 0
    assert judgement.held_against(testified, "r1") == 1
    assert judgement.held_against(testified, "r2") == 0
    suspected = SessionRecord(signed=owner.signed, witnesses=said(owner.claim, "r1", "r3"))
    assert judgement.held_against(suspected, "r2") == 1


def test_a_record_without_suspicion_keeps_the_rest(owner: Owner) -> None:
    """What can be refuted goes, what cannot stays."""
    ending = said(owner.claim, "r1", ended_at_ms=9)
    record = SessionRecord(signed=owner.signed, witnesses=said(owner.claim, "r1"), ending=ending)
    expected = SessionRecord(signed=owner.signed, ending=ending)
    assert judgement.without_suspicion(record) == expected
