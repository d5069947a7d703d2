"""What the shells tell the two halves of a stream, and what the halves ask of their shells.

Frames are events when they come and actions when they go; the rest is here. A half is stepped
with `step(now, event)`, performs nothing itself, and names its next moment in `next_deadline()`.
"""

from typing import Final, TypeAlias

import msgspec

from opentela.wire.frames import (
    Body,
    Cancel,
    Credit,
    Data,
    End,
    Fail,
    FailKind,
    Frame,
    Head,
    Headers,
    Open,
)


class Tick(msgspec.Struct, frozen=True):
    """Time has passed: a deadline may be due."""


class Begin(msgspec.Struct, frozen=True):
    """The router starts the stream."""


class Consumed(msgspec.Struct, frozen=True):
    """The client took *size* bytes of the answer."""

    size: int


class Heard(msgspec.Struct, frozen=True):
    """Something of another stream came from the session, by the same way, at this time."""

    at: float


class Withdraw(msgspec.Struct, frozen=True):
    """The router no longer wants the answer."""

    reason: str


class NoResponders(msgspec.Struct, frozen=True):
    """The mesh answered that nobody listens on the session's subject."""


class CarrierLost(msgspec.Struct, frozen=True):
    """The connection that carries the frames is gone.

    Attributes:
        unsent: The part of the request that was to go last was not taken.
        kind: What it was.
    """

    unsent: bool = False
    kind: FailKind = FailKind.MESH_LOST


class EngineConnected(msgspec.Struct, frozen=True):
    """The engine's connection stands, and the request's head is on it."""


class EngineTook(msgspec.Struct, frozen=True):
    """The engine's connection took *size* bytes of the body."""

    size: int


class EngineHead(msgspec.Struct, frozen=True):
    """The engine answered; what else the same read held stands here too.

    Attributes:
        ended: The answer is complete.
    """

    status: int
    headers: Headers
    data: bytes = b""
    ended: bool = False


class EngineData(msgspec.Struct, frozen=True):
    """One read of the engine's answer; *ended* when it is complete."""

    data: bytes
    ended: bool = False


class EngineEnd(msgspec.Struct, frozen=True):
    """The engine's answer is complete."""


class EngineFailed(msgspec.Struct, frozen=True):
    """The engine's answer will not come, or not wholly."""

    kind: FailKind
    message: str = ""


class BreakOff(msgspec.Struct, frozen=True):
    """The shell of either half ends the stream, at once."""

    kind: FailKind
    message: str


class Acknowledged(msgspec.Struct, frozen=True):
    """Tell the router: the session has the request."""


class StartEngine(msgspec.Struct, frozen=True):
    """Connect to the engine and send the request's head and the first part of its body."""

    request: Open


class WriteBody(msgspec.Struct, frozen=True):
    """Send a further part of the body to the engine."""

    data: bytes
    more: bool


class AbortEngine(msgspec.Struct, frozen=True):
    """Close the engine's connection, so that it stops generating."""


class PauseEngine(msgspec.Struct, frozen=True):
    """Read nothing more from the engine until told."""


class ResumeEngine(msgspec.Struct, frozen=True):
    """Read from the engine again."""


TICK: Final = Tick()
ACKNOWLEDGED: Final = Acknowledged()
ENGINE_END: Final = EngineEnd()
ABORT_ENGINE: Final = AbortEngine()
PAUSE_ENGINE: Final = PauseEngine()
RESUME_ENGINE: Final = ResumeEngine()

FromSession: TypeAlias = Head | Data | End | Fail | Credit
FromRouter: TypeAlias = Open | Body | Credit | Cancel

CallerEvent: TypeAlias = (
    Frame | Begin | Consumed | Heard | Withdraw | NoResponders | CarrierLost | BreakOff | Tick
)
"""Frames that only a router sends are passed over."""
CallerAction: TypeAlias = FromRouter | Acknowledged | Head | Data | End | Fail
"""Open, Body, Credit and Cancel go to the session; the others are told to the router.

A Head that bears an `end` is a whole answer; what another one bears of data is told once more, as
`Data`.
"""

CalleeEvent: TypeAlias = (
    Frame
    | EngineConnected
    | EngineTook
    | EngineHead
    | EngineData
    | EngineEnd
    | EngineFailed
    | BreakOff
    | CarrierLost
    | Tick
)
"""Frames that only a session sends are passed over."""
CalleeAction: TypeAlias = (
    FromSession | StartEngine | WriteBody | AbortEngine | PauseEngine | ResumeEngine
)
"""Head, Data, End, Fail and Credit go to the router; the others are done to the engine."""
