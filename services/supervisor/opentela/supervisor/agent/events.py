"""What happens to an agent: the events that its machine is told of."""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from opentela.core.ids import SessionId
from opentela.supervisor.events import (
    EndTold,
    MeshJoined,
    ProbeArrived,
    StopAsked,
    Tick,
    VerdictArrived,
    Warned,
)
from opentela.wire.command import Command


class Listening(msgspec.Struct, frozen=True):
    """Commands to this session of ours are heard from now on."""

    session: SessionId


class CommandArrived(msgspec.Struct, frozen=True):
    """A placer told us something, and waits for the answer at *reply*."""

    command: Command
    reply: str


class ReplicaSpoke(msgspec.Struct, frozen=True):
    """A replica's supervisor says how its engine is.

    Attributes:
        state: Of the engine's life.
        session: Of the engine that runs now, or of the last one.
        reason: Of what the session says of itself; empty while all is well.
    """

    start: str
    launch: int
    state: str
    session: SessionId
    reason: str


class Ended(StrEnum):
    """How a replica's supervisor ended."""

    IN_ORDER = "in_order"  # it left, as it was told or as it had planned
    GAVE_UP = "gave_up"  # its engine failed for good
    KILLED = "killed"  # something ended it; its engine was none the worse


class ReplicaEnded(msgspec.Struct, frozen=True):
    """No process of a replica is left: its GPUs are free."""

    start: str
    launch: int
    how: Ended
    reason: str


class ReplicaStuck(msgspec.Struct, frozen=True):
    """Processes of a replica do not end; its GPUs are held until they do."""

    start: str
    launch: int
    reason: str


AgentEvent: TypeAlias = (
    Tick
    | Listening
    | CommandArrived
    | ReplicaSpoke
    | ReplicaEnded
    | ReplicaStuck
    | ProbeArrived
    | VerdictArrived
    | MeshJoined
    | EndTold
    | Warned
    | StopAsked
)
