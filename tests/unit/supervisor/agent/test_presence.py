"""An agent is found, watched and evicted like any session."""

from tests.unit.supervisor.agent.parts import Bench, announced, only

from opentela.core.record import Lifecycle
from opentela.supervisor.actions import Announce, AnswerProbe, SendBeat
from opentela.supervisor.agent.events import Listening
from opentela.supervisor.agent.presence import Presence
from opentela.supervisor.events import MeshJoined, ProbeArrived, StopAsked, VerdictArrived
from opentela.testing.sim.keys import said
from opentela.wire.command import ENGINE, TEMPLATES
from opentela.wire.control import Probe, Verdict


def evicted(bench: Bench) -> VerdictArrived:
    ending = said(bench.claim, "r1", "r2", ended_at_ms=1)
    return VerdictArrived(Verdict(registry="r1", session=bench.claim.session, ending=ending))


def test_it_serves_once_commands_are_heard() -> None:
    """Before that a placer would speak to nobody."""
    bench = Bench(serves=False)
    assert isinstance(bench.machine._presence, Presence)
    assert announced(bench.at(0.0)) == ["JOINING"]
    assert announced(bench.at(0.1, Listening(bench.claim.session))) == ["SERVING"]
    offer = bench.claim.offer
    assert (offer.engine, offer.models, offer.labels) == (ENGINE, (), {TEMPLATES: "t"})


def test_it_beats() -> None:
    """With the number of its replicas."""
    bench = Bench()
    assert bench.due() == 2.0
    beat = only(bench.at(2.0), SendBeat)
    assert (beat.path, beat.beat.incarnation, beat.beat.running) == (bench.path, 2, 0)
    assert bench.due() == 4.0


def test_a_probe_is_answered_and_a_suspicion_refuted() -> None:
    """As any session does."""
    bench = Bench()
    probe = Probe(sequence=7, suspected=2)
    actions = bench.at(1.0, ProbeArrived(probe, "to"))
    assert only(actions, AnswerProbe) == AnswerProbe(bench.path, 7, "to")
    assert only(actions, Announce).claim.incarnation == 3
    witnesses = said(bench.claim, "r1", incarnation=3)
    verdict = Verdict(registry="r1", session=bench.claim.session, witnesses=witnesses)
    assert only(bench.at(1.1, VerdictArrived(verdict)), Announce).claim.incarnation == 4


def test_what_was_said_is_repeated_to_a_mesh_that_is_back() -> None:
    """It may have been lost."""
    bench = Bench()
    assert only(bench.at(1.0, MeshJoined()), Announce).claim == bench.claim


def test_an_evicted_agent_goes_on_as_another_session() -> None:
    """After a wait; a second verdict meanwhile changes nothing."""
    bench = Bench()
    old = bench.claim.session
    assert bench.at(1.0, evicted(bench)) == []
    assert bench.at(1.5, evicted(bench)) == []
    assert announced(bench.at(4.0)) == ["LEFT", "JOINING"]
    assert bench.claim.session != old
    assert bench.at(4.1, Listening(old)) == []
    assert announced(bench.at(4.1, Listening(bench.claim.session))) == ["SERVING"]


def test_an_agent_that_has_left_is_not_born_again() -> None:
    """Whatever registries say then."""
    bench = Bench()
    verdict = evicted(bench)
    bench.at(1.0, StopAsked("enough"))
    assert bench.claim.lifecycle is Lifecycle.LEFT
    assert bench.at(1.0, verdict) == []
    assert bench.at(60.0) == []
