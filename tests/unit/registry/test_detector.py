"""The detector, path by path, with literal times.

A session beats every second here; it is late after 1.5 s and its lease ends after 5 s.
"""

import math
import random

import pytest

from opentela.core.ids import SessionId
from opentela.registry.config import DetectorConfig
from opentela.registry.detector import BEAT_EVERY_MAX_S, Detector, Failed, Finding, SendProbe

A, B = SessionId("a"), SessionId("b")
CONFIG = DetectorConfig(
    late_beats=1.5,
    lease_beats=5.0,
    probes_min=2,
    probe_every_s=1.0,
    probe_timeout_s=1.0,
    suspect_probe_every_s=2.0,
    advisory_ttl_s=10.0,
)


@pytest.fixture
def detector() -> Detector:
    """A detector that has heard session A at 0 s."""
    detector = Detector(CONFIG)
    detector.watch(A, 0.0)
    detector.heard(A, 0.0, every_s=1.0)
    return detector


def run(detector: Detector, until: float) -> list[tuple[float, Finding]]:
    """Return each finding with its time, looking exactly when the detector asks for it."""
    found: list[tuple[float, Finding]] = []
    while (deadline := detector.next_deadline()) is not None and deadline <= until:
        found += [(deadline, finding) for finding in detector.due(deadline)]
    return found


def test_a_beating_session_is_left_alone(detector: Detector) -> None:
    """Nothing is asked of it, however long it lives."""
    for second in range(1, 100):
        assert detector.due(second - 0.001) == []
        detector.heard(A, float(second))
    assert detector.is_heard(A, 100.0)


def test_a_late_session_is_probed(detector: Detector) -> None:
    """Once, and again every second while nobody answers."""
    assert detector.next_deadline() == 1.5
    assert run(detector, 2.6) == [(1.5, SendProbe(A, 1)), (2.5, SendProbe(A, 2))]
    assert not detector.is_heard(A, 1.5)


def test_probes_do_not_wait_for_answers() -> None:
    """So many fit into what is left of the lease that some may be lost; enough must be."""
    config = DetectorConfig(
        late_beats=1.25, lease_beats=1.75, probes_min=3, probe_every_s=0.125, probe_timeout_s=0.25
    )
    detector = Detector(config)
    detector.watch(A, 0.0)
    probes = [SendProbe(A, number) for number in range(1, 6)]
    times = (1.25, 1.375, 1.5, 1.625, 1.75)
    assert run(detector, 1.75) == [*zip(times, probes, strict=True), (1.75, Failed(A))]


def test_a_registry_that_stood_still_blames_nobody_before_it_has_probed() -> None:
    """The lease is over when it wakes up; beats and answers that came are still unread."""
    config = DetectorConfig(
        late_beats=1.25, lease_beats=1.75, probes_min=3, probe_every_s=0.125, probe_timeout_s=0.25
    )
    detector = Detector(config)
    detector.watch(A, 0.0)
    assert detector.due(2.0) == [SendProbe(A, 1)]
    assert (2.5, Failed(A)) in run(detector, 2.5)


def test_gaps_between_probes_grow_with_the_lease() -> None:
    """Whoever is slow does not ask more for it."""
    detector = Detector(DetectorConfig(late_beats=1.5, lease_beats=2.0, probe_every_s=0.25))
    detector.widening = 2.0
    detector.watch(A, 0.0)
    assert [at for at, _ in run(detector, 2.5)] == [1.5, 2.0, 2.5]


def test_a_job_that_runs_is_not_asked_for_all_the_time(detector: Detector) -> None:
    """Its session is silent and not suspected: looking now and then is enough."""
    detector.advise(A, 1.0, alive=True)
    found = [at for at, finding in run(detector, 9.9) if isinstance(finding, SendProbe)]
    assert found == [1.5, 2.5, 3.5, 4.5, 5.5, 7.5, 9.5]


