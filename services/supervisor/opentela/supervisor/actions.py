"""What a supervisor's machine wants done, in this order, by the shell."""

from typing import NamedTuple, TypeAlias

from opentela.core.record import Claim
from opentela.wire.control import Beat
from opentela.wire.subjects import SessionPath


class MakeSession(NamedTuple):
    """Make a fresh key and answer with `SessionMade`."""


class LaunchEngine(NamedTuple):
    """Start the command; answer with `EngineSpawned` or `EngineEnded`, and once with the latter."""

    launch: int


class StopEngine(NamedTuple):
    """Ask the engine to end, and make it after *term_s*; `EngineEnded` will follow."""

    launch: int
    term_s: float


class ProbeEngine(NamedTuple):
    """Ask for its health; answer with `ProbeAnswered`, `ProbeFailed` or `ProbeTimedOut`."""

    launch: int


class ReadOffer(NamedTuple):
    """Ask what it serves; answer with `OfferRead` or `OfferUnread`."""

    launch: int


class ReadLoad(NamedTuple):
    """Ask how busy it is; answer with `LoadRead`."""

    launch: int


class Announce(NamedTuple):
    """Sign the claim with the key of its session, publish it and keep it for probes."""

    claim: Claim


class SendBeat(NamedTuple):
    """Publish a heartbeat of a session."""

    path: SessionPath
    beat: Beat


class AnswerProbe(NamedTuple):
    """Answer a registry with the latest claim of a session."""

    path: SessionPath
    sequence: int
    reply: str


class OpenGateway(NamedTuple):
    """Take requests for a session."""

    path: SessionPath


class DrainGateway(NamedTuple):
    """Refuse new requests; let the running ones finish."""

    path: SessionPath


class CloseGateway(NamedTuple):
    """Take nothing more; whatever still runs is broken off."""

    path: SessionPath


class RetireGateway(NamedTuple):
    """Refuse new requests, let the running ones finish for *limit_s* at most, then close."""

    path: SessionPath
    limit_s: float


class Exit(NamedTuple):
    """End this process; a *reason* that is not empty is a failure."""

    reason: str = ""


Action: TypeAlias = (
    MakeSession
    | LaunchEngine
    | StopEngine
    | ProbeEngine
    | ReadOffer
    | ReadLoad
    | Announce
    | SendBeat
    | AnswerProbe
    | OpenGateway
    | DrainGateway
    | CloseGateway
    | RetireGateway
    | Exit
)
