"""The view, event by event, with literal times."""

import random

import pytest
from msgspec.structs import replace

from opentela.core.ids import SiteId
from opentela.core.record import Lifecycle, SessionRecord, SignedClaim, is_suspected
from opentela.core.session_map import SessionMap
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.testing.sim.keys import FakeIdentity, said, seal, vouch
from opentela.view import exchange
from opentela.view import machine as machines
from opentela.view.config import ViewConfig
from opentela.view.machine import (
    Action,
    Answered,
    AskFailed,
    AskRegistry,
    Changed,
    DeltaHeard,
    Event,
    MeshBack,
    PresenceHeard,
    Refused,
    TellRegistry,
    Tick,
    VerdictHeard,
    ViewMachine,
)
from opentela.view.presence import presence_of
from opentela.wire.control import (
    DigestAsk,
    Leaves,
    Page,
    PageAsk,
    Presence,
    Records,
    Repair,
    SnapshotAnswer,
    Verdict,
)

WALL = BORN_AT_MS / 1000
CONFIG = ViewConfig(repair_s=2.0, retry_s=0.5, ask_timeout_s=1.0)


class Evenly:
    """Draws the middle, so that rounds come exactly after `repair_s`."""

    def random(self) -> float:
        return 0.5

    def randrange(self, stop: int, /) -> int:
        return stop // 2

    def randbytes(self, n: int, /) -> bytes:
        return bytes(n)


def crowd(count: int) -> list[Owner]:
    rng = random.Random(3)
    return [Owner(FakeIdentity(rng), number=number) for number in range(count)]


class Registry:
    """Answers as a registry does that holds what it was told."""

    def __init__(self, *owners: Owner) -> None:
        self.held = SessionMap(vouch())
        self.tell(*(owner.record for owner in owners))

    def tell(self, *records: SessionRecord) -> None:
        self.held.apply(records, wall=WALL, source="test")

    def answer(self, action: AskRegistry) -> Answered:
        ask = action.ask
        assert not isinstance(ask, Records)
        answer: SnapshotAnswer = (
            exchange.page(self.held, "r", ask)
            if isinstance(ask, PageAsk)
            else exchange.answer(self.held, "r", ask)
        )
        return Answered(number=action.number, answer=answer)


@pytest.fixture
def view() -> ViewMachine:
    return ViewMachine(name="router", verify=vouch(), rng=Evenly(), config=CONFIG)


def step(view: ViewMachine, now: float, event: Event) -> list[Action]:
    return view.step(now, WALL, event)


def converse(
    view: ViewMachine, registry: Registry, now: float, event: Event
) -> list[Changed | Refused | TellRegistry]:
    """Feed *event*, let *registry* answer every question, return everything else."""
    actions = step(view, now, event)
    rest: list[Changed | Refused | TellRegistry] = []
    while actions:
        action = actions.pop(0)
        if isinstance(action, AskRegistry):
            actions += step(view, now, registry.answer(action))
        else:
            rest.append(action)
    return rest


@pytest.fixture
def booted(view: ViewMachine) -> ViewMachine:
    converse(view, Registry(), 0.0, Tick())
    return view


def test_it_begins_by_asking_for_everything(view: ViewMachine) -> None:
    """At once, and it waits for the answer."""
    assert view.next_deadline() == 0.0
    assert step(view, 0.0, Tick()) == [AskRegistry(number=1, ask=PageAsk())]
    assert view.next_deadline() == 1.0
    assert not view.caught_up


