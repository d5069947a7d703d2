"""Sessions of a registry: what owners and registries say of them, and what follows."""

import pytest
from tests.unit.registry.one import Registry, at, crowd, probes, told

from opentela.core.ids import ProviderId, SiteId
from opentela.core.record import (
    Lifecycle,
    SignedClaim,
)
from opentela.core.refusal import Reason
from opentela.registry import sessions as sessions_module
from opentela.registry.messages import (
    Refused,
)
from opentela.testing.owner import Owner
from opentela.wire.control import Beat, Probe


def test_a_claim_is_held_told_and_watched(registry: Registry, owner: Owner) -> None:
    """The whole of joining; said again it is nothing new."""
    assert told(registry.join(owner)) == ["SERVING"]
    assert registry.sessions.detector.is_watched(owner.claim.session)
    assert registry.join(owner, 0.5) == []


def test_a_forged_claim_is_refused_and_no_sign_of_life(registry: Registry, owner: Owner) -> None:
    """Whoever cannot sign cannot keep a session alive either."""
    registry.join(owner)
    forged = SignedClaim(body=owner.signed.body, signature=b"x")
    (refused,) = registry.sessions.claimed(at(1.0), owner.path, forged)
    assert isinstance(refused, Refused)
    assert [one.reason for one in refused.rejected] == [Reason.FORGED]
    assert not registry.sessions.detector.is_heard(owner.claim.session, 1.6)


def test_a_beat_keeps_a_session(registry: Registry, owner: Owner) -> None:
    """And says nothing to anybody."""
    registry.join(owner)
    assert registry.beat(owner, 1.0) == []
    assert registry.sessions.detector.is_heard(owner.claim.session, 2.1)


def test_a_beat_of_a_newer_claim_makes_it_ask(registry: Registry, owner: Owner) -> None:
    """The delta was lost: the answer to the probe carries it."""
    registry.join(owner)
    owner.say(Lifecycle.DRAINING)
    assert probes(registry.beat(owner, 1.0)) == [Probe(sequence=0)]
    actions = registry.sessions.answered(
        at(1.1), owner.path.provider, owner.path.session, owner.signed
    )
    assert told(actions) == ["DRAINING"]


def test_a_beat_of_an_unknown_session_makes_it_ask(registry: Registry, owner: Owner) -> None:
    """Once a second at most; the answer is taken over the path that was asked."""
    assert probes(registry.beat(owner, 0.0)) == [Probe(sequence=0)]
    assert registry.beat(owner, 0.5) == []
    other = ProviderId("other")
    assert registry.sessions.answered(at(0.6), other, owner.path.session, owner.signed) == []
    actions = registry.sessions.answered(
        at(0.6), owner.path.provider, owner.path.session, owner.signed
    )
    assert told(actions) == ["SERVING"]


def test_an_answer_that_nobody_asked_for_is_nothing(registry: Registry, owner: Owner) -> None:
    """Neither is a "no responders"."""
    path = owner.path
    assert registry.sessions.answered(at(0.0), path.provider, path.session, owner.signed) == []
    registry.sessions.refused(at(0.0), path.provider, path.session)


def test_unknown_sessions_are_remembered_in_bounds(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever beats for invented sessions fills nothing."""
    monkeypatch.setattr(sessions_module, "KEYS_MAX", 1)
    first, second = crowd(2)
    registry.beat(first, 0.0)
    registry.beat(second, 0.0)
    path = first.path
    assert registry.sessions.answered(at(0.1), path.provider, path.session, first.signed) == []


def test_a_beat_over_anothers_subject_is_foreign(registry: Registry, owner: Owner) -> None:
    """Nobody keeps another's session alive."""
    registry.join(owner)
    path = owner.path._replace(site=SiteId("other"))
    (refused,) = registry.sessions.beaten(at(1.0), path, Beat(incarnation=1))
    assert isinstance(refused, Refused)
    assert registry.sessions.held.rejections[Reason.FOREIGN] == 1
    assert not registry.sessions.detector.is_heard(owner.claim.session, 1.6)
