"""The registry as a whole, event by event, with literal times."""

import random
from collections.abc import Callable
from typing import TypeVar

import pytest

from opentela.core.digest import FANOUT
from opentela.core.ids import ProviderId
from opentela.core.record import Lifecycle, SessionRecord, is_suspected
from opentela.registry import messages as m
from opentela.registry.config import PeersConfig, RegistryConfig, RestraintConfig, RetentionConfig
from opentela.registry.machine import RegistryMachine
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.testing.sim.keys import FakeIdentity, verify
from opentela.view import exchange
from opentela.wire.control import (
    Beat,
    DigestAsk,
    Leaves,
    Page,
    PageAsk,
    Presence,
    ProbeReply,
    Records,
    Repair,
    Verdict,
)

DAY_MS, HOUR_MS = 86_400_000, 3_600_000
WALL = BORN_AT_MS / 1000
OWN_CUT_MS = BORN_AT_MS - DAY_MS - HOUR_MS
"""Up to where a registry that starts at `WALL` forgets in its first round."""
CONFIG = RegistryConfig(
    access="",
    restraint=RestraintConfig(doubt_sessions_min=4),
    peers=PeersConfig(gossip_s=1.0, heard_s=5.0, learn_s=3.0),
    retention=RetentionConfig(sweep_s=60.0),
)


class Evenly:
    """Draws the middle: rounds come exactly after `gossip_s`."""

    def random(self) -> float:
        return 0.5

    def randrange(self, stop: int, /) -> int:
        return stop // 2

    def randbytes(self, n: int, /) -> bytes:
        return bytes(n)


class Registry:
    """A machine whose clocks agree, driven by hand."""

    def __init__(self, config: RegistryConfig = CONFIG, name: str = "r1") -> None:
        self.machine = RegistryMachine(name=name, verify=verify, rng=Evenly(), config=config)

    def step(self, now: float, event: m.Event) -> list[m.Action]:
        return self.machine.step(now, WALL + now, event)

    def boot(self) -> "Registry":
        """Let it find no peer and listen, until 3 s."""
        self.step(0.0, m.Tick())
        self.step(0.0, m.PageFailed())
        self.run(3.0)
        return self

    def run(
        self,
        until: float,
        *,
        each: Callable[[m.Action], m.Event | None] = lambda _action: None,
    ) -> list[m.Action]:
        """Tick whenever it asks to, feed what *each* action causes, return all actions."""
        done: list[m.Action] = []
        while (now := self.machine.next_deadline()) <= until:
            actions = self.step(now, m.Tick())
            while actions:
                done.append(action := actions.pop(0))
                caused = each(action)
                actions += self.step(now, caused) if caused is not None else []
        return done

    def join(self, owner: Owner, now: float) -> list[m.Action]:
        return self.step(now, m.DeltaHeard(path=owner.path, signed=owner.signed))


def nobody_answers(action: m.Action) -> m.Event | None:
    """The mesh says "no responders" to every probe."""
    if not isinstance(action, m.PublishProbe):
        return None
    return m.ProbeRefused(provider=action.path.provider, session=action.path.session)


def crowd(count: int) -> list[Owner]:
    rng = random.Random(3)
    return [Owner(FakeIdentity(rng), number=number) for number in range(count)]


@pytest.fixture
def owner() -> Owner:
    return crowd(1)[0]


@pytest.fixture
def registry() -> Registry:
    """A registry without peers that knows what there is, at 3 s."""
    return Registry().boot()


KindT = TypeVar("KindT")


def only(kind: type[KindT], actions: list[m.Action]) -> list[KindT]:
    return [action for action in actions if isinstance(action, kind)]


def test_it_asks_a_peer_before_it_listens_and_answers_nobody_until_then() -> None:
    """A view would take its empty map for the truth."""
    registry = Registry()
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
    registry = Registry()
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
    assert registry.machine.status(0.2)["peers"] == ["r2"]


