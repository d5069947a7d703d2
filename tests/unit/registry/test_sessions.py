"""Sessions of a registry: what owners and registries say of them, and what follows."""

import random

import pytest

from opentela.core.ids import ProviderId, SessionId, SiteId
from opentela.core.record import (
    Lifecycle,
    SessionRecord,
    SignedClaim,
    is_suspected,
    lifecycle_of,
)
from opentela.core.session_map import Reason
from opentela.registry import sessions as sessions_module
from opentela.registry.config import DetectorConfig, PeersConfig, RegistryConfig, RestraintConfig
from opentela.registry.messages import (
    Action,
    PublishEvent,
    PublishProbe,
    PublishVerdict,
    Refused,
)
from opentela.registry.peers import Peers
from opentela.registry.sessions import Moment, Sessions
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.testing.sim.keys import FakeIdentity, verify
from opentela.wire.control import Beat, Probe, Verdict

CONFIG = RegistryConfig(
    access="",
    detector=DetectorConfig(grace_s=45.0),
    restraint=RestraintConfig(doubt_sessions_min=4, evictions_min=2),
    peers=PeersConfig(quorum=2),
)


def at(now: float) -> Moment:
    """Return a moment *now* seconds after the birth of the owners."""
    return Moment(now, BORN_AT_MS / 1000 + now)


class Registry:
    """Sessions of a registry `r1`, settled, and its peers."""

    def __init__(self, config: RegistryConfig = CONFIG) -> None:
        self.peers = Peers(config.peers)
        self.sessions = Sessions(name="r1", verify=verify, config=config, peers=self.peers)
        self.sessions.is_settled = True

    def join(self, owner: Owner, now: float = 0.0) -> list[Action]:
        return self.sessions.claimed(at(now), owner.path, owner.signed)

    def beat(self, owner: Owner, now: float) -> list[Action]:
        return self.sessions.beaten(at(now), owner.path, Beat(incarnation=owner.claim.incarnation))

    def fail(self, owner: Owner, now: float) -> list[Action]:
        """Let the session be late, probed and found gone."""
        self.sessions.detect(at(now))
        self.sessions.refused(at(now), owner.path.provider, owner.path.session)
        return self.sessions.detect(at(now))

    def record(self, owner: Owner) -> SessionRecord:
        return self.sessions.held.records[owner.claim.session]


def crowd(count: int) -> list[Owner]:
    rng = random.Random(3)
    return [Owner(FakeIdentity(rng), number=number) for number in range(count)]


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def owner() -> Owner:
    return crowd(1)[0]


def told(actions: list[Action]) -> list[str]:
    """Return the kinds of the events among *actions*."""
    return [action.event.kind for action in actions if isinstance(action, PublishEvent)]


def verdicts(actions: list[Action]) -> list[Verdict]:
    return [action.verdict for action in actions if isinstance(action, PublishVerdict)]


def probes(actions: list[Action]) -> list[Probe]:
    return [action.probe for action in actions if isinstance(action, PublishProbe)]


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
    assert registry.sessions.detector.is_heard(owner.claim.session, 2.4)


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


def test_a_late_session_that_nobody_answers_for_is_suspected(
    registry: Registry, owner: Owner
) -> None:
    """Alone, one registry is a quorum; everybody is told."""
    registry.join(owner)
    actions = registry.fail(owner, 1.5)
    assert told(actions) == ["SUSPECTED"]
    (verdict,) = verdicts(actions)
    assert (verdict.suspected, verdict.witnesses) == (1, ("r1",))
    assert is_suspected(registry.record(owner))


def test_no_responders_from_another_provider_is_not_believed(
    registry: Registry, owner: Owner
) -> None:
    """A provider cannot have another's session suspected."""
    registry.join(owner)
    registry.sessions.detect(at(1.5))
    registry.sessions.refused(at(1.5), ProviderId("other"), owner.path.session)
    assert registry.sessions.detect(at(1.5)) == []


def test_a_suspected_session_that_beats_is_asked_to_refute(
    registry: Registry, owner: Owner
) -> None:
    """And trusted as soon as it has."""
    registry.join(owner)
    registry.fail(owner, 1.5)
    assert probes(registry.beat(owner, 5.0)) == [Probe(sequence=0, suspected=1)]
    owner.say()
    assert told(registry.join(owner, 5.1)) == ["TRUSTED"]
    assert not is_suspected(registry.record(owner))
    assert registry.beat(owner, 6.0) == []


def test_probes_carry_the_suspicion_too(registry: Registry, owner: Owner) -> None:
    """An owner that missed the verdict learns of it whenever it can be reached."""
    registry.join(owner)
    registry.fail(owner, 1.5)
    (probe,) = probes(registry.sessions.detect(at(2.5)))
    assert probe.suspected == 1


