"""A registry that is slow waits longer before it blames others."""

import pytest
from tests.unit.registry.driven import CONFIG as DRIVEN
from tests.unit.registry.driven import Driven, only
from tests.unit.registry.one import Registry, at

from opentela.core.ids import SessionId
from opentela.core.record import is_suspected
from opentela.registry import messages as m
from opentela.registry.config import DetectorConfig, RestraintConfig
from opentela.registry.detector import Detector, Failed, SendProbe
from opentela.registry.local_health import LocalHealth
from opentela.testing.owner import Owner

CONFIG = RestraintConfig(lag_s=0.25, widen_max=3.0)


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


def test_a_widened_detector_waits_longer_for_everything() -> None:
    """For a beat, for the lease and for the answer to a probe."""
    a = SessionId("a")
    detector = Detector(DetectorConfig(late_beats=1.5, lease_beats=3.0, probes_min=1))
    detector.watch(a, 0.0)
    detector.widening = 2.0
    assert detector.due(1.5) == []
    assert detector.due(3.0) == [SendProbe(a, 1)]
    assert detector.due(4.0) == []
    assert detector.due(5.0) == [SendProbe(a, 2)]
    assert detector.due(5.9) == []
    assert detector.due(6.0) == [Failed(a)]


def test_a_registry_that_is_often_late_suspects_later(owner: Owner) -> None:
    """Beats wait in its socket while it does something else."""
    slow, quick = Driven().boot(), Driven().boot()
    for registry in (slow, quick):
        registry.join(owner, 3.2)
    # Late by less than what would make it pardon everybody.
    slow.step(slow.machine.next_deadline() + 0.4, m.Tick())
    probed = [bool(only(m.PublishProbe, one.run(4.9))) for one in (slow, quick)]
    assert probed == [False, True]
    assert DRIVEN.restraint.widen_max > 1


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
