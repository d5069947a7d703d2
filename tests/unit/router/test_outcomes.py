"""Sessions that fail are taken last for a while, and then tried once."""

import pytest
from tests.unit.router.parts import candidate

from opentela.core.ids import SessionId
from opentela.router import outcomes as module
from opentela.router.config import EjectionConfig
from opentela.router.outcomes import Outcomes, Result

A, B, C, D = (SessionId(name) for name in "abcd")
ALL = [candidate(name) for name in "abcd"]
CONFIG = EjectionConfig(eject_s=5.0, eject_max_s=12.0, refused_s=1.0, errors_max=3, share_max=0.5)


def make() -> Outcomes:
    """Return one that knows nothing yet."""
    return Outcomes(CONFIG)


def ejected(outcomes: Outcomes, now: float) -> list[str]:
    """Return who is ejected, in order of name."""
    return sorted(outcomes.ejected(now, ALL))


def test_at_first_nobody_is_ejected() -> None:
    """And nothing is looked at."""
    assert make().ejected(0.0, ALL) == ()


@pytest.mark.parametrize("result", [Result.FAILED, Result.TIMED_OUT])
def test_a_failure_ejects_for_its_time(result: Result) -> None:
    """One is enough: the request found another session, the next should find it at once."""
    outcomes = make()
    outcomes.end(10.0, A, result)
    assert ejected(outcomes, 14.9) == ["a"]
    assert ejected(outcomes, 15.0) == []


def test_after_its_time_one_attempt_is_the_trial() -> None:
    """Until it ends nobody else goes there."""
    outcomes = make()
    outcomes.end(0.0, A, Result.FAILED)
    outcomes.start(5.0, A)
    assert ejected(outcomes, 5.0) == ["a"]
    outcomes.end(6.0, A, Result.ANSWERED)
    assert ejected(outcomes, 6.0) == []


def test_a_failed_trial_ejects_for_longer_up_to_the_limit() -> None:
    """Five seconds, ten, then the most that is allowed."""
    outcomes = make()
    outcomes.end(0.0, A, Result.FAILED)
    outcomes.start(5.0, A)
    outcomes.end(5.0, A, Result.FAILED)
    assert ejected(outcomes, 14.9) == ["a"]
    assert ejected(outcomes, 15.0) == []
    outcomes.end(20.0, A, Result.FAILED)
    assert ejected(outcomes, 31.9) == ["a"]
    assert ejected(outcomes, 32.0) == []


def test_a_trial_whose_client_left_proves_nothing() -> None:
    """The next attempt is a trial again."""
    outcomes = make()
    outcomes.end(0.0, A, Result.FAILED)
    outcomes.start(5.0, A)
    outcomes.end(5.5, A, Result.CANCELLED)
    assert ejected(outcomes, 5.5) == []
    outcomes.start(6.0, A)
    assert ejected(outcomes, 6.0) == ["a"]


def test_an_attempt_while_ejected_is_no_trial() -> None:
    """It may be the last resort of its model; its answer counts all the same."""
    outcomes = make()
    outcomes.end(0.0, A, Result.FAILED)
    outcomes.start(1.0, A)
    assert ejected(outcomes, 5.0) == []


def test_what_clients_do_is_never_held_against_a_session() -> None:
    """4xx are answers, and a client that leaves has its own reasons."""
    outcomes = make()
    for now in range(50):
        outcomes.start(now, A)
        outcomes.end(now, A, Result.ANSWERED)
        outcomes.end(now, B, Result.CANCELLED)
    assert outcomes.ejected(50.0, ALL) == ()


def test_errors_in_a_row_count_as_a_failure() -> None:
    """One answer between them ends the row."""
    outcomes = make()
    for result in (Result.ERRORED, Result.ERRORED, Result.ANSWERED, Result.ERRORED, Result.ERRORED):
        outcomes.end(0.0, A, result)
    assert ejected(outcomes, 0.0) == []
    outcomes.end(0.0, A, Result.ERRORED)
    assert ejected(outcomes, 4.9) == ["a"]
    assert ejected(outcomes, 5.0) == []


def test_a_refusal_ejects_shortly_and_does_not_grow() -> None:
    """A draining session is no broken one."""
    outcomes = make()
    for now in (0.0, 0.1, 0.2):
        outcomes.end(now, A, Result.REFUSED)
    assert ejected(outcomes, 1.1) == ["a"]
    assert ejected(outcomes, 1.2) == []
    outcomes.end(2.0, A, Result.FAILED)
    outcomes.end(2.1, A, Result.REFUSED)
    assert ejected(outcomes, 6.9) == ["a"]


def test_no_more_than_the_share_is_ejected() -> None:
    """Who has served most of its time is the first to come back."""
    outcomes = make()
    for now, session in enumerate((A, B, C)):
        outcomes.end(now, session, Result.FAILED)
    assert ejected(outcomes, 3.0) == ["b", "c"]
    assert list(outcomes.ejected(3.0, ALL[:1])) == []


def test_a_session_that_is_gone_is_forgotten() -> None:
    """Its id never comes back."""
    outcomes = make()
    outcomes.end(0.0, A, Result.FAILED)
    outcomes.forget(A)
    outcomes.forget(B)
    assert outcomes.ejected(0.0, ALL) == ()


def test_sessions_that_are_followed_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest followed are forgotten first."""
    monkeypatch.setattr(module, "SESSIONS_MAX", 2)
    outcomes = make()
    for session in (A, B, C):
        outcomes.end(0.0, session, Result.FAILED)
    assert ejected(outcomes, 0.0) == ["b", "c"]