def test_with_a_peer_one_witness_is_not_enough(registry: Registry, owner: Owner) -> None:
    """The second makes it a suspicion, on whichever side it is seen."""
    registry.peers.heard("r2", 0.0)
    registry.join(owner)
    actions = registry.fail(owner, 1.5)
    assert told(actions) == []
    assert [v.suspected for v in verdicts(actions)] == [0]
    theirs = Verdict(registry="r2", session=owner.claim.session, witnesses_of=1, witnesses=("r2",))
    actions = registry.sessions.judged(at(1.6), owner.path, theirs)
    assert told(actions) == ["SUSPECTED"]
    (verdict,) = verdicts(actions)
    assert verdict.witnesses == ("r1", "r2")


def test_a_witness_elsewhere_makes_it_look_itself(registry: Registry, owner: Owner) -> None:
    """Before the next beat is late."""
    registry.peers.heard("r2", 0.0)
    registry.join(owner)
    theirs = Verdict(registry="r2", session=owner.claim.session, witnesses_of=1, witnesses=("r2",))
    assert registry.sessions.judged(at(0.5), owner.path, theirs) == []
    assert len(probes(registry.sessions.detect(at(0.5)))) == 1


def test_a_verdict_on_an_unknown_session_is_nothing(registry: Registry, owner: Owner) -> None:
    """Repair brings its record."""
    verdict = Verdict(registry="r2", session=owner.claim.session, verdict=Lifecycle.LEFT)
    assert registry.sessions.judged(at(0.0), owner.path, verdict) == []


def test_a_peer_that_goes_away_lowers_the_quorum(registry: Registry, owner: Owner) -> None:
    """What was seen alone is then enough to stop routing."""
    registry.peers.heard("r2", 0.0)
    registry.join(owner)
    registry.fail(owner, 1.5)
    assert told(registry.sessions.conclude(at(4.9))) == []
    assert told(registry.sessions.conclude(at(5.1))) == ["SUSPECTED"]


def test_a_session_is_evicted_after_grace(registry: Registry, owner: Owner) -> None:
    """With the time of its end, once."""
    registry.join(owner)
    registry.fail(owner, 1.5)
    assert registry.sessions.conclude(at(46.4)) == []
    actions = registry.sessions.conclude(at(46.5))
    assert told(actions) == ["LEFT"]
    (verdict,) = verdicts(actions)
    assert (verdict.verdict, verdict.ended_at_ms) == (Lifecycle.LEFT, BORN_AT_MS + 46_500)
    assert registry.sessions.held.living == {}
    assert registry.sessions.conclude(at(99.0)) == []


def test_one_sign_of_life_during_grace_keeps_a_session(registry: Registry, owner: Owner) -> None:
    """Grace begins anew with the next failure."""
    registry.join(owner)
    registry.fail(owner, 1.5)
    registry.beat(owner, 46.0)
    assert told(registry.sessions.conclude(at(47.0))) == []
    registry.fail(owner, 48.0)
    assert told(registry.sessions.conclude(at(92.0))) == []
    assert told(registry.sessions.conclude(at(93.0))) == ["LEFT"]


def test_a_registry_that_lost_its_peers_evicts_nobody(registry: Registry, owner: Owner) -> None:
    """It may be the one that is cut off; after `memory_s` it is the only one left."""
    registry.peers.heard("r2", 0.0)
    registry.join(owner)
    registry.fail(owner, 6.0)
    assert is_suspected(registry.record(owner))
    assert told(registry.sessions.conclude(at(599.0))) == []
    assert told(registry.sessions.conclude(at(600.0))) == ["LEFT"]


def test_a_majority_evicts_nobody_while_a_peer_is_away(registry: Registry, owner: Owner) -> None:
    """Who is on the other side of a partition may hear what this side does not."""
    registry.peers.heard("r3", 0.0)
    registry.join(owner)
    registry.fail(owner, 6.0)
    for second in range(7, 60):
        registry.peers.heard("r2", float(second))
    theirs = Verdict(registry="r2", session=owner.claim.session, witnesses_of=1, witnesses=("r2",))
    registry.sessions.judged(at(59.0), owner.path, theirs)
    assert is_suspected(registry.record(owner))
    assert told(registry.sessions.conclude(at(59.0))) == []
    registry.peers.heard("r3", 59.5)
    assert told(registry.sessions.conclude(at(60.0))) == ["LEFT"]


def test_many_silent_at_once_are_suspected_but_not_evicted() -> None:
    """The registry doubts itself first."""
    registry = Registry()
    owners = crowd(6)
    for owner in owners:
        registry.join(owner)
    for owner in owners:
        registry.fail(owner, 1.5)
    registry.sessions.conclude(at(2.0))
    assert registry.sessions.restraint.doubting_since == 2.0
    assert told(registry.sessions.conclude(at(60.0))) == []
    assert told(registry.sessions.conclude(at(602.0))) == ["LEFT", "LEFT"]
    assert told(registry.sessions.conclude(at(603.0))) == []


