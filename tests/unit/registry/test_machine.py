"""The registry as a whole, event by event, with literal times."""

import pytest
from tests.unit.registry.driven import (
    CONFIG,
    HOUR_MS,
    OWN_CUT_MS,
    Driven,
    crowd,
    nobody_answers,
    only,
)

from opentela.core.record import is_suspected
from opentela.registry import messages as m
from opentela.registry.config import RegistryConfig
from opentela.registry.detector import Detector
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.wire.control import (
    Advice,
    Beat,
    Page,
    PageAsk,
    ProbeReply,
    Sighting,
)


@pytest.fixture
def registry() -> Driven:
    """A registry without peers that knows what there is, at 3 s."""
    return Driven().boot()


def test_it_asks_a_peer_before_it_listens_and_answers_nobody_until_then() -> None:
    """A view would take its empty map for the truth."""
    registry = Driven()
    assert registry.machine.next_deadline() == 0.0
    actions = registry.step(0.0, m.Tick())
    assert only(m.AskPage, actions) == [m.AskPage(ask=PageAsk())]
    assert only(m.SetReady, actions) == [m.SetReady(flag=False, reason="asking what there is")]
    actions = registry.step(0.1, m.PageFailed())
    assert actions == [m.SetReady(flag=False, reason="learning what there is")]
    assert only(m.ServeSnapshots, registry.run(3.09)) == []
    actions = registry.run(3.1)
    assert only(m.ServeSnapshots, actions) == [m.ServeSnapshots()]
    assert only(m.SetReady, actions) == [m.SetReady(flag=True, reason="")]
    assert only(m.ServeSnapshots, registry.run(9.0)) == []


def test_it_takes_over_the_map_of_a_peer_and_tells_no_old_news() -> None:
    """With what that one has forgotten."""
    registry = Driven()
    registry.step(0.0, m.Tick())
    first, second = sorted(crowd(2), key=lambda owner: owner.claim.session)
    page = Page(registry="r2", records=(first.record,), more=True, horizon_ms=BORN_AT_MS)
    registry.step(0.1, m.PageHeard(page=page))
    actions = registry.step(0.1, m.Tick())
    assert only(m.AskPage, actions) == [m.AskPage(ask=PageAsk(after=first.claim.session))]
    page = Page(registry="r2", records=(second.record,), horizon_ms=BORN_AT_MS)
    actions = registry.step(0.2, m.PageHeard(page=page))
    assert only(m.PublishEvent, actions) == []
    assert only(m.ServeSnapshots, actions) == [m.ServeSnapshots()]
    assert len(registry.machine.held) == 2
    assert registry.machine.held.horizon_ms == BORN_AT_MS


def test_it_does_not_follow_a_peer_whose_clock_is_wrong_by_years() -> None:
    """What that one has forgotten, ended an hour ago here."""
    registry = Driven()
    registry.step(0.0, m.Tick())
    page = Page(registry="r2", cut_ms=BORN_AT_MS - HOUR_MS)
    registry.step(0.1, m.PageHeard(page=page))
    assert registry.machine.held.cut_ms == OWN_CUT_MS


def test_with_a_state_file_it_knows_at_once(owner: Owner) -> None:
    """And does not tell as news what it knew in an earlier life."""
    registry = Driven()
    cut_ms = OWN_CUT_MS + 5
    restored = m.Restored(records=(owner.record,), cut_ms=cut_ms, horizon_ms=7)
    assert only(m.PublishEvent, registry.step(0.0, restored)) == []
    registry.step(0.0, m.Tick())
    registry.step(0.0, m.PageFailed())
    assert only(m.ServeSnapshots, registry.step(0.0, m.Tick())) == [m.ServeSnapshots()]
    held = registry.machine.held
    assert (len(held), held.cut_ms, held.horizon_ms) == (1, cut_ms, 7)


def test_an_empty_state_file_is_none() -> None:
    """There is still everything to learn."""
    registry = Driven()
    registry.step(0.0, m.Restored(records=(), cut_ms=0, horizon_ms=0))
    registry.step(0.0, m.Tick())
    registry.step(0.0, m.PageFailed())
    assert registry.machine.status(0.0)["phase"] == "learning"


