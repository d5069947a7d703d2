"""How a registry judges sessions: suspicion, quorum, grace, eviction, doubt."""

from tests.unit.registry.one import Registry, at, crowd, probes, told, verdicts

from opentela.core.ids import ProviderId
from opentela.core.record import Lifecycle, ended_at_ms, is_suspected, lifecycle_of, names_of
from opentela.core.refusal import Reason
from opentela.registry.messages import Refused
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.testing.sim.keys import said
from opentela.wire.control import Probe, Verdict


def seen_by(owner: Owner, *registries: str, quorum: int = 2, sites: int = 1) -> Verdict:
    """Return a verdict: these cannot reach it."""
    witnesses = said(owner.claim, *registries, quorum=quorum, sites=sites)
    return Verdict(registry=registries[0], session=owner.claim.session, witnesses=witnesses)


def ended_by(owner: Owner, *registries: str) -> Verdict:
    """Return a verdict: these say that it has left."""
    ending = said(owner.claim, *registries, ended_at_ms=BORN_AT_MS + 9)
    return Verdict(registry=registries[0], session=owner.claim.session, ending=ending)


def test_a_late_session_that_nobody_answers_for_is_suspected(
    registry: Registry, owner: Owner
) -> None:
    """Alone, one registry is a quorum; everybody is told."""
    registry.join(owner)
    actions = registry.fail(owner, 1.5)
    assert told(actions) == ["SUSPECTED"]
    (verdict,) = verdicts(actions)
    assert verdict.witnesses == said(owner.claim, "r1")
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
    assert not is_suspected(registry.record(owner))
    actions = registry.sessions.judged(at(1.6), owner.path, seen_by(owner, "r2"))
    assert told(actions) == ["SUSPECTED"]
    assert names_of(registry.record(owner).witnesses) == ("r1", "r2")


def test_a_witness_elsewhere_makes_it_look_itself(registry: Registry, owner: Owner) -> None:
    """Before the next beat is late."""
    registry.peers.heard("r2", 0.0)
    registry.join(owner)
    assert registry.sessions.judged(at(0.5), owner.path, seen_by(owner, "r2")) == []
    assert len(probes(registry.sessions.detect(at(0.5)))) == 1


def test_a_verdict_on_an_unknown_session_is_nothing(registry: Registry, owner: Owner) -> None:
    """Repair brings its record."""
    verdict = ended_by(owner, "r2", "r3")
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
    assert verdict.ending == said(owner.claim, "r1", ended_at_ms=BORN_AT_MS + 46_500)
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
    registry.sessions.judged(at(59.0), owner.path, seen_by(owner, "r2"))
    assert is_suspected(registry.record(owner))
    assert told(registry.sessions.conclude(at(59.0))) == []
    registry.peers.heard("r3", 59.5)
    # The word of who comes back is the first of its side to arrive.
    assert told(registry.sessions.conclude(at(60.0))) == []
    for name in ("r2", "r3"):
        registry.peers.heard(name, 62.0)
    assert told(registry.sessions.conclude(at(64.5))) == ["LEFT"]


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
    assert ended_at_ms(registry.record(owner)) == BORN_AT_MS + 5


def test_a_graceful_leave_needs_nobody(registry: Registry, owner: Owner) -> None:
    """It is gone at once."""
    registry.join(owner)
    owner.say(Lifecycle.LEFT)
    assert told(registry.join(owner, 1.0)) == ["LEFT"]
    assert registry.sessions.held.living == {}
    assert registry.sessions.conclude(at(99.0)) == []


def test_a_lying_registry_alone_ends_nobody(registry: Registry, owner: Owner) -> None:
    """What is heard here goes on; the lie is refused, counted, and looked into."""
    registry.peers.heard("r2", 0.0)
    registry.join(owner)
    actions = registry.sessions.judged(at(0.5), owner.path, ended_by(owner, "r2"))
    (refused,) = (action for action in actions if isinstance(action, Refused))
    assert [one.reason for one in refused.rejected] == [Reason.UNSUPPORTED]
    assert registry.record(owner) == owner.record
    assert registry.sessions.held.rejections == {Reason.UNSUPPORTED: 1}
    assert len(probes(registry.sessions.detect(at(0.5)))) == 1
    suspected = seen_by(owner, "r2", quorum=1)
    registry.sessions.judged(at(0.6), owner.path, suspected)
    assert not is_suspected(registry.record(owner))


def test_what_a_peer_ended_and_nobody_here_can_reach_has_left(
    registry: Registry, owner: Owner
) -> None:
    """Two have then failed to reach it."""
    registry.peers.heard("r2", 0.0)
    registry.join(owner)
    registry.fail(owner, 1.5)
    actions = registry.sessions.judged(at(2.0), owner.path, ended_by(owner, "r2"))
    assert told(actions) == ["LEFT"]


def test_what_two_registries_ended_has_left(registry: Registry, owner: Owner) -> None:
    """Also against what is heard here: the two may know better, and all must agree."""
    registry.peers.heard("r2", 0.0)
    registry.join(owner)
    actions = registry.sessions.judged(at(0.5), owner.path, ended_by(owner, "r2", "r3"))
    assert told(actions) == ["LEFT"]


def test_who_was_ended_by_this_registry_alone_comes_back(registry: Registry, owner: Owner) -> None:
    """With its owner's next word, under the same id; and is watched again."""
    registry.join(owner)
    registry.fail(owner, 1.5)
    assert told(registry.sessions.conclude(at(46.5))) == ["LEFT"]
    owner.say()
    assert told(registry.join(owner, 50.0)) == ["SERVING", "TRUSTED"]
    assert lifecycle_of(registry.record(owner)) is Lifecycle.SERVING
    assert registry.sessions.detector.is_watched(owner.claim.session)
    registry.sessions.held.validate()


def test_registries_of_one_site_do_not_suspect_alone(registry: Registry, owner: Owner) -> None:
    """While one of another site is there, it must fail, too: theirs is one link."""
    registry.peers.heard("r2", 0.0, site="")
    registry.peers.heard("r3", 0.0, site="elsewhere")
    registry.join(owner)
    registry.fail(owner, 1.5)
    registry.sessions.judged(at(1.6), owner.path, seen_by(owner, "r2", sites=2))
    assert not is_suspected(registry.record(owner))
    assert [one.sites for one in registry.record(owner).witnesses if one.registry == "r1"] == [2]
    registry.peers.heard("r2", 4.9)
    assert told(registry.sessions.conclude(at(5.1))) == ["SUSPECTED"]
