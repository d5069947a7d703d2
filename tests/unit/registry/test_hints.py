"""What schedulers and routers say makes a registry look, and no more."""

import pytest
from tests.unit.registry.one import Registry, at, crowd, told

from opentela.core.ids import SiteId
from opentela.core.record import Lifecycle
from opentela.core.refusal import Reason
from opentela.registry import hints as hinting
from opentela.registry.detector import SendProbe
from opentela.registry.hints import Hints
from opentela.registry.messages import Refused
from opentela.testing.owner import Owner
from opentela.wire.control import Advice

ENDED, RUNS = Advice(alive=False, reason="job 7 is over"), Advice(alive=True)


@pytest.fixture
def hints(registry: Registry) -> Hints:
    return Hints(registry.sessions.held, registry.sessions.detector)


def gone(registry: Registry, owner: Owner, now: float) -> list[str]:
    """Look, let the mesh say that nobody is there, and return what tools are told."""
    actions = registry.sessions.detect(at(now))
    registry.sessions.refused(at(now), owner.path.provider, owner.path.session)
    return told(actions + registry.sessions.detect(at(now)) + registry.sessions.conclude(at(now)))


def test_a_session_whose_job_is_over_leaves_at_once(
    registry: Registry, owner: Owner, hints: Hints
) -> None:
    """Neither a late beat nor the grace is waited for, once nobody is found there."""
    registry.join(owner)
    assert hints.advised(0.1, owner.path, ENDED) == []
    assert gone(registry, owner, 0.1) == ["SUSPECTED", "LEFT"]


def test_a_session_that_still_answers_outlives_its_scheduler(
    registry: Registry, owner: Owner, hints: Hints
) -> None:
    """The scheduler is wrong, or means another."""
    registry.join(owner)
    hints.advised(0.1, owner.path, ENDED)
    registry.beat(owner, 0.2)
    assert gone(registry, owner, 0.3) == []


def test_a_session_whose_job_runs_is_kept(registry: Registry, owner: Owner, hints: Hints) -> None:
    """However silent it is, while the word holds."""
    registry.join(owner)
    hints.advised(0.1, owner.path, RUNS)
    assert gone(registry, owner, 10.0) == []


def test_a_provider_advises_on_its_own_sessions_only(
    registry: Registry, owner: Owner, hints: Hints
) -> None:
    """Refused, counted; of a session that is unknown or ended it says nothing."""
    registry.join(owner)
    elsewhere = owner.path._replace(site=SiteId("other"))
    (refused,) = hints.advised(0.1, elsewhere, ENDED)
    assert isinstance(refused, Refused)
    assert registry.sessions.held.rejections == {Reason.FOREIGN: 1}
    assert hints.advised(0.1, crowd(2)[1].path, ENDED) == []
    owner.say(Lifecycle.DOWN)
    registry.join(owner, 0.2)
    assert hints.advised(0.3, owner.path, ENDED) == []


def test_a_session_that_requests_fail_at_is_looked_at(
    registry: Registry, owner: Owner, hints: Hints
) -> None:
    """At once, and that nobody is there is then believed at once."""
    registry.join(owner)
    hints.sighted(0.1, owner.path)
    assert gone(registry, owner, 0.1) == ["SUSPECTED"]


def test_a_router_alone_takes_nobody_out(registry: Registry, owner: Owner, hints: Hints) -> None:
    """What answers is kept, and not asked more often than it beats, whatever routers say."""
    registry.join(owner)
    probes = 0
    for tick in range(100):
        hints.sighted(tick / 10, owner.path)
        found = registry.sessions.detector.due(tick / 10)
        probes += sum(isinstance(one, SendProbe) for one in found)
        registry.beat(owner, tick / 10)
    assert probes <= 10
    assert registry.sessions.detector.failing == {}


def test_looks_at_all_sessions_together_are_bounded(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A router that sees everything fail is likelier cut off itself."""
    monkeypatch.setattr(hinting, "LOOKS_PER_S", 3.0)
    owners = crowd(10)
    for owner in owners:
        registry.join(owner)
    hints = Hints(registry.sessions.held, registry.sessions.detector)
    for owner in owners:
        hints.sighted(0.1, owner.path)
    assert len(registry.sessions.detector.due(0.1)) == 3


def test_a_sighting_of_nobody_is_nothing(registry: Registry, owner: Owner, hints: Hints) -> None:
    """Nor one over another's subject."""
    hints.sighted(0.1, owner.path)
    registry.join(owner)
    hints.sighted(0.2, owner.path._replace(site=SiteId("other")))
    assert registry.sessions.detector.due(0.2) == []
