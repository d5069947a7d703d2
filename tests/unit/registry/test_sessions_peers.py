"""What others say of sessions: other registries, views, the dead that go on."""

from msgspec.structs import replace
from tests.unit.registry.one import Registry, at, crowd, probes, told, verdicts

from opentela.core.ids import SessionId
from opentela.core.record import (
    Lifecycle,
    SessionRecord,
    SignedClaim,
    is_final,
    is_suspected,
    lifecycle_of,
    names_of,
)
from opentela.core.refusal import Reason
from opentela.registry import judgement
from opentela.registry.messages import (
    Refused,
)
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.testing.sim.keys import said, seal
from opentela.wire.control import Probe, Verdict


def test_a_session_that_has_left_and_still_beats_is_told_so(
    registry: Registry, owner: Owner
) -> None:
    """Its owner joins anew."""
    registry.join(owner)
    registry.fail(owner, 1.5)
    registry.sessions.conclude(at(46.5))
    (verdict,) = verdicts(registry.beat(owner, 50.0))
    assert names_of(verdict.ending) == ("r1",)
    assert registry.beat(owner, 50.5) == []


def test_a_forgotten_session_that_is_still_believed_in_is_denied(
    registry: Registry, owner: Owner
) -> None:
    """An old copy does not bring it back, whoever sends it; a tombstone is no news."""
    registry.sessions.held.adopt_horizon(cut_ms=0, horizon_ms=BORN_AT_MS)
    actions = registry.sessions.merged(at(1.0), [owner.record], "registry r2")
    (verdict,) = verdicts(actions)
    assert (names_of(verdict.ending), is_final(verdict.ending)) == (("r1",), True)
    assert registry.sessions.held.records == {}
    owner.say(Lifecycle.LEFT)
    assert registry.sessions.merged(at(9.0), [owner.record], "registry r2") == []


def test_a_suspicion_from_elsewhere_waits_until_a_heard_session_has_refuted_it(
    registry: Registry, owner: Owner
) -> None:
    """When two halves of a mesh meet again, nobody stops using what works."""
    registry.join(owner)
    suspected = SessionRecord(signed=owner.signed, witnesses=said(owner.claim, "r2"))
    actions = registry.sessions.merged(at(1.0), [suspected], "registry r2")
    assert probes(actions) == [Probe(sequence=0, suspected=1)]
    assert not is_suspected(registry.record(owner))
    owner.say()
    registry.join(owner, 1.1)
    assert registry.sessions.merged(at(1.2), [suspected], "registry r2") == []
    assert not is_suspected(registry.record(owner))
    assert registry.record(owner).witnesses == ()


def test_a_suspicion_of_an_unheard_session_is_believed(registry: Registry, owner: Owner) -> None:
    """Also of one that was not known at all."""
    registry.join(owner)
    suspected = SessionRecord(signed=owner.signed, witnesses=said(owner.claim, "r2"))
    assert told(registry.sessions.merged(at(2.0), [suspected], "registry r2")) == ["SUSPECTED"]
    stranger = crowd(2)[1]
    both = SessionRecord(signed=stranger.signed, witnesses=said(stranger.claim, "r2"))
    actions = registry.sessions.merged(at(2.0), [both], "registry r2")
    assert told(actions) == ["SERVING", "SUSPECTED"]


def test_rubbish_from_a_peer_is_refused(registry: Registry) -> None:
    """Without harm to anything else."""
    rubbish = SessionRecord(signed=SignedClaim(body=b"\xc1", signature=b""))
    (refused,) = registry.sessions.merged(at(0.0), [rubbish], "registry r2")
    assert isinstance(refused, Refused)


def test_what_is_learned_while_booting_is_no_news(registry: Registry, owner: Owner) -> None:
    """But what owners announce meanwhile is."""
    old, new = crowd(2)
    registry.sessions.is_settled = False
    assert told(registry.sessions.merged(at(0.0), [old.record], "registry r2")) == []
    assert told(registry.join(new)) == ["SERVING"]


def test_another_registrys_word_that_an_owner_spoke_is_a_sign_of_life(
    registry: Registry, owner: Owner
) -> None:
    """A registry that cannot reach it itself gives it a new lease, not a new suspicion at once."""
    registry.join(owner)
    registry.fail(owner, 1.5)
    owner.say()
    registry.sessions.merged(at(3.0), [owner.record], "registry r2")
    assert registry.sessions.detector.failing == {}
    assert lifecycle_of(registry.record(owner)) is Lifecycle.SERVING


