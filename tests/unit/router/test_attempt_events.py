"""Outcomes are words that logs, metrics and books have in common."""

from opentela.router.attempt_events import Outcome


def test_outcomes_are_the_words_that_are_stored() -> None:
    """A renamed outcome splits a series and a ledger in two."""
    assert {outcome.value for outcome in Outcome} == {
        "running",
        "ok",
        "incomplete",
        "rejected",
        "engine_error",
        "failed",
        "broken",
        "cancelled",
    }