def test_it_does_not_follow_a_peer_whose_clock_is_wrong_by_years() -> None:
    """What that one has forgotten, ended an hour ago here."""
    registry = Registry()
    registry.step(0.0, m.Tick())
    page = Page(registry="r2", cut_ms=BORN_AT_MS - HOUR_MS)
    registry.step(0.1, m.PageHeard(page=page))
    assert registry.machine.held.cut_ms == OWN_CUT_MS


def test_with_a_state_file_it_knows_at_once(owner: Owner) -> None:
    """And does not tell as news what it knew in an earlier life."""
    registry = Registry()
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
    registry = Registry()
    registry.step(0.0, m.Restored(records=(), cut_ms=0, horizon_ms=0))
    registry.step(0.0, m.Tick())
    registry.step(0.0, m.PageFailed())
    assert registry.machine.status(0.0)["phase"] == "learning"


def test_the_dead_are_found_within_two_seconds(registry: Registry, owner: Owner) -> None:
    """Silence until late, one probe, "no responders"."""
    registry.join(owner, 3.2)
    registry.step(4.0, m.BeatHeard(path=owner.path, beat=Beat(incarnation=1)))
    actions = registry.run(5.5, each=nobody_answers)
    assert [one.event.kind for one in only(m.PublishEvent, actions)] == ["SUSPECTED"]
    assert is_suspected(registry.machine.held.records[owner.claim.session])
    assert registry.step(5.5, m.Tick()) == []


def test_an_answering_session_lives_without_beats(registry: Registry, owner: Owner) -> None:
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


def test_an_advisory_is_a_path_of_its_own(registry: Registry, owner: Owner) -> None:
    """A scheduler that says that the job has ended is believed as soon as beats are late."""
    registry.join(owner, 3.2)
    registry.step(3.3, m.Advised(session=owner.claim.session, alive=False))
    actions = registry.run(4.8)
    assert [one.event.kind for one in only(m.PublishEvent, actions)] == ["SUSPECTED"]


def test_a_model_without_a_routable_session_is_told(registry: Registry, owner: Owner) -> None:
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
    registry = Registry(config).boot()
    registry.join(owner, 3.2)
    registry.run(6.0, each=nobody_answers)
    assert registry.machine.is_ready
    assert registry.machine.status(6.0)["healthy"] is False


def test_many_silent_at_once_turn_it_red(registry: Registry) -> None:
    """It says what it thinks of itself."""
    for owner in crowd(4):
        registry.join(owner, 3.2)
    actions = registry.run(6.0, each=nobody_answers)
    (red,) = only(m.SetReady, actions)
    assert red.reason == "4 of 4 sessions are silent: this registry may be cut off"
    assert registry.machine.status(7.0)["doubting_s"] == 2.0


def test_it_says_each_round_that_it_is_there(registry: Registry) -> None:
    """And hears itself without taking that for a peer."""
    actions = registry.run(5.0)
    assert (
        only(m.PublishPresence, actions)
        == [m.PublishPresence(presence=Presence(registry="r1"))] * 2
    )
    assert registry.step(5.1, m.PresenceHeard(presence=Presence(registry="r1"))) == []
    verdict = Verdict(registry="r1", session=crowd(1)[0].claim.session)
    assert registry.step(5.1, m.VerdictHeard(path=crowd(1)[0].path, verdict=verdict)) == []
    assert registry.machine.status(5.1)["peers"] == []


def test_a_peer_that_appears_is_compared_with_at_once(registry: Registry) -> None:
    """And then in every round, while it is there."""
    seen = m.PresenceHeard(presence=Presence(registry="r2"))
    (gossip,) = registry.step(3.2, seen)
    opening = m.PublishGossip(
        peer="r2", message=DigestAsk(asker="r1", hashes=(0,) * FANOUT, cut_ms=OWN_CUT_MS)
    )
    assert gossip == opening
    assert registry.step(3.3, seen) == []
    assert only(m.PublishGossip, registry.run(8.0)) == [opening] * 5
    assert only(m.PublishGossip, registry.run(20.0)) == []
    assert registry.machine.status(20.0)["peers_away"] == ["r2"]