def test_pages_are_taken_one_after_the_other(
    view: ViewMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the last: then it has caught up, and the application has been told all."""
    monkeypatch.setattr(exchange, "PAGE_RECORDS_MAX", 2)
    owners = crowd(5)
    changes = converse(view, Registry(*owners), 0.0, Tick())
    assert view.caught_up
    told = [record for change in changes for record in change.records]  # type: ignore[union-attr]
    assert sorted(told, key=repr) == sorted((owner.record for owner in owners), key=repr)
    assert view.next_deadline() == 2.0


def test_the_horizon_is_taken_over_with_the_last_page(view: ViewMachine) -> None:
    """Not before: an old session on a later page is alive."""
    first, second = sorted(crowd(2), key=lambda owner: owner.claim.session)
    step(view, 0.0, Tick())
    early = Page(registry="r", records=(first.record,), more=True, horizon_ms=BORN_AT_MS)
    (ask,) = [
        a for a in step(view, 0.1, Answered(number=1, answer=early)) if type(a) is AskRegistry
    ]
    assert ask.ask == PageAsk(after=first.claim.session)
    last = Page(registry="r", records=(second.record,), horizon_ms=BORN_AT_MS)
    step(view, 0.2, Answered(number=2, answer=last))
    assert len(view.held.living) == 2
    assert view.held.horizon_ms == BORN_AT_MS


def test_without_a_registry_it_asks_again_from_where_it_was(view: ViewMachine) -> None:
    """And says since when nobody answers."""
    owner = crowd(1)[0]
    step(view, 0.0, Tick())
    page = Page(registry="r", records=(owner.record,), more=True)
    step(view, 0.1, Answered(number=1, answer=page))
    assert step(view, 0.3, AskFailed(number=2)) == []
    assert (view.stale_since, view.next_deadline()) == (0.3, 0.8)
    assert step(view, 0.8, Tick()) == [
        AskRegistry(number=3, ask=PageAsk(after=owner.claim.session))
    ]
    step(view, 0.9, AskFailed(number=3))
    assert view.stale_since == 0.3
    step(view, 1.4, Tick())
    step(view, 1.5, Answered(number=4, answer=Page(registry="r")))
    assert [view.stale_since, view.caught_up] == [None, True]


def test_deltas_count_before_anything_was_answered(view: ViewMachine) -> None:
    """A router may route as soon as it knows one session."""
    owner = crowd(1)[0]
    actions = step(view, 0.0, DeltaHeard(path=owner.path, signed=owner.signed))
    assert actions == [Changed(records=(owner.record,))]
    assert step(view, 0.1, DeltaHeard(path=owner.path, signed=owner.signed)) == []


def test_a_foreign_or_forged_delta_is_refused(view: ViewMachine) -> None:
    """With all that the log needs."""
    owner = crowd(1)[0]
    foreign = DeltaHeard(path=owner.path._replace(site=SiteId("x")), signed=owner.signed)
    forged = DeltaHeard(path=owner.path, signed=SignedClaim(body=owner.signed.body, signature=b"x"))
    for event, reason in ((foreign, "foreign"), (forged, "forged")):
        (action,) = step(view, 0.0, event)
        assert isinstance(action, Refused)
        assert [rejection.reason for rejection in action.rejected] == [reason]
    assert view.held.living == {}


def test_a_verdict_changes_what_is_held(booted: ViewMachine) -> None:
    """Of an unknown session it says nothing."""
    owner = crowd(1)[0]
    verdict = Verdict(registry="r", session=owner.claim.session, witnesses=said(owner.claim, "r"))
    heard = VerdictHeard(path=owner.path, verdict=verdict)
    assert step(booted, 0.1, heard) == []
    step(booted, 0.2, DeltaHeard(path=owner.path, signed=owner.signed))
    (action,) = step(booted, 0.3, heard)
    assert isinstance(action, Changed)
    assert is_suspected(action.records[0])


def test_what_left_is_told_but_no_longer_shown(booted: ViewMachine) -> None:
    """The application learns of the end by the change."""
    owner = crowd(1)[0]
    step(booted, 0.1, DeltaHeard(path=owner.path, signed=owner.signed))
    owner.say(Lifecycle.LEFT)
    actions = step(booted, 0.2, DeltaHeard(path=owner.path, signed=owner.signed))
    assert actions == [Changed(records=(owner.record,))]
    assert booted.held.living == {}


def test_it_compares_every_so_often_and_takes_what_it_missed(booted: ViewMachine) -> None:
    """A lost delta is made up for by any registry."""
    owner = crowd(1)[0]
    assert booted.next_deadline() == 2.0
    assert converse(booted, Registry(owner), 2.0, Tick()) == [Changed(records=(owner.record,))]
    assert booted.next_deadline() == 4.0
    assert converse(booted, Registry(owner), 4.0, Tick()) == []


def test_what_all_registries_forgot_they_are_told(booted: ViewMachine) -> None:
    """Else a session that died meanwhile would be believed in here for ever."""
    owner = crowd(1)[0]
    step(booted, 0.1, DeltaHeard(path=owner.path, signed=owner.signed))
    records = Records(sender="router", records=(owner.record,))
    assert converse(booted, Registry(), 2.0, Tick()) == [TellRegistry(records=records)]


def test_one_that_may_not_relay_tells_registries_nothing() -> None:
    """A tool looks, and adds nothing to what registries hold."""
    owner = crowd(1)[0]
    tool = ViewMachine(name="tool", verify=vouch(), rng=Evenly(), config=CONFIG, relays=False)
    converse(tool, Registry(), 0.0, Tick())
    step(tool, 0.1, DeltaHeard(path=owner.path, signed=owner.signed))
    assert converse(tool, Registry(), 2.0, Tick()) == []
    assert tool.held.living


def test_many_differences_are_asked_for_side_by_side(booted: ViewMachine) -> None:
    """But never more than so many at once."""
    registry = Registry(*crowd(200))
    (opening,) = step(booted, 2.0, Tick())
    assert isinstance(opening, AskRegistry)
    assert isinstance(opening.ask, DigestAsk)
    asks = step(booted, 2.0, registry.answer(opening))
    assert len(asks) == machines.ASKS_AT_ONCE
    assert all(isinstance(a, AskRegistry) and isinstance(a.ask, Leaves) for a in asks)
    for action in asks:
        assert isinstance(action, AskRegistry)
        asks += [a for a in step(booted, 2.1, registry.answer(action)) if type(a) is AskRegistry]
    assert booted.held.records == registry.held.records


def test_an_answer_in_time_or_too_late_is_true_all_the_same(booted: ViewMachine) -> None:
    """A late one no longer moves the conversation."""
    owner = crowd(1)[0]
    step(booted, 2.0, Tick())
    assert booted.next_deadline() == 3.0
    assert step(booted, 3.0, Tick()) == []
    assert (booted.stale_since, booted.next_deadline()) == (3.0, 3.5)
    late = Answered(number=2, answer=Repair(registry="r", records=(owner.record,)))
    assert step(booted, 3.2, late) == [Changed(records=(owner.record,))]
    assert booted.stale_since == 3.0
    assert step(booted, 3.2, AskFailed(number=2)) == []


def test_one_unanswered_question_among_several_does_not_end_the_others(
    booted: ViewMachine,
) -> None:
    """The round goes on with those that are answered, and the next makes up for the rest."""
    registry = Registry(*crowd(200))
    (opening,) = step(booted, 2.0, Tick())
    assert isinstance(opening, AskRegistry)
    asks = [a for a in step(booted, 2.0, registry.answer(opening)) if type(a) is AskRegistry]
    step(booted, 2.1, AskFailed(number=asks[0].number))
    assert booted.stale_since == 2.1
    for action in asks[1:]:
        step(booted, 2.2, registry.answer(action))
    assert [booted.stale_since, booted.next_deadline()] == [None, 4.2]


def test_nothing_happens_before_its_time(booted: ViewMachine) -> None:
    """A clock that rings early is no round."""
    assert step(booted, 1.9, Tick()) == []


def test_a_connection_that_is_back_is_a_reason_to_compare(booted: ViewMachine) -> None:
    """Whatever was under way went down with the old one."""
    step(booted, 2.0, Tick())
    (action,) = step(booted, 2.1, MeshBack())
    assert isinstance(action, AskRegistry)
    assert isinstance(action.ask, DigestAsk)


def test_a_round_does_not_begin_while_one_goes_on(booted: ViewMachine) -> None:
    """One conversation at a time."""
    step(booted, 2.0, Tick())
    assert step(booted, 2.5, Tick()) == []


def test_what_a_registry_has_forgotten_is_dropped_and_refused_in_silence(
    booted: ViewMachine,
) -> None:
    """Memory of a view is bounded by that of registries, whatever its own clock says."""
    owner = crowd(1)[0]
    owner.say(Lifecycle.LEFT, ended_at_ms=BORN_AT_MS + 5)
    step(booted, 0.1, DeltaHeard(path=owner.path, signed=owner.signed))
    step(booted, 2.0, Tick())
    repair = Repair(registry="r", cut_ms=BORN_AT_MS + 5)
    step(booted, 2.1, Answered(number=2, answer=repair))
    assert len(booted.held) == 0
    assert step(booted, 2.2, DeltaHeard(path=owner.path, signed=owner.signed)) == []


def test_where_there_are_several_registries_one_alone_is_not_believed(booted: ViewMachine) -> None:
    """It may lie; the last one that is there decides alone."""
    owner = crowd(1)[0]
    step(booted, 0.1, DeltaHeard(path=owner.path, signed=owner.signed))

    def judged(*registries: str, ended_at_ms: int = 9) -> VerdictHeard:
        ending = said(owner.claim, *registries, ended_at_ms=ended_at_ms)
        verdict = Verdict(registry="r1", session=owner.claim.session, ending=ending)
        return VerdictHeard(path=owner.path, verdict=verdict)

    for name in ("r1", "r2"):
        assert step(booted, 0.2, PresenceHeard(presence=presence_of(seal(name), ""))) == []
    (refused,) = step(booted, 0.3, judged("r1"))
    assert isinstance(refused, Refused)
    assert booted.held.living
    step(booted, 0.4, PresenceHeard(presence=presence_of(seal("r2"), "", leaving=True)))
    (changed,) = step(booted, 0.5, judged("r1"))
    assert isinstance(changed, Changed)
    assert not booted.held.living


def test_two_registries_are_believed(booted: ViewMachine) -> None:
    """Whoever of them says it."""
    owner = crowd(1)[0]
    step(booted, 0.1, DeltaHeard(path=owner.path, signed=owner.signed))
    for name in ("r1", "r2", "r3"):
        step(booted, 0.2, PresenceHeard(presence=presence_of(seal(name), "")))
    witnesses = said(owner.claim, "r1", "r2", quorum=2)
    verdict = Verdict(registry="r3", session=owner.claim.session, witnesses=witnesses)
    (changed,) = step(booted, 0.3, VerdictHeard(path=owner.path, verdict=verdict))
    assert isinstance(changed, Changed)
    assert is_suspected(changed.records[0])


def test_a_registry_that_is_silent_is_not_counted(booted: ViewMachine) -> None:
    """Else a view would wait for the word of one that is gone."""
    owner = crowd(1)[0]
    step(booted, 0.1, DeltaHeard(path=owner.path, signed=owner.signed))
    for name in ("r1", "r2"):
        step(booted, 0.2, PresenceHeard(presence=presence_of(seal(name), "")))
    witnesses = said(owner.claim, "r1")
    heard = VerdictHeard(
        path=owner.path,
        verdict=Verdict(registry="r1", session=owner.claim.session, witnesses=witnesses),
    )
    assert step(booted, 0.3, heard) == []
    step(booted, 5.1, PresenceHeard(presence=presence_of(seal("r1"), "")))
    assert step(booted, 5.3, heard)


def test_a_lone_ending_in_an_answer_is_refused_and_counted(view: ViewMachine) -> None:
    """A registry that lies in what it is asked is found as well."""
    owner = crowd(1)[0]
    registry = Registry(owner)
    converse(view, registry, 0.0, Tick())
    for name in ("r", "r2"):
        step(view, 0.1, PresenceHeard(presence=presence_of(seal(name), "")))
    ending = said(owner.claim, "r", ended_at_ms=9)
    registry.tell(SessionRecord(signed=owner.signed, ending=ending))
    rest = converse(view, registry, CONFIG.repair_s * 2, Tick())
    (refused,) = [action for action in rest if isinstance(action, Refused)]
    assert [one.reason for one in refused.rejected] == ["unsupported"]
    assert list(view.held.living) == [owner.claim.session]


def test_a_registry_leaves_by_its_own_word_alone(booted: ViewMachine) -> None:
    """Else whoever lies would first say that the others are gone."""
    owner = crowd(1)[0]
    step(booted, 0.1, DeltaHeard(path=owner.path, signed=owner.signed))
    for name in ("r1", "r2"):
        step(booted, 0.2, PresenceHeard(presence=presence_of(seal(name), "two")))
    lies = (
        replace(presence_of(seal("r1"), "two", leaving=True), registry="r2"),
        presence_of(seal("r2"), "one", leaving=True),
        Presence(registry="r2", leaving=True),
    )
    for lie in lies:
        step(booted, 0.3, PresenceHeard(presence=lie))
    ending = said(owner.claim, "r1", ended_at_ms=9)
    verdict = Verdict(registry="r1", session=owner.claim.session, ending=ending)
    step(booted, 0.4, VerdictHeard(path=owner.path, verdict=verdict))
    assert list(booted.held.living) == [owner.claim.session]
    assert booted.held.rejections["forged"] == 2  # type: ignore[index]


def test_words_that_a_registry_repeats_are_checked_once(
    booted: ViewMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come every second; other words in its name are checked each time."""
    checked: list[Presence] = []
    fault = "a lie"

    def fault_of(said: Presence, _: object) -> str:
        checked.append(said)
        return fault

    monkeypatch.setattr(machines, "fault_of", fault_of)
    honest = presence_of(seal("r1"), "one")
    step(booted, 0.1, PresenceHeard(presence=honest))
    fault = ""
    for now in (0.2, 0.3, 0.4):
        step(booted, now, PresenceHeard(presence=honest))
    assert checked == [honest, honest]
    other = replace(honest, leaving=True)
    step(booted, 0.5, PresenceHeard(presence=other))
    assert checked == [honest, honest, other]
