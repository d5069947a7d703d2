"""What happens to one request, and what is done about it; `Attempts` turns one into the other."""

from enum import Enum, StrEnum
from typing import Final, TypeAlias

import msgspec

from opentela.router.answers import Answer
from opentela.router.directory import Candidate
from opentela.router.fault import Fault
from opentela.router.outcomes import Result
from opentela.wire.frames import Fail, Headers


class Head(msgspec.Struct, frozen=True):
    """The engine answers."""

    status: int
    headers: Headers


class Whole(msgspec.Struct, frozen=True):
    """The engine answers, and that is all of it: a head, data and an end in one."""

    status: int
    headers: Headers
    body: bytes


class Data(msgspec.Struct, frozen=True):
    """A part of the answer."""

    data: bytes


class End(msgspec.Struct, frozen=True):
    """The answer is whole, as far as the engine's HTTP goes."""


class Failed(msgspec.Struct, frozen=True):
    """The attempt brought no answer, or half of one."""

    fail: Fail


class ClientGone(msgspec.Struct, frozen=True):
    """Nobody waits for the answer any more."""


class Tick(msgspec.Struct, frozen=True):
    """Time has passed."""


class Recheck(msgspec.Struct, frozen=True):
    """There may be a session now for a request that is held."""


Event: TypeAlias = Head | Whole | Data | End | Failed | ClientGone | Tick | Recheck


class TryOn(msgspec.Struct, frozen=True):
    """Send the request to this session; it has *deadline_s* for all of it."""

    candidate: Candidate
    deadline_s: float


class Hold(msgspec.Struct, frozen=True):
    """Let the request wait for a session; `Recheck` and `Tick` go on with it."""


class EndAttempt(msgspec.Struct, frozen=True):
    """The attempt at this session is over.

    Attributes:
        why: It failed, for people.
        cancel: Its stream is still open and must be withdrawn.
    """

    candidate: Candidate
    result: Result
    why: str = ""
    cancel: bool = False


class Reply(msgspec.Struct, frozen=True):
    """Send the whole answer."""

    answer: Answer


class Commit(msgspec.Struct, frozen=True):
    """Send the head and the first bytes: from here on nothing can be tried again."""

    status: int
    headers: Headers
    data: bytes


class Forward(msgspec.Struct, frozen=True):
    """Send further bytes."""

    data: bytes


class Finish(msgspec.Struct, frozen=True):
    """End the answer well."""


class GiveUp(msgspec.Struct, frozen=True):
    """Send the fault as the whole answer."""

    fault: Fault


class Break(msgspec.Struct, frozen=True):
    """End the answer so that nobody takes it for whole.

    An event stream can say so itself, by *fault*; where it cannot, the connection is cut.
    """

    fault: Fault
    can_say: bool


Action: TypeAlias = TryOn | Hold | EndAttempt | Reply | Commit | Forward | Finish | GiveUp | Break


class Phase(Enum):
    """How far a request is."""

    NEW = "new"
    TRYING = "trying"
    HEADED = "headed"
    COMMITTED = "committed"
    WAITING = "waiting"  # for the time of the next attempt
    HELD = "held"  # for a session
    DONE = "done"


TRYING: Final = Phase.TRYING
COMMITTED: Final = Phase.COMMITTED
BETWEEN: Final = frozenset({Phase.WAITING, Phase.HELD})
"""No attempt is under way."""


class Outcome(StrEnum):
    """How a request ended, as it is logged, counted and billed."""

    RUNNING = "running"
    OK = "ok"
    INCOMPLETE = "incomplete"  # ended as the engine wanted, without a reason to finish
    REJECTED = "rejected"  # the fault was the request's: 4xx, of the engine or of the router
    ENGINE_ERROR = "engine_error"  # the engine answered 5xx, or told of an error in the stream
    FAILED = "failed"  # no session brought an answer
    BROKEN = "broken"  # the answer broke after it had begun
    CANCELLED = "cancelled"  # the client left
