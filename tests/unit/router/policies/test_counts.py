"""Counts go up and down together, and cannot drift."""

import pytest

from opentela.core.ids import SessionId
from opentela.router.policies.counts import Counts

A, B = SessionId("a"), SessionId("b")


def test_each_session_is_counted_and_all_together() -> None:
    """What ended is forgotten."""
    counts = Counts()
    for session in (A, A, B):
        counts.started(session)
    assert (counts.of(A), counts.of(B)) == (2, 1)
    for session in (A, B):
        counts.ended(session)
    assert (counts.of(A), counts.of(B), len(counts)) == (1, 0, 1)


def test_an_end_without_a_start_is_a_bug() -> None:
    """It must not go by as a load below nothing."""
    with pytest.raises(AssertionError, match="without a start"):
        Counts().ended(A)