def test_the_dead_are_found_within_two_seconds(registry: Driven, owner: Owner) -> None:
    """Silence until late, one probe, "no responders"."""
    registry.join(owner, 3.2)
    registry.step(4.0, m.BeatHeard(path=owner.path, beat=Beat(incarnation=1)))
    actions = registry.run(5.5, each=nobody_answers)
    assert [one.event.kind for one in only(m.PublishEvent, actions)] == ["SUSPECTED"]
    assert is_suspected(registry.machine.held.records[owner.claim.session])
    assert registry.step(5.5, m.Tick()) == []


def test_an_answering_session_lives_without_beats(registry: Driven, owner: Owner) -> None:
    """One live path keeps it."""

    def answers(action: m.Action) -> m.Event | None:
        if not isinstance(action, m.PublishProbe):
            return None
        reply = ProbeReply(sequence=action.probe.sequence, signed=owner.signed)
        path = action.path
        return m.ProbeAnswered(provider=path.provider, session=path.session, reply=reply)

    registry.join(owner, 3.2)
    actions = registry.run(100.0, each=answers)
    assert only(m.PublishEvent, actions) == []


def test_an_advisory_is_a_path_of_its_own(registry: Driven, owner: Owner) -> None:
    """A scheduler that says that the job has ended is believed as soon as beats are late."""
    registry.join(owner, 3.2)
    registry.step(3.3, m.Advised(path=owner.path, advice=Advice(alive=False)))
    actions = registry.run(4.8)
    assert [one.event.kind for one in only(m.PublishEvent, actions)] == ["SUSPECTED"]


def test_a_routers_word_makes_it_look(registry: Driven, owner: Owner) -> None:
    """At once; and what it finds is a suspicion at once."""
    registry.join(owner, 3.2)
    sighted = m.Sighted(path=owner.path, sighting=Sighting(router="router1"))
    (probe,) = only(m.PublishProbe, registry.step(3.3, sighted))
    assert probe.path == owner.path
    refused = m.ProbeRefused(provider=owner.path.provider, session=owner.path.session)
    actions = registry.step(3.3, refused)
    assert [one.event.kind for one in only(m.PublishEvent, actions)] == ["SUSPECTED"]


def test_a_model_without_a_routable_session_is_told(registry: Driven, owner: Owner) -> None:
    """On the health page at once, until it has left or is back."""
    registry.join(owner, 3.2)
    actions = registry.run(6.0, each=nobody_answers)
    assert only(m.SetReady, actions) == [m.SetReady(flag=False, reason="no session to route to: m")]
    status = registry.machine.status(6.0)
    assert (status["models"], status["models_unroutable"]) == ({"m": 0}, ["m"])
    assert status["healthy"] is False
    actions = registry.run(60.0, each=nobody_answers)
    assert only(m.SetReady, actions) == [m.SetReady(flag=True, reason="")]


def test_readiness_may_leave_models_to_the_status_page(owner: Owner) -> None:
    """Where a red page would have somebody restart the registry."""
    config = RegistryConfig(access="", peers=CONFIG.peers, unroutable_is_unready=False)
    registry = Driven(config).boot()
    registry.join(owner, 3.2)
    registry.run(6.0, each=nobody_answers)
    assert registry.machine.is_ready
    assert registry.machine.status(6.0)["healthy"] is False


def test_many_silent_at_once_turn_it_red(registry: Driven) -> None:
    """It says what it thinks of itself."""
    for owner in crowd(4):
        registry.join(owner, 3.2)
    actions = registry.run(6.0, each=nobody_answers)
    (red,) = only(m.SetReady, actions)
    assert red.reason == "4 of 4 sessions are silent: this registry may be cut off"
    assert registry.machine.status(7.0)["doubting_s"] == 2.0


def test_a_registry_that_is_late_pardons_once_and_then_catches_up(
    monkeypatch: pytest.MonkeyPatch, owner: Owner
) -> None:
    """Each message of a burst would else cost as much as there are sessions."""
    registry = Driven().boot()
    registry.step(3.0, m.DeltaHeard(path=owner.path, signed=owner.signed))
    pardons: list[float] = []
    monkeypatch.setattr(Detector, "pardon", lambda _, now: pardons.append(now))
    for number in range(100):
        beat = m.BeatHeard(path=owner.path, beat=Beat(incarnation=1))
        registry.step(10.0 + number / 1000, beat)
    assert pardons == [10.0]
