"""What happens to a supervisor: the events that its machine is told of."""

from typing import TypeAlias

import msgspec

from opentela.supervisor.engines.base import EngineLoad, EngineOffer, LoadProgress
from opentela.wire.control import Probe, Verdict


class Tick(msgspec.Struct, frozen=True):
    """Time passed."""


class SessionMade(msgspec.Struct, frozen=True):
    """There is a key for the next session; a nonce tells the sessions of one key apart."""

    key: str


class EngineSpawned(msgspec.Struct, frozen=True):
    """The engine's process runs."""

    launch: int


class EngineExited(msgspec.Struct, frozen=True):
    """The engine itself has ended; what it left is being ended, and `EngineEnded` follows.

    Attributes:
        reason: Why, for people.
    """

    launch: int
    reason: str


class EngineEnded(msgspec.Struct, frozen=True):
    """No process of the engine is left, or none could be started.

    Attributes:
        reason: Why, for people.
        is_hopeless: Trying again would end the same.
    """

    launch: int
    reason: str
    is_hopeless: bool = False


class EngineWrote(msgspec.Struct, frozen=True):
    """The engine wrote to its log."""

    launch: int
    progress: LoadProgress | None = None


class ProbeAnswered(msgspec.Struct, frozen=True):
    """The engine answered a health probe well."""

    launch: int


class ProbeFailed(msgspec.Struct, frozen=True):
    """It refused the connection, or answered with an error."""

    launch: int
    reason: str


class ProbeTimedOut(msgspec.Struct, frozen=True):
    """It did not answer."""

    launch: int


class OfferRead(msgspec.Struct, frozen=True):
    """The engine said what it serves."""

    launch: int
    offer: EngineOffer


class OfferUnread(msgspec.Struct, frozen=True):
    """The engine did not say what it serves."""

    launch: int
    reason: str


class LoadRead(msgspec.Struct, frozen=True):
    """The engine's metrics were read; None when they could not be."""

    launch: int
    load: EngineLoad | None


class Carried(msgspec.Struct, frozen=True):
    """What the gateway carries: requests at the engine, and bytes that came from it so far."""

    running: int
    received: int


class ProbeArrived(msgspec.Struct, frozen=True):
    """A registry asks whether we live, and says which incarnation of us it suspects, if any."""

    probe: Probe
    reply: str


class VerdictArrived(msgspec.Struct, frozen=True):
    """A registry tells what it holds against a session of ours."""

    verdict: Verdict


class MeshJoined(msgspec.Struct, frozen=True):
    """The mesh is reached, at first or again: what we said meanwhile was lost."""


class EndTold(msgspec.Struct, frozen=True):
    """We were told again when our time ends.

    Attributes:
        ends_at: Unix seconds; 0 for never.
    """

    ends_at: float


class Warned(msgspec.Struct, frozen=True):
    """A scheduler warns: our time ends, or it takes the allocation back before."""

    reason: str


class StopAsked(msgspec.Struct, frozen=True):
    """Somebody wants us to leave."""

    reason: str


LifeEvent: TypeAlias = (
    EngineSpawned
    | EngineWrote
    | ProbeAnswered
    | ProbeFailed
    | ProbeTimedOut
    | OfferRead
    | OfferUnread
    | LoadRead
)
EngineEvent: TypeAlias = LifeEvent | EngineExited | EngineEnded
"""Events of one launch; those of an earlier one are late and mean nothing."""
Event: TypeAlias = (
    Tick
    | SessionMade
    | EngineEvent
    | Carried
    | ProbeArrived
    | VerdictArrived
    | MeshJoined
    | EndTold
    | Warned
    | StopAsked
)
