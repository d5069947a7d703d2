"""The registry among others: presence, gossip, snapshots, forgetting, and its own failings."""

import pytest
from msgspec.structs import replace
from tests.unit.registry.driven import OWN_CUT_MS, Driven, crowd, nobody_answers, only

from opentela.core.digest import FANOUT
from opentela.core.ids import ProviderId
from opentela.core.record import Lifecycle, SessionRecord, is_final
from opentela.registry import messages as m
from opentela.registry.throttle import Budget
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.testing.sim.keys import said, seal
from opentela.view import exchange
from opentela.view.presence import presence_of
from opentela.wire.control import (
    DigestAsk,
    Leaves,
    Page,
    PageAsk,
    Presence,
    Records,
    Repair,
    Verdict,
)


@pytest.fixture
def registry() -> Driven:
    """A registry without peers that knows what there is, at 3 s."""
    return Driven().boot()


def test_it_says_each_round_that_it_is_there(registry: Driven) -> None:
    """And hears itself without taking that for a peer."""
    actions = registry.run(5.0)
    assert (
        only(m.PublishPresence, actions)
        == [m.PublishPresence(presence=presence_of(seal("r1"), ""))] * 2
    )
    assert registry.step(5.1, m.PresenceHeard(presence=presence_of(seal("r1"), ""))) == []
    verdict = Verdict(registry="r1", session=crowd(1)[0].claim.session)
    assert registry.step(5.1, m.VerdictHeard(path=crowd(1)[0].path, verdict=verdict)) == []
    assert registry.machine.status(5.1)["peers"] == []


def test_a_peer_that_appears_is_compared_with_at_once(registry: Driven) -> None:
    """And then in every round, while it is there."""
    seen = m.PresenceHeard(presence=presence_of(seal("r2"), ""))
    (gossip,) = registry.step(3.2, seen)
    opening = m.PublishGossip(
        peer="r2", message=DigestAsk(asker="r1", hashes=(0,) * FANOUT, cut_ms=OWN_CUT_MS)
    )
    assert gossip == opening
    assert registry.step(3.3, seen) == []
    assert only(m.PublishGossip, registry.run(8.0)) == [opening] * 5
    assert only(m.PublishGossip, registry.run(20.0)) == []
    assert registry.machine.status(20.0)["peers_away"] == ["r2"]


def test_another_registrys_verdict_counts(registry: Driven, owner: Owner) -> None:
    """As its word; that it is there, it says apart, signed."""
    registry.join(owner, 3.2)
    verdict = Verdict(
        registry="r2",
        session=owner.claim.session,
        ending=said(owner.claim, "r2", "r3", ended_at_ms=BORN_AT_MS + 1),
    )
    actions = registry.step(3.3, m.VerdictHeard(path=owner.path, verdict=verdict))
    assert [one.event.kind for one in only(m.PublishEvent, actions)] == ["LEFT"]
    assert registry.machine.status(3.3)["peers"] == []


def converse(one: Driven, other: Driven, now: float, message: m.PublishGossip) -> None:
    """Carry gossip between two registries until they have nothing more to say."""
    waiting = [(other, message)]
    while waiting:
        to, letter = waiting.pop(0)
        back = one if to is other else other
        actions = to.step(now, m.GossipHeard(message=letter.message))
        waiting += [(back, reply) for reply in only(m.PublishGossip, actions)]


def test_two_registries_become_equal(registry: Driven) -> None:
    """Whatever each has missed, by one comparison."""
    other = Driven(name="r2").boot()
    owners = crowd(150)
    for number, owner in enumerate(owners):
        (registry if number % 3 else other).join(owner, 3.2)
    opening = exchange.opening(registry.machine.held, "r1")
    converse(registry, other, 3.3, m.PublishGossip(peer="r2", message=opening))
    assert registry.machine.held.records == other.machine.held.records
    assert len(registry.machine.held) == 150


def test_wanted_records_are_merged_and_told(registry: Driven, owner: Owner) -> None:
    """A peer may know what was never heard here."""
    records = Records(sender="r2", records=(owner.record,))
    actions = registry.step(3.2, m.GossipHeard(message=records))
    assert [one.event.kind for one in only(m.PublishEvent, actions)] == ["SERVING"]


def test_an_impossible_question_is_refused(registry: Driven) -> None:
    """Counted, logged, and the next one is answered."""
    bad = DigestAsk(asker="r2", hashes=(1,))
    (refused,) = registry.step(3.2, m.GossipHeard(message=bad))
    assert isinstance(refused, m.RefusedMessage)
    assert refused.kind == "gossip"
    (refused,) = registry.step(3.2, m.SnapshotAsked(ask=bad, reply="x"))
    assert isinstance(refused, m.RefusedMessage)
    assert refused.kind == "snapshot"


