"""Once in a while for each session, so often for all."""

import pytest

from opentela.core.ids import SessionId
from opentela.registry import throttle as throttles
from opentela.registry.throttle import Budget, Throttle

A, B, C = (SessionId(name) for name in "abc")


def test_each_session_has_its_own_time() -> None:
    """Reasons that come too early are dropped, not saved."""
    throttle = Throttle(1.0)
    assert [throttle.may(A, 0.0), throttle.may(A, 0.9), throttle.may(A, 1.0)] == [True, False, True]
    assert throttle.may(B, 1.0)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest untouched is forgotten first."""
    monkeypatch.setattr(throttles, "KEYS_MAX", 2)
    throttle = Throttle(100.0)
    for session in (A, B, C):
        throttle.may(session, 0.0)
    assert not throttle.may(C, 1.0)
    assert throttle.may(A, 1.0)


def test_a_budget_is_for_all_together() -> None:
    """As many at once as a second brings, then one each time that is due."""
    budget = Budget(2.0)
    assert [budget.may(0.0) for _ in range(3)] == [True, True, False]
    assert [budget.may(0.5), budget.may(0.5)] == [True, False]
    assert [budget.may(9.0) for _ in range(3)] == [True, True, False]