def test_an_answered_probe_is_a_sign_of_life(detector: Detector) -> None:
    """Lost beats alone are no failure."""
    run(detector, 1.5)
    detector.heard(A, 1.6)
    assert detector.is_heard(A, 3.0)
    assert run(detector, 3.2) == [(3.1, SendProbe(A, 2))]


def test_late_and_no_responders_is_failure_at_once(detector: Detector) -> None:
    """The mesh knows that nobody is there."""
    run(detector, 1.5)
    detector.refused(A, 1.51)
    assert detector.due(1.51) == [Failed(A)]
    assert detector.failing == {A: 1.51}


def test_silence_is_failure_when_the_lease_is_over(detector: Detector) -> None:
    """A frozen host answers nothing, and the mesh does not know."""
    found = run(detector, 5.0)
    assert found[-1] == (5.0, Failed(A))
    assert [finding for _, finding in found if isinstance(finding, Failed)] == [Failed(A)]


def test_the_end_of_the_lease_alone_is_no_failure() -> None:
    """Not before enough probes went unanswered: perhaps it was us who did not ask."""
    detector = Detector(
        DetectorConfig(
            late_beats=1.5, lease_beats=2.0, probes_min=3, probe_every_s=1.0, probe_timeout_s=0.5
        )
    )
    detector.watch(A, 0.0)
    assert [at for at, finding in run(detector, 10.0) if finding == Failed(A)] == [4.0]


def test_a_failed_session_is_probed_more_rarely(detector: Detector) -> None:
    """It may come back any time, but nobody waits for it."""
    run(detector, 1.5)
    detector.refused(A, 1.51)
    detector.due(1.51)
    probes = [at for at, finding in run(detector, 7.0) if isinstance(finding, SendProbe)]
    assert probes == [2.5, 4.5, 6.5]


def test_one_sign_of_life_ends_a_failure(detector: Detector) -> None:
    """On whatever path."""
    run(detector, 5.0)
    detector.heard(A, 9.0)
    assert detector.failing == {}
    assert detector.is_heard(A, 10.0)
    found = run(detector, 20.0)
    assert (14.0, Failed(A)) in found


def test_no_responders_to_nothing_says_nothing(detector: Detector) -> None:
    """A stray signal, or one for a session that was heard since."""
    detector.refused(A, 0.5)
    detector.refused(B, 0.5)
    assert detector.due(0.5) == []
    run(detector, 1.5)
    detector.heard(A, 1.6)
    detector.refused(A, 1.7)
    assert detector.due(1.7) == []


def test_a_running_job_keeps_its_session(detector: Detector) -> None:
    """One live path is enough, for as long as its word holds."""
    detector.advise(A, 1.0, alive=True)
    run(detector, 1.5)
    detector.refused(A, 1.6)
    assert not any(isinstance(finding, Failed) for _, finding in run(detector, 10.9))
    assert (11.0, Failed(A)) in run(detector, 11.5)


def test_an_ended_job_is_failure_once_the_session_is_late(detector: Detector) -> None:
    """An advisory alone does not overrule a beating session, but has it looked at."""
    detector.advise(A, 1.0, alive=False)
    assert detector.due(1.0) == [SendProbe(A, 1)]
    assert detector.is_over(A, 1.4)
    assert detector.due(1.5) == [Failed(A)]
    assert not detector.is_over(A, 11.0)
    detector.advise(B, 1.0, alive=False)
    assert not detector.is_over(B, 1.0)


@pytest.mark.parametrize("why", ["its requests fail", "its job is over"])
def test_nobody_there_is_believed_at_once_with_a_second_reason(
    detector: Detector, why: str
) -> None:
    """Though its beat is not late yet; without one, a lost subscription would do as much."""
    if why == "its job is over":
        detector.advise(A, 0.2, alive=False)
    else:
        detector.doubt(A, 0.2)
    assert detector.due(0.2) == [SendProbe(A, 1)]
    detector.refused(A, 0.3)
    assert detector.due(0.3) == [Failed(A)]