def test_views_are_answered(registry: Driven, owner: Owner) -> None:
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


def test_what_a_view_remembers_is_taken_for_a_claim(registry: Driven, owner: Owner) -> None:
    """All registries may have forgotten a session that died meanwhile; somebody must look."""
    records = Records(sender="router", records=(owner.record,))
    actions = registry.step(3.2, m.Relayed(records=records))
    assert [one.event.kind for one in only(m.PublishEvent, actions)] == ["SERVING"]


def test_tombstones_are_dropped_after_a_day_and_do_not_come_back(owner: Owner) -> None:
    """Whoever brings an old copy is told that the session has left."""
    registry = Driven().boot()
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
    assert is_final(denial.verdict.ending)
    assert len(registry.machine.held) == 0


@pytest.mark.parametrize("kind", [DigestAsk, Leaves, Repair])
def test_a_peers_cut_is_followed(kind: type, owner: Owner) -> None:
    """So that two registries come to hold the same."""
    registry = Driven().boot()
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


def test_without_a_mesh_silence_means_nothing(registry: Driven, owner: Owner) -> None:
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


def test_who_wakes_up_late_blames_the_silence_on_itself(registry: Driven, owner: Owner) -> None:
    """A registry that was stopped for a minute suspects nobody for that minute."""
    registry.join(owner, 3.2)
    actions = registry.step(63.0, m.Tick())
    assert only(m.PublishProbe, actions) == []
    actions = registry.run(64.1)
    assert only(m.PublishProbe, actions) == []
    # And, being slow, gives everybody twice the time, until it has been in time for a while.
    assert registry.machine.status(64.1)["widening"] == 2.0
    assert len(only(m.PublishProbe, registry.run(64.2))) == 1
    registry.run(66.0)
    assert registry.machine.status(66.0)["widening"] == 1.0


def test_status_counts_what_was_refused(registry: Driven, owner: Owner) -> None:
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
        registry = Driven().boot()
        actions: list[m.Action] = []
        for number, owner in enumerate(crowd(20)):
            actions += registry.join(owner, 3.1 + number / 100)
        return actions + registry.run(80.0, each=nobody_answers)

    assert run() == run()
    assert any(isinstance(action, m.PublishEvent) for action in run())


def test_the_round_after_next_is_never_far(registry: Driven) -> None:
    """Whatever else there is to wait for."""
    assert registry.machine.next_deadline() <= 4.0
    record = SessionRecord(signed=crowd(1)[0].signed)
    registry.step(3.2, m.GossipHeard(message=Records(sender="r2", records=(record,))))
    assert registry.machine.next_deadline() <= 4.0


def presence(registry: str, instance: str = "", *, leaving: bool = False) -> m.PresenceHeard:
    said = presence_of(seal(registry), instance, leaving=leaving)
    return m.PresenceHeard(presence=said)


def test_it_says_farewell(registry: Driven) -> None:
    """And only that."""
    (said,) = registry.step(3.2, m.Leaving())
    assert said == m.PublishPresence(presence=presence_of(seal("r1"), "", leaving=True))


def test_a_peer_that_said_farewell_delays_no_eviction(owner: Owner) -> None:
    """One that fell silent does: it may hear whom nobody here hears."""
    left_at: dict[bool, float] = {}
    for leaving in (True, False):
        registry = Driven().boot()
        registry.step(3.1, presence("r2"))
        registry.join(owner, 3.2)
        registry.step(3.3, presence("r2", leaving=leaving))
        registry.run(3.3 + 650.0, each=nobody_answers)
        (line,) = [
            line
            for line in registry.machine.held.story(owner.claim.session)
            if line.lifecycle is Lifecycle.LEFT
        ]
        left_at[leaving] = line.at - BORN_AT_MS / 1000
    assert left_at[True] < 60
    assert left_at[False] > 600


def test_a_namesake_is_told_of_once_and_makes_it_red(registry: Driven) -> None:
    """For as long as it is heard."""
    assert registry.step(3.5, presence("r1")) == []
    taken, red = registry.step(3.6, presence("r1", "other"))
    assert taken == m.NameTaken(instance="other")
    assert isinstance(red, m.SetReady)
    assert red.reason == "another registry is called r1, too: give one another access file"
    assert registry.step(4.6, presence("r1", "other")) == []
    assert only(m.SetReady, registry.run(11.0)) == [m.SetReady(flag=True, reason="")]
    # Beginning anew, it is told of anew; leaving, it ends it.
    assert len(registry.step(12.0, presence("r1", "other"))) == 2
    assert registry.step(12.5, presence("r1", "other", leaving=True)) == [
        m.SetReady(flag=True, reason="")
    ]
    assert registry.machine.status(12.5)["peers"] == []


