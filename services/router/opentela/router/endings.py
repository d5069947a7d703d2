"""What the end of an attempt, of a stream or of an answer means for its request."""

from typing import Final

from opentela.router.attempt_events import Outcome
from opentela.router.fault import Fault, FaultKind
from opentela.router.outcomes import Result
from opentela.router.sse import StreamEnd
from opentela.wire.frames import FailKind

CLIENT_ERROR: Final = 400
ENGINE_ERROR: Final = 500

STREAM_OUTCOMES: Final = {
    StreamEnd.COMPLETE: Outcome.OK,
    StreamEnd.INCOMPLETE: Outcome.INCOMPLETE,
    StreamEnd.FAILED: Outcome.ENGINE_ERROR,
}
_RESULTS: Final = {
    FailKind.REFUSED: Result.REFUSED,
    FailKind.DEADLINE: Result.TIMED_OUT,
    FailKind.SILENT: Result.TIMED_OUT,
    # None of these says anything about the session.
    FailKind.TOO_LARGE: Result.CANCELLED,
    FailKind.CHANNEL_LOST: Result.CANCELLED,
    FailKind.MESH_LOST: Result.CANCELLED,
    FailKind.CANCELLED: Result.CANCELLED,
}
MAY_BE_SLOW: Final = frozenset({FailKind.CHANNEL_LOST, FailKind.UNACKNOWLEDGED})
"""After these another session is asked first, and the same again when there is no other: its
channel broke, or it did not answer at once, as one that stands still for a moment does not."""
CUT_OFF: Final = Fault(
    kind=FaultKind.ENGINE_FAILED, message="The engine's stream ended before the answer did."
)
NO_STATUS: Final = Fault(
    kind=FaultKind.ENGINE_FAILED, message="The engine's answer has no valid status."
)
SILENT: Final = Fault(
    kind=FaultKind.ENGINE_TIMEOUT, message="The engine sent nothing for too long."
)


def result_of(kind: FailKind) -> Result:
    """Return what a failure of *kind* says about its session."""
    return _RESULTS.get(kind, Result.FAILED)


def outcome_of(status: int) -> Outcome:
    """Return how a request ended that was answered with *status*."""
    if status < CLIENT_ERROR:
        return Outcome.OK
    return Outcome.REJECTED if status < ENGINE_ERROR else Outcome.ENGINE_ERROR