def test_another_registrys_verdict_counts(registry: Registry, owner: Owner) -> None:
    """As its word and as a sign that it is there."""
    registry.join(owner, 3.2)
    verdict = Verdict(
        registry="r2",
        session=owner.claim.session,
        verdict=Lifecycle.LEFT,
        ended_at_ms=BORN_AT_MS + 1,
    )
    actions = registry.step(3.3, m.VerdictHeard(path=owner.path, verdict=verdict))
    assert [one.event.kind for one in only(m.PublishEvent, actions)] == ["LEFT"]
    assert registry.machine.status(3.3)["peers"] == ["r2"]


def converse(one: Registry, other: Registry, now: float, message: m.PublishGossip) -> None:
    """Carry gossip between two registries until they have nothing more to say."""
    waiting = [(other, message)]
    while waiting:
        to, letter = waiting.pop(0)
        back = one if to is other else other
        actions = to.step(now, m.GossipHeard(message=letter.message))
        waiting += [(back, reply) for reply in only(m.PublishGossip, actions)]


def test_two_registries_become_equal(registry: Registry) -> None:
    """Whatever each has missed, by one comparison."""
    other = Registry(name="r2").boot()
    owners = crowd(150)
    for number, owner in enumerate(owners):
        (registry if number % 3 else other).join(owner, 3.2)
    opening = exchange.opening(registry.machine.held, "r1")
    converse(registry, other, 3.3, m.PublishGossip(peer="r2", message=opening))
    assert registry.machine.held.records == other.machine.held.records
    assert len(registry.machine.held) == 150


def test_wanted_records_are_merged_and_told(registry: Registry, owner: Owner) -> None:
    """A peer may know what was never heard here."""
    records = Records(sender="r2", records=(owner.record,))
    actions = registry.step(3.2, m.GossipHeard(message=records))
    assert [one.event.kind for one in only(m.PublishEvent, actions)] == ["SERVING"]


def test_an_impossible_question_is_refused(registry: Registry) -> None:
    """Counted, logged, and the next one is answered."""
    bad = DigestAsk(asker="r2", hashes=(1,))
    (refused,) = registry.step(3.2, m.GossipHeard(message=bad))
    assert isinstance(refused, m.RefusedMessage)
    assert refused.kind == "gossip"
    (refused,) = registry.step(3.2, m.SnapshotAsked(ask=bad, reply="x"))
    assert isinstance(refused, m.RefusedMessage)
    assert refused.kind == "snapshot"


def test_views_are_answered(registry: Registry, owner: Owner) -> None:
    """By page and by comparison."""
    registry.join(owner, 3.2)
    (page,) = registry.step(3.3, m.SnapshotAsked(ask=PageAsk(), reply="x"))
    answer = Page(registry="r1", records=(owner.record,), cut_ms=OWN_CUT_MS)
    assert page == m.Answer(reply="x", answer=answer)
    digest = DigestAsk(asker="router", hashes=(0,) * FANOUT)
    (repair,) = registry.step(3.3, m.SnapshotAsked(ask=digest, reply="x"))
    assert isinstance(repair, m.Answer)
    assert isinstance(repair.answer, Repair)
    assert len(repair.answer.descend) == 1
    assert registry.step(3.3, m.SnapshotAsked(ask=digest, reply="")) == []


def test_what_a_view_remembers_is_taken_for_a_claim(registry: Registry, owner: Owner) -> None:
    """All registries may have forgotten a session that died meanwhile; somebody must look."""
    records = Records(sender="router", records=(owner.record,))
    actions = registry.step(3.2, m.SnapshotAsked(ask=records, reply=""))
    assert [one.event.kind for one in only(m.PublishEvent, actions)] == ["SERVING"]


