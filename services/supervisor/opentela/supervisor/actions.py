"""What a supervisor's machine wants done, in this order, by the shell."""

from typing import TypeAlias

import msgspec

from opentela.core.record import Claim
from opentela.wire.control import Beat
from opentela.wire.subjects import SessionPath


class MakeSession(msgspec.Struct, frozen=True):
    """Answer with `SessionMade`: the key under which the next session is claimed."""


class LaunchEngine(msgspec.Struct, frozen=True):
    """Start the command; answer with `EngineSpawned` or `EngineEnded`, and once with the latter."""

    launch: int


class StopEngine(msgspec.Struct, frozen=True):
    """Ask the engine to end, and make it after *term_s*; `EngineEnded` will follow."""

    launch: int
    term_s: float


class ProbeEngine(msgspec.Struct, frozen=True):
    """Ask for its health; answer with `ProbeAnswered`, `ProbeFailed` or `ProbeTimedOut`."""

    launch: int


class ReadOffer(msgspec.Struct, frozen=True):
    """Ask what it serves; answer with `OfferRead` or `OfferUnread`."""

    launch: int


class ReadLoad(msgspec.Struct, frozen=True):
    """Ask how busy it is; answer with `LoadRead`."""

    launch: int


class AskEnd(msgspec.Struct, frozen=True):
    """Ask when our time ends; answer with `EndTold` if anybody knows."""


class TellEnd(msgspec.Struct, frozen=True):
    """Say in the log that our time ends at another moment than it was planned for.

    Attributes:
        ends_at: Unix seconds; 0 for never.
    """

    ends_at: float


class TellUnread(msgspec.Struct, frozen=True):
    """Say in the log that its models cannot be read, and why; it is asked again all the same.

    Attributes:
        failures: So many reads in a row.
    """

    launch: int
    reason: str
    failures: int


class TellLeftOut(msgspec.Struct, frozen=True):
    """Say in the log which of its models are not offered, for want of room in a claim."""

    launch: int
    models: tuple[str, ...]


class Announce(msgspec.Struct, frozen=True):
    """Sign the claim with the key of its session, publish it and keep it for probes."""

    claim: Claim


class SendBeat(msgspec.Struct, frozen=True):
    """Publish a heartbeat of a session."""

    path: SessionPath
    beat: Beat


class AnswerProbe(msgspec.Struct, frozen=True):
    """Answer a registry with the latest claim of a session."""

    path: SessionPath
    sequence: int
    reply: str


class OpenGateway(msgspec.Struct, frozen=True):
    """Take requests for a session."""

    path: SessionPath


class DrainGateway(msgspec.Struct, frozen=True):
    """Refuse new requests; let the running ones finish."""

    path: SessionPath


class CloseGateway(msgspec.Struct, frozen=True):
    """Take nothing more; whatever still runs is broken off."""

    path: SessionPath


class RetireGateway(msgspec.Struct, frozen=True):
    """Refuse new requests, let the running ones finish for *limit_s* at most, then close."""

    path: SessionPath
    limit_s: float


class Exit(msgspec.Struct, frozen=True):
    """End this process; a *reason* that is not empty is a failure."""

    reason: str = ""


Action: TypeAlias = (
    MakeSession
    | LaunchEngine
    | StopEngine
    | ProbeEngine
    | ReadOffer
    | ReadLoad
    | AskEnd
    | TellEnd
    | TellUnread
    | TellLeftOut
    | Announce
    | SendBeat
    | AnswerProbe
    | OpenGateway
    | DrainGateway
    | CloseGateway
    | RetireGateway
    | Exit
)