def test_a_session_of_the_dead_is_not_weighed(registry: Registry, owner: Owner) -> None:
    """Words on a session that this registry can reach change nothing of its own."""
    registry.join(owner)
    verdict = Verdict(registry="r2", session=SessionId(owner.claim.session))
    assert registry.sessions.judged(at(0.1), owner.path, verdict) == []


def test_a_claim_that_only_a_view_remembers_is_looked_for_anew(
    registry: Registry, owner: Owner
) -> None:
    """Of what a view says, only the owner's signature counts: not that it is suspected."""
    suspected = SessionRecord(
        signed=owner.signed,
        witnesses=said(owner.claim, "r2", incarnation=9),
        ending=said(owner.claim, "r2", ended_at_ms=9),
    )
    actions = registry.sessions.relayed(at(1.0), [suspected], "view router")
    assert told(actions) == ["SERVING"]
    assert registry.record(owner) == owner.record
    assert told(registry.fail(owner, 2.5)) == ["SUSPECTED"]
    forged = SessionRecord(signed=SignedClaim(body=crowd(2)[1].signed.body, signature=b"x"))
    (refused,) = registry.sessions.relayed(at(2.6), [forged], "view router")
    assert isinstance(refused, Refused)


def test_a_suspicion_that_only_a_view_still_holds_is_refuted(
    registry: Registry, owner: Owner
) -> None:
    """The registry that raised it died; else that view would never route to the session again."""
    registry.join(owner)
    suspected = SessionRecord(signed=owner.signed, witnesses=said(owner.claim, "r9"))
    actions = registry.sessions.relayed(at(1.0), [suspected], "view router")
    assert probes(actions) == [Probe(sequence=0, suspected=1)]
    assert registry.record(owner) == owner.record
    assert registry.sessions.relayed(at(1.5), [suspected], "view router") == []
    assert registry.sessions.relayed(at(3.0), [suspected], "view router") == []


def test_a_suspicion_beyond_what_was_claimed_is_not_passed_on(
    registry: Registry, owner: Owner
) -> None:
    """Nobody can make an owner count up but by one."""
    registry.join(owner)
    lie = SessionRecord(signed=owner.signed, witnesses=said(owner.claim, "r9", incarnation=1 << 62))
    assert registry.sessions.relayed(at(1.0), [lie], "view router") == []


def test_a_peers_denial_of_a_forgotten_session_is_seconded(
    registry: Registry, owner: Owner
) -> None:
    """Views of several registries do not believe one; what is remembered is not denied."""
    bar = judgement.Bar(2, 1)
    verdict = judgement.denial(owner.claim.session, 1, seal("r2"), bar, ended_at_ms=9)
    assert registry.sessions.judged(at(1.0), owner.path, verdict) == []
    registry.sessions.held.adopt_horizon(cut_ms=0, horizon_ms=BORN_AT_MS)
    (seconded,) = verdicts(registry.sessions.judged(at(2.0), owner.path, verdict))
    assert names_of(seconded.ending) == ("r2", "r1")
    assert registry.sessions.judged(at(9.0), owner.path, seconded) == []


def test_what_a_peer_forges_is_refused_and_its_claim_taken(
    registry: Registry, owner: Owner
) -> None:
    """It speaks for itself alone, whatever names it writes."""
    (true,) = said(owner.claim, "r3")
    forged = replace(true, registry="r2")
    record = SessionRecord(signed=owner.signed, witnesses=(forged,))
    actions = registry.sessions.merged(at(1.0), [record], "registry r3")
    (refused,) = (action for action in actions if isinstance(action, Refused))
    assert [one.reason for one in refused.rejected] == [Reason.FORGED]
    assert registry.record(owner) == owner.record


def test_a_forgotten_session_that_beats_is_denied_at_once(registry: Registry, owner: Owner) -> None:
    """Asking it for its claim first would leave no word for the denial."""
    registry.sessions.held.adopt_horizon(cut_ms=0, horizon_ms=BORN_AT_MS)
    for second in range(3):
        actions = registry.beat(owner, 1.0 + second)
        (verdict,) = verdicts(actions)
        assert is_final(verdict.ending)
        assert probes(actions) == []
