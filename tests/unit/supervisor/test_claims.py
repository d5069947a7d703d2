"""What we say of our own session only moves forward."""

import msgspec
import pytest

from opentela.core import ids, record
from opentela.core.ids import NodeId, ProviderId, SiteId
from opentela.core.record import Lifecycle, ModelOffer, Offer
from opentela.supervisor.claims import OwnSession, Place
from opentela.testing.sim.keys import said
from opentela.wire.control import Verdict

PLACE = Place(ProviderId("ethz"), SiteId("alps"), NodeId("nid1"))
BORN = 1_800_000_000.25
TINY = Offer(models=(ModelOffer(name="tiny"),))


@pytest.fixture
def session() -> OwnSession:
    return OwnSession(PLACE, key="UKEY", nonce=b"12345678", wall=BORN, offer=Offer())


def verdict(session: OwnSession, **fields: object) -> Verdict:
    return Verdict(registry="r1", session=session.claim.session, **fields)  # type: ignore[arg-type]


def test_a_session_is_born_joining_under_an_id_of_its_key(session: OwnSession) -> None:
    """Peers can check the id without having heard of it before."""
    claim = session.claim
    assert claim.session == ids.session_id(1_800_000_000_250, "UKEY", b"12345678")
    assert (claim.lifecycle, claim.incarnation) == (Lifecycle.JOINING, 1)
    assert record.read_claim(msgspec.msgpack.encode(claim)) == claim
    assert session.path == ("ethz", "alps", claim.session)


def test_each_change_raises_the_incarnation(session: OwnSession) -> None:
    """Lifecycle, offer and reason are changes; saying the same again is none."""
    assert session.move(Lifecycle.SERVING, wall=BORN, offer=TINY)
    assert not session.move(Lifecycle.SERVING, wall=BORN, offer=TINY)
    assert not session.move(Lifecycle.SERVING, wall=BORN)
    assert session.move(Lifecycle.DRAINING, wall=BORN, reason="the walltime ends")
    assert session.claim.incarnation == 3
    assert session.claim.offer == TINY
    assert session.claim.reason == "the walltime ends"


def test_a_life_never_goes_back(session: OwnSession) -> None:
    """What is down does not serve, and what has left says nothing more."""
    session.move(Lifecycle.DOWN, wall=BORN + 1)
    assert not session.move(Lifecycle.SERVING, wall=BORN + 2, offer=TINY)
    assert (session.has_ended, session.has_left) == (True, False)
    session.move(Lifecycle.LEFT, wall=BORN + 3)
    assert (session.has_ended, session.has_left) == (True, True)
    assert session.claim.incarnation == 3


def test_the_end_is_when_it_first_ended(session: OwnSession) -> None:
    """Retention counts from the death, not from the funeral; and never from before the birth."""
    session.move(Lifecycle.DOWN, wall=BORN - 60)
    assert session.claim.ended_at_ms == session.claim.born_at_ms
    session.move(Lifecycle.LEFT, wall=BORN + 60)
    assert session.claim.ended_at_ms == session.claim.born_at_ms


def test_a_suspicion_of_the_present_incarnation_is_refuted(session: OwnSession) -> None:
    """By one greater than whatever is held against us."""
    assert session.refute(1)
    assert session.claim.incarnation == 2
    assert not session.refute(1)
    assert session.refute(7)
    assert session.claim.incarnation == 8


def test_one_witness_is_refuted_before_a_quorum_forms(session: OwnSession) -> None:
    """Witnesses of an older incarnation, or none at all, need no answer."""
    assert not session.refute(verdict(session).held)
    assert session.refute(verdict(session, witnesses=said(session.claim, "r2", quorum=2)).held)
    old = said(session.claim, "r2", "r3", incarnation=1)
    assert not session.refute(verdict(session, witnesses=old).held)


def test_nobody_makes_us_count_up(session: OwnSession) -> None:
    """A number that we never claimed is no suspicion, and might be too large to be written."""
    assert not session.refute(1 << 64)
    assert session.claim.incarnation == 1


def test_what_one_registry_alone_ends_is_refuted(session: OwnSession) -> None:
    """It may be cut off, or lie."""
    lone = verdict(session, ending=said(session.claim, "r1", ended_at_ms=7))
    assert not session.is_evicted_by(lone)
    assert session.refute(lone.held)
    assert session.claim.incarnation == 2


def test_the_dead_refute_nothing(session: OwnSession) -> None:
    """They are suspected rightly."""
    session.move(Lifecycle.DOWN, wall=BORN)
    assert not session.refute(9)


def test_an_eviction_is_only_news_while_we_have_not_left(session: OwnSession) -> None:
    """Registries that agree with us do not evict us."""
    gone = verdict(session, ending=said(session.claim, "r1", "r2", ended_at_ms=7))
    assert session.is_evicted_by(gone)
    assert not session.is_evicted_by(verdict(session, witnesses=said(session.claim, "r1", "r2")))
    session.move(Lifecycle.LEFT, wall=BORN)
    assert not session.is_evicted_by(gone)
