"""What ends say about the session, and about the request."""

import pytest

from opentela.router.attempt_events import Outcome
from opentela.router.endings import outcome_of, result_of
from opentela.router.outcomes import Result
from opentela.wire.frames import FailKind


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        (FailKind.REFUSED, Result.REFUSED),
        (FailKind.SILENT, Result.TIMED_OUT),
        (FailKind.TOO_LARGE, Result.CANCELLED),
        (FailKind.MESH_LOST, Result.CANCELLED),
        (FailKind.ENGINE_LOST, Result.FAILED),
        (FailKind.UNKNOWN, Result.FAILED),
    ],
)
def test_a_failure_is_held_against_the_session_only_when_it_is_its_own(
    kind: FailKind, result: Result
) -> None:
    """A body that is too large, or a lost mesh, says nothing about it."""
    assert result_of(kind) is result


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, Outcome.OK),
        (304, Outcome.OK),
        (400, Outcome.REJECTED),
        (499, Outcome.REJECTED),
        (500, Outcome.ENGINE_ERROR),
    ],
)
def test_a_status_says_whose_fault_it_was(status: int, outcome: Outcome) -> None:
    """The client's, the engine's, or nobody's."""
    assert outcome_of(status) is outcome