def test_what_is_down_leaves_after_grace(registry: Registry, owner: Owner) -> None:
    """Nobody needs to fail it; its own end stands."""
    registry.join(owner)
    owner.say(Lifecycle.DOWN, ended_at_ms=BORN_AT_MS + 5)
    assert told(registry.join(owner, 1.0)) == ["DOWN"]
    assert not registry.sessions.detector.is_watched(owner.claim.session)
    assert registry.beat(owner, 2.0) == []
    assert registry.sessions.conclude(at(45.9)) == []
    actions = registry.sessions.conclude(at(46.0))
    assert told(actions) == ["LEFT"]
    assert verdicts(actions)[0].ended_at_ms == 0


def test_a_graceful_leave_needs_nobody(registry: Registry, owner: Owner) -> None:
    """It is gone at once."""
    registry.join(owner)
    owner.say(Lifecycle.LEFT)
    assert told(registry.join(owner, 1.0)) == ["LEFT"]
    assert registry.sessions.held.living == {}
    assert registry.sessions.conclude(at(99.0)) == []


def test_a_session_that_has_left_and_still_beats_is_told_so(
    registry: Registry, owner: Owner
) -> None:
    """Its owner joins anew."""
    registry.join(owner)
    registry.fail(owner, 1.5)
    registry.sessions.conclude(at(46.5))
    (verdict,) = verdicts(registry.beat(owner, 50.0))
    assert verdict.verdict is Lifecycle.LEFT
    assert registry.beat(owner, 50.5) == []


def test_a_forgotten_session_that_is_still_believed_in_is_denied(
    registry: Registry, owner: Owner
) -> None:
    """An old copy does not bring it back, whoever sends it; a tombstone is no news."""
    registry.sessions.held.adopt_horizon(cut_ms=0, horizon_ms=BORN_AT_MS)
    actions = registry.sessions.merged(at(1.0), [owner.record], "registry r2")
    (verdict,) = verdicts(actions)
    assert (verdict.verdict, verdict.registry) == (Lifecycle.LEFT, "r1")
    assert registry.sessions.held.records == {}
    owner.say(Lifecycle.LEFT)
    assert registry.sessions.merged(at(9.0), [owner.record], "registry r2") == []


def test_a_suspicion_from_elsewhere_waits_until_a_heard_session_has_refuted_it(
    registry: Registry, owner: Owner
) -> None:
    """When two halves of a mesh meet again, nobody stops using what works."""
    registry.join(owner)
    suspected = SessionRecord(signed=owner.signed, suspected=1, witnesses_of=1, witnesses=("r2",))
    actions = registry.sessions.merged(at(1.0), [suspected], "registry r2")
    assert probes(actions) == [Probe(sequence=0, suspected=1)]
    assert not is_suspected(registry.record(owner))
    owner.say()
    registry.join(owner, 1.1)
    assert registry.sessions.merged(at(1.2), [suspected], "registry r2") == []
    assert not is_suspected(registry.record(owner))
    assert registry.record(owner).suspected == 0


def test_a_suspicion_of_an_unheard_session_is_believed(registry: Registry, owner: Owner) -> None:
    """Also of one that was not known at all."""
    registry.join(owner)
    suspected = SessionRecord(signed=owner.signed, suspected=1)
    assert told(registry.sessions.merged(at(2.0), [suspected], "registry r2")) == ["SUSPECTED"]
    stranger = crowd(2)[1]
    both = SessionRecord(signed=stranger.signed, suspected=1)
    actions = registry.sessions.merged(at(2.0), [both], "registry r2")
    assert told(actions) == ["SERVING", "SUSPECTED"]


def test_rubbish_from_a_peer_is_refused(registry: Registry) -> None:
    """Without harm to anything else."""
    rubbish = SessionRecord(signed=SignedClaim(body=b"\xc1", signature=b""), suspected=1)
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
    verdict = Verdict(registry="r2", session=SessionId(owner.claim.session), suspected=0)
    assert registry.sessions.judged(at(0.1), owner.path, verdict) == []


def test_a_claim_that_only_a_view_remembers_is_looked_for_anew(
    registry: Registry, owner: Owner
) -> None:
    """Of what a view says, only the owner's signature counts: not that it is suspected."""
    suspected = SessionRecord(signed=owner.signed, suspected=9, verdict=Lifecycle.LEFT)
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
    suspected = SessionRecord(signed=owner.signed, suspected=1, witnesses_of=1, witnesses=("r9",))
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
    lie = SessionRecord(signed=owner.signed, suspected=1 << 62)
    assert registry.sessions.relayed(at(1.0), [lie], "view router") == []