def test_tombstones_are_dropped_after_a_day_and_do_not_come_back(owner: Owner) -> None:
    """Whoever brings an old copy is told that the session has left."""
    registry = Registry().boot()
    alive = owner.record
    registry.join(owner, 3.2)
    owner.say(Lifecycle.LEFT, ended_at_ms=BORN_AT_MS + 3_200)
    registry.join(owner, 3.2)
    late = 25 * 3600.0 + 3.2
    registry.step(late - 1, m.Tick())
    assert len(registry.machine.held) == 1
    registry.step(late + 60, m.Tick())
    assert len(registry.machine.held) == 0
    replay = Records(sender="r2", records=(alive,))
    (denial,) = registry.step(late + 61, m.GossipHeard(message=replay))
    assert isinstance(denial, m.PublishVerdict)
    assert denial.verdict.verdict is Lifecycle.LEFT
    assert len(registry.machine.held) == 0


@pytest.mark.parametrize("kind", [DigestAsk, Leaves, Repair])
def test_a_peers_cut_is_followed(kind: type, owner: Owner) -> None:
    """So that two registries come to hold the same."""
    registry = Registry().boot()
    owner.say(Lifecycle.LEFT, ended_at_ms=BORN_AT_MS)
    registry.step(3.2, m.GossipHeard(message=Records(sender="r2", records=(owner.record,))))
    day_s = 24.5 * 3600
    field = "registry" if kind is Repair else "asker"
    hashes = {"hashes": (0,) * FANOUT} if kind is DigestAsk else {}
    message = kind(**{field: "r2"}, cut_ms=BORN_AT_MS, **hashes)
    registry.step(4.0, m.GossipHeard(message=message))
    assert len(registry.machine.held) == 1
    registry.step(day_s, m.GossipHeard(message=message))
    assert len(registry.machine.held) == 0


def test_without_a_mesh_silence_means_nothing(registry: Registry, owner: Owner) -> None:
    """It is red, says nothing, and starts every lease anew when the mesh is back."""
    registry.join(owner, 3.2)
    actions = registry.step(3.3, m.MeshLost())
    assert actions == [m.SetReady(flag=False, reason="the mesh does not answer")]
    assert registry.run(100.0) == []
    actions = registry.step(100.0, m.MeshBack())
    assert actions == [m.SetReady(flag=True, reason="")]
    actions = registry.run(101.0)
    assert only(m.PublishProbe, actions) == []
    assert len(only(m.PublishPresence, actions)) == 2


def test_who_wakes_up_late_blames_the_silence_on_itself(registry: Registry, owner: Owner) -> None:
    """A registry that was stopped for a minute suspects nobody for that minute."""
    registry.join(owner, 3.2)
    actions = registry.step(63.0, m.Tick())
    assert only(m.PublishProbe, actions) == []
    actions = registry.run(64.4)
    assert only(m.PublishProbe, actions) == []
    assert len(only(m.PublishProbe, registry.run(64.5))) == 1


def test_status_counts_what_was_refused(registry: Registry, owner: Owner) -> None:
    """By reason."""
    owner.say(None, provider=ProviderId("a.b"))
    registry.step(3.2, m.GossipHeard(message=Records(sender="r2", records=(owner.record,))))
    owner.say(Lifecycle.LEFT, provider=ProviderId("p"))
    registry.join(owner, 3.3)
    status = registry.machine.status(3.3)
    assert status["rejected"] == {"malformed": 1}
    assert (status["sessions"], status["tombstones"], status["silent"]) == (0, 1, 0)
    assert status["doubting_s"] is None


def test_a_whole_run_is_decided_by_its_inputs_alone() -> None:
    """Two machines with the same randomness and events do the same: a seed replays a run."""

    def run() -> list[m.Action]:
        registry = Registry().boot()
        actions: list[m.Action] = []
        for number, owner in enumerate(crowd(20)):
            actions += registry.join(owner, 3.1 + number / 100)
        return actions + registry.run(80.0, each=nobody_answers)

    assert run() == run()
    assert any(isinstance(action, m.PublishEvent) for action in run())


def test_the_round_after_next_is_never_far(registry: Registry) -> None:
    """Whatever else there is to wait for."""
    assert registry.machine.next_deadline() <= 4.0
    record = SessionRecord(signed=crowd(1)[0].signed)
    registry.step(3.2, m.GossipHeard(message=Records(sender="r2", records=(record,))))
    assert registry.machine.next_deadline() <= 4.0