def test_an_old_state_file_raises_nobody(owner: Owner) -> None:
    """Peers have forgotten its session; whoever restores it is told that it has left."""
    old, peer = Driven(name="r1"), Driven(name="r2").boot()
    peer.join(owner, 4.0)
    served = owner.record
    owner.say(Lifecycle.LEFT, ended_at_ms=BORN_AT_MS + 10)
    peer.join(owner, 4.1)
    peer.machine.held.forget(BORN_AT_MS + 10)
    assert not peer.machine.held.records
    old.step(0.0, m.Restored(records=(served,), cut_ms=0, horizon_ms=0))
    assert old.machine.held.living
    sent = Records(sender="r1", records=(served,))
    actions = peer.step(5.0, m.GossipHeard(message=sent))
    assert only(m.PublishEvent, actions) == []
    assert not peer.machine.held.records
    (denial,) = only(m.PublishVerdict, actions)
    told = old.step(5.1, m.VerdictHeard(path=denial.path, verdict=denial.verdict))
    assert not old.machine.held.living
    assert [event.event.kind for event in only(m.PublishEvent, told)] == ["LEFT"]


def test_a_map_that_nobody_compares_is_red(registry: Driven) -> None:
    """Peers are heard, and none of them answers: what is held may be long out of date."""
    seen = m.PresenceHeard(presence=presence_of(seal("r2"), ""))
    ready: list[m.SetReady] = []
    for second in range(4, 25):
        ready += only(m.SetReady, registry.step(float(second), seen))
        ready += only(m.SetReady, registry.run(second + 0.9))
    (red,) = ready
    assert not red.flag
    assert red.reason == "no peer compares maps any more: this one may be out of date"
    repair = m.GossipHeard(message=Repair(registry="r2"))
    assert only(m.SetReady, registry.step(25.0, repair)) == [m.SetReady(flag=True, reason="")]


def test_who_is_alone_misses_nothing(registry: Driven) -> None:
    """A map is as fresh as the only registry can have it."""
    assert only(m.SetReady, registry.run(60.0)) == []


def test_nobody_says_for_another_that_it_is_there_or_leaves(registry: Driven) -> None:
    """A registry would else be outvoted by names, or be left to decide alone."""
    registry.step(3.2, presence("r2", "one"))
    for lie in (
        replace(presence_of(seal("r3"), "one", leaving=True), registry="r2"),
        replace(presence_of(seal("r2"), "one"), leaving=True),
        replace(presence_of(seal("r3"), "one"), registry="r4"),
        Presence(registry="r5"),
    ):
        (refused,) = registry.step(3.3, m.PresenceHeard(presence=lie))
        assert isinstance(refused, m.RefusedMessage)
    assert registry.machine.status(3.4)["peers"] == ["r2"]


def test_an_old_farewell_is_not_believed_again(registry: Driven) -> None:
    """It was of an earlier life."""
    old = presence("r2", "one", leaving=True)
    registry.step(3.2, presence("r2", "one"))
    registry.step(3.3, old)
    assert registry.machine.status(3.3)["peers"] == []
    registry.step(3.4, presence("r2", "two"))
    assert registry.step(3.5, old) == []
    assert registry.machine.status(3.5)["peers"] == ["r2"]


def test_a_flood_of_questions_is_not_answered_for_ever(
    registry: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those beyond the budget are refused and counted; a second later there is more."""
    monkeypatch.setattr(registry.machine, "_answers", Budget(2.0))
    asked = m.SnapshotAsked(ask=PageAsk(), reply="x")
    opening = m.GossipHeard(message=exchange.opening(registry.machine.held, "r2"))
    (first,) = registry.step(3.2, asked)
    (second,) = registry.step(3.2, opening)
    assert isinstance(first, m.Answer)
    assert isinstance(second, m.PublishGossip)
    for message in (asked, opening):
        (refused,) = registry.step(3.2, message)
        assert isinstance(refused, m.RefusedMessage)
    (again,) = registry.step(3.7, asked)
    assert isinstance(again, m.Answer)


def test_questions_are_paced_and_end_all_the_same(
    registry: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round asks for so much; later ones for the rest."""
    monkeypatch.setattr(registry.machine, "_asks", Budget(4.0))
    other = Driven(name="r2").boot()
    for owner in crowd(150):
        other.join(owner, 3.2)
    rounds = 0
    while len(registry.machine.held) < 150:
        rounds += 1
        assert rounds < 99
        now = 3.3 + rounds
        for one in (registry, other):
            one.run(now - 0.01, each=nobody_answers)
        opening = exchange.opening(registry.machine.held, "r1")
        converse(registry, other, now, m.PublishGossip(peer="r2", message=opening))
    assert rounds > 2
    assert {*registry.machine.held.records} == {*other.machine.held.records}
