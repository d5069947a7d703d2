"""Engines come and go at random: nobody is failed for it whose own engine lives."""

from pathlib import Path

import msgspec
import pytest
from tests.e2e import churn, history
from tests.e2e.churn import Plan
from tests.e2e.churn_rules import Death, check_churn, cost
from tests.e2e.history import Exchange
from tests.e2e.product import Product

UNARY = Exchange(
    number=0, stream=False, started_at=1.0, ended_at=2.0, status=200, text="x", finish=("stop",)
)
BROKEN = msgspec.structs.replace(
    UNARY, stream=True, finish=(), error="engine_lost", session="s", attempts=2
)


@pytest.mark.nats
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_small_fleet_churns_and_nobody_is_failed_for_it(tmp_path: Path) -> None:
    """Every rule holds, faults were made, and somebody came back."""
    plan = Plan(engines=6, seconds=10.0, every_s=1.0, away_s=2.0, concurrency=6)
    with Product(tmp_path) as product:
        outcome = churn.run(product, plan)
    assert not outcome.violations, history.report(outcome.violations)
    assert sum(outcome.faults.values()) >= 3
    assert outcome.cost.unary > 20
    assert outcome.cost.streams > 20
    assert "| of these failed | **0** |" in churn.report(outcome)


def test_a_stream_may_break_whose_session_died_meanwhile() -> None:
    """If it says so."""
    assert check_churn([UNARY, BROKEN], [Death("s", 1.5, "killed")]) == []


@pytest.mark.parametrize(
    ("exchange", "deaths", "rule"),
    [
        (BROKEN, [], "a stream broke whose session lived"),
        (BROKEN, [Death("other", 1.5, "killed")], "a stream broke whose session lived"),
        (BROKEN, [Death("s", 0.1, "killed")], "a stream broke whose session lived"),
        (BROKEN, [Death("s", 2.5, "killed")], "a stream broke whose session lived"),
        (
            msgspec.structs.replace(BROKEN, error=""),
            [Death("s", 1.5, "killed")],
            "a stream broke without a word",
        ),
        (
            msgspec.structs.replace(UNARY, status=503, finish=()),
            [Death("s", 1.5, "killed")],
            "a request failed that nothing was promised to",
        ),
    ],
)
def test_each_violation_is_named(exchange: Exchange, deaths: list[Death], rule: str) -> None:
    """Whatever else died meanwhile."""
    (found,) = check_churn([exchange], deaths)
    assert found.startswith(rule)


def test_what_was_done_twice_is_counted() -> None:
    """Attempts beyond the first."""
    spent = cost([UNARY, BROKEN, msgspec.structs.replace(UNARY, attempts=3)])
    assert (spent.unary, spent.streams, spent.broken) == (2, 1, 1)
    assert (spent.retried, spent.more, spent.slowest_s) == (2, 3, 1.0)