def test_without_a_second_reason_nobody_there_waits_for_the_beat(detector: Detector) -> None:
    """Interest is lost for a moment whenever a server restarts."""
    detector.urge(A, 0.2)
    detector.due(0.2)
    detector.refused(A, 0.3)
    assert detector.due(0.3) == []


def test_a_doubt_ends_with_a_sign_of_life(detector: Detector) -> None:
    """It is of this moment."""
    detector.doubt(A, 0.2)
    detector.due(0.2)
    detector.heard(A, 0.3)
    detector.urge(A, 0.4)
    detector.due(0.4)
    detector.refused(A, 0.5)
    assert detector.due(0.5) == []
    detector.doubt(B, 0.5)


def test_an_urged_session_is_probed_before_it_is_late(detector: Detector) -> None:
    """Another registry cannot reach it: look oneself."""
    detector.urge(A, 0.2)
    assert detector.due(0.2) == [SendProbe(A, 1)]
    detector.urge(B, 0.2)


def test_an_urged_session_that_is_gone_fails_when_it_is_late(detector: Detector) -> None:
    """Until then its own voice counts."""
    detector.urge(A, 0.2)
    detector.due(0.2)
    detector.refused(A, 0.21)
    assert detector.due(0.21) == []
    assert (1.5, Failed(A)) in run(detector, 1.6)


def test_urging_waits_for_the_next_probe(detector: Detector) -> None:
    """Probes of one session keep their distance, whoever asks for them."""
    for at in (0.2, 0.3):
        detector.urge(A, at)
        detector.due(at)
    detector.refused(A, 0.4)
    assert detector.due(0.4) == []
    assert run(detector, 1.3) == [(1.2, SendProbe(A, 2))]


def test_a_failed_session_is_not_urged(detector: Detector) -> None:
    """It is being probed anyway."""
    run(detector, 5.0)
    detector.urge(A, 5.1)
    assert detector.due(5.1) == []


def test_a_session_says_itself_how_often_it_beats(detector: Detector) -> None:
    """Within reason; a number that is none is passed over."""
    detector.heard(A, 0.0, every_s=4.0)
    assert run(detector, 5.9) == []
    detector.heard(A, 6.0, every_s=1e9)
    assert detector.is_heard(A, 6.0 + 1.4 * BEAT_EVERY_MAX_S)
    assert not detector.is_heard(A, 6.0 + 1.6 * BEAT_EVERY_MAX_S)
    detector.heard(A, 100.0, every_s=math.nan)
    assert not detector.is_heard(A, 100.0 + 1.6 * BEAT_EVERY_MAX_S)


def test_pardon_starts_every_lease_and_every_grace_anew(detector: Detector) -> None:
    """Whoever slept has heard nobody."""
    detector.watch(B, 0.0)
    run(detector, 5.0)
    detector.heard(B, 5.0)
    detector.pardon(60.0)
    assert detector.failing == {A: 60.0}
    assert detector.due(60.0) == []
    assert detector.is_heard(B, 61.0)


def test_an_unwatched_session_is_forgotten(detector: Detector) -> None:
    """Its entry in the heap finds nobody; watched again it starts anew."""
    run(detector, 5.0)
    detector.unwatch(A)
    assert (len(detector), detector.failing) == (0, {})
    assert run(detector, 100.0) == []
    detector.heard(A, 100.0)
    detector.watch(A, 100.0)
    detector.watch(A, 101.0)
    assert detector.is_watched(A)
    assert not detector.is_heard(A, 101.6)
    assert not detector.is_heard(B, 0.0)


def test_watching_thousands_costs_no_entry_a_beat() -> None:
    """Each session has one entry in the heap, however often it beats."""
    detector = Detector(CONFIG)
    rng = random.Random(1)
    sessions = [SessionId(str(number)) for number in range(100)]
    for session in sessions:
        detector.watch(session, 0.0)
    for tick in range(2000):
        now = tick / 100
        detector.heard(rng.choice(sessions), now)
        detector.due(now)
    assert len(detector._heap) <= 2 * len(sessions)
