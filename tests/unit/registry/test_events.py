"""Changes as events."""

import random

import pytest

from opentela.core.record import Lifecycle, ModelOffer, Offer, SessionRecord
from opentela.core.session_map import Change
from opentela.registry.events import events_of
from opentela.testing.owner import Owner
from opentela.testing.sim.keys import FakeIdentity, said
from opentela.wire.events import LifecycleEvent

WALL = 1_800_000_000.25


@pytest.fixture
def owner() -> Owner:
    return Owner(FakeIdentity(random.Random(1)))


def kinds(before: SessionRecord | None, after: SessionRecord) -> list[str]:
    change = Change(before, after)
    return [event.kind for event in events_of(change, registry="r", wall=WALL)]


def test_an_event_says_what_who_where_and_when(owner: Owner) -> None:
    """Its id is the same whichever registry tells it."""
    owner.say(Lifecycle.DRAINING, reason="walltime")
    (event,) = events_of(Change(None, owner.record), registry="r", wall=WALL)
    claim = owner.claim
    assert event == LifecycleEvent(
        id=f"{claim.session}.2.DRAINING",
        kind="DRAINING",
        at="2027-01-15T08:00:00.250Z",
        registry="r",
        provider=claim.provider,
        site=claim.site,
        session=claim.session,
        node=claim.node,
        incarnation=2,
        models=("m",),
        reason="walltime",
    )


def test_each_step_of_a_life_is_told(owner: Owner) -> None:
    """And nothing when nothing happened."""
    owner.say(Lifecycle.JOINING)
    before = None
    for lifecycle in Lifecycle:
        owner.say(lifecycle)
        assert kinds(before, owner.record) == [lifecycle.name]
        before = owner.record
    assert kinds(owner.record, owner.record) == []


def test_another_offer_is_a_change(owner: Owner) -> None:
    """Another incarnation alone is not."""
    before = owner.record
    owner.say()
    assert kinds(before, owner.record) == []
    before = owner.record
    owner.say(offer=Offer(models=(ModelOffer(name="other"),)))
    assert kinds(before, owner.record) == ["CHANGED"]


def test_suspicion_and_its_refutation_are_told(owner: Owner) -> None:
    """With who could not reach it."""
    before = owner.record
    suspected = SessionRecord(signed=owner.signed, witnesses=said(owner.claim, "r1", "r2"))
    (event,) = events_of(Change(before, suspected), registry="r", wall=WALL)
    assert (event.kind, event.reason) == ("SUSPECTED", "no path from r1, r2")
    assert kinds(None, suspected) == ["SERVING", "SUSPECTED"]
    owner.say()
    assert kinds(suspected, owner.record) == ["TRUSTED"]


def test_an_eviction_is_told_as_such(owner: Owner) -> None:
    """Nobody suspects or trusts what has ended."""
    suspected = SessionRecord(signed=owner.signed, witnesses=said(owner.claim, "r1"))
    evicted = SessionRecord(signed=owner.signed, ending=said(owner.claim, "r1", ended_at_ms=9))
    (event,) = events_of(Change(suspected, evicted), registry="r", wall=WALL)
    assert event.kind == "LEFT"
    assert event.reason.startswith("evicted")
