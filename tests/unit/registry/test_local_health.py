"""A registry that is slow waits longer before it blames others."""

import pytest
from msgspec.structs import replace
from tests.unit.registry.driven import CONFIG as DRIVEN
from tests.unit.registry.driven import Driven
from tests.unit.registry.one import Registry, at

from opentela.core.ids import SessionId
from opentela.core.record import is_suspected
from opentela.registry import messages as m
from opentela.registry.config import DetectorConfig, RestraintConfig
from opentela.registry.detector import Detector, Failed, SendProbe
from opentela.registry.local_health import LocalHealth
from opentela.testing.owner import Owner

CONFIG = RestraintConfig(lag_s=0.25, widen_max=3.0)
ALWAYS_SLOW = replace(DRIVEN, restraint=RestraintConfig(lag_s=0.25, widen_max=4.0))


@pytest.fixture
def health() -> LocalHealth:
    return LocalHealth(CONFIG)


def test_who_wakes_up_in_time_trusts_its_ears(health: LocalHealth) -> None:
    """A little late is in time."""
    for _ in range(9):
        health.woke(0.25)
        health.rounded()
    assert health.widening == 1.0


def test_each_sign_of_being_slow_widens_up_to_a_limit(health: LocalHealth) -> None:
    """Else a registry that is always slow would find nobody dead."""
    seen = []
    for _ in range(4):
        health.woke(0.3)
        seen.append(health.widening)
    assert seen == [2.0, 3.0, 3.0, 3.0]


def test_each_calm_round_takes_one_back(health: LocalHealth) -> None:
    """A round with a sign in it is not calm."""
    health.woke(0.3)
    health.was_wrong()
    seen = []
    for _ in range(4):
        health.rounded()
        seen.append(health.widening)
    assert seen == [3.0, 2.0, 1.0, 1.0]


def test_one_never_widens() -> None:
    """For who wants to know when."""
    health = LocalHealth(RestraintConfig(widen_max=1.0))
    health.woke(9.0)
    assert health.widening == 1.0


def test_a_widened_detector_waits_longer_before_it_takes_silence_for_death() -> None:
    """For the lease and for the answer to a probe; that nobody listens is as true as ever."""
    a, b = SessionId("a"), SessionId("b")
    detector = Detector(
        DetectorConfig(late_beats=1.5, lease_beats=3.0, probes_min=1, probe_every_s=1.0)
    )
    detector.widening = 2.0
    detector.watch(a, 0.0)
    detector.watch(b, 0.0)
    assert detector.due(1.5) == [SendProbe(a, 1), SendProbe(b, 2)]
    detector.refused(b, 1.6)
    assert detector.due(1.6) == [Failed(b)]
    detector.unwatch(b)
    found = [one for tick in range(16, 61) for one in detector.due(tick / 10)]
    assert [one for one in found if isinstance(one, Failed)] == [Failed(a)]
    assert isinstance(found[-1], Failed)
    assert detector.failing == {a: 6.0}


def test_a_widened_detector_waits_longer_for_an_answer() -> None:
    """It may lie in our socket."""
    a = SessionId("a")
    detector = Detector(
        DetectorConfig(late_beats=1.5, lease_beats=2.0, probes_min=1, probe_timeout_s=3.0)
    )
    detector.widening = 2.0
    detector.watch(a, 0.0)
    for tick in range(100):
        detector.due(tick / 10)
    assert detector.failing == {a: 7.5}


def test_a_registry_that_is_often_late_takes_silence_for_death_later(owner: Owner) -> None:
    """Beats and answers wait in its socket while it does something else."""
    slow, quick = Driven(ALWAYS_SLOW).boot(), Driven().boot()
    for registry in (slow, quick):
        registry.join(owner, 3.2)
    suspected = []
    for registry in (slow, quick):
        # Late by less than what would make it pardon everybody.
        at_s = 0.0
        while at_s < 3.2 + 6.0:
            at_s = registry.machine.next_deadline() + (0.4 if registry is slow else 0.0)
            registry.step(at_s, m.Tick())
        (record,) = registry.machine.held.records.values()
        suspected.append(is_suspected(record))
    assert suspected == [False, True]


def test_who_alone_could_not_reach_what_lives_was_wrong(owner: Owner) -> None:
    """Its peers heard the session all the time; without peers it cannot tell."""
    alone, among = Registry(), Registry()
    among.peers.heard("r2", 0.0)
    for registry in (alone, among):
        registry.join(owner)
        registry.fail(owner, 1.5)
    assert not is_suspected(among.record(owner))
    owner.say()
    for registry in (alone, among):
        registry.sessions.claimed(at(2.0), owner.path, owner.signed)
    assert alone.sessions.local_health.widening == 1.0
    assert among.sessions.local_health.widening == 2.0
