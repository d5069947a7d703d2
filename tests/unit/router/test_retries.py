"""Retries wait, and cannot become many times the work."""

import pytest
from tests.unit.router.parts import Dice

from opentela.router.config import AttemptConfig
from opentela.router.retries import RetryBudget, backoff

CONFIG = AttemptConfig(backoff_s=0.125, backoff_max_s=0.4, retry_share=0.25, retry_reserve=2)


@pytest.mark.parametrize(
    ("tried", "definite", "drawn", "waits_s"),
    [
        (1, True, 0.5, 0.0),
        (1, False, 0.5, 0.125),
        (2, True, 0.0, 0.0625),
        (2, True, 1.0, 0.1875),
        (3, False, 0.5, 0.25),
        (9, True, 0.5, 0.4),
    ],
)
def test_pauses_double_up_to_a_bound(
    tried: int, drawn: float, waits_s: float, *, definite: bool
) -> None:
    """By half more or less, by chance; none before the second when nothing can have begun."""
    assert backoff(CONFIG, Dice(drawn), tried=tried, definite=definite) == waits_s


def test_a_reserve_is_there_at_once_and_a_share_of_requests_after() -> None:
    """Four requests pay for one retry."""
    budget = RetryBudget(CONFIG)
    assert [budget.take() for _ in range(3)] == [True, True, False]
    for _ in range(3):
        budget.deposit()
    assert not budget.take()
    budget.deposit()
    assert [budget.take(), budget.take()] == [True, False]


def test_what_is_not_used_does_not_grow() -> None:
    """A quiet day must not pay for a storm."""
    budget = RetryBudget(CONFIG)
    for _ in range(1000):
        budget.deposit()
    assert [budget.take() for _ in range(3)] == [True, True, False]
