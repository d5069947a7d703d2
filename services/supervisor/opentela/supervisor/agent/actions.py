"""What an agent's machine wants done, in this order, by the shell."""

from typing import TypeAlias

import msgspec

from opentela.supervisor.actions import Announce, AnswerProbe, AskEnd, Exit, SendBeat, TellEnd
from opentela.wire.command import Holding
from opentela.wire.subjects import SessionPath


class LaunchReplica(msgspec.Struct, frozen=True):
    """Start a supervisor with the engine; `ReplicaSpoke` and, once, `ReplicaEnded` will follow.

    Attributes:
        start: The command that it is done for.
        launch: Its number; what is said of another is not about this one.
        template: By which the engine is started, for its variables.
        argv: The engine's command.
        gpus: That it may use, and nobody else until it has ended.
        agent: The session that tells who started it.
        ends_at: Of the allocation, Unix seconds; 0 when it does not end.
    """

    start: str
    launch: int
    template: str
    argv: tuple[str, ...]
    gpus: tuple[str, ...]
    agent: str
    ends_at: float


class StopReplica(msgspec.Struct, frozen=True):
    """Let its requests finish and end it, after *term_s* whatever it does."""

    start: str
    launch: int
    term_s: float


class Answer(msgspec.Struct, frozen=True):
    """Tell the placer that asked.

    Attributes:
        kind: Of the command: `start`, `stop` or `look`.
        is_repeated: It was answered before, and nothing was done.
        reply: Where it waits; empty when it does not.
        path: Our session, in whose name we answer.
    """

    kind: str
    is_repeated: bool
    reply: str
    path: SessionPath
    holding: Holding


class TellEnded(msgspec.Struct, frozen=True):
    """Say in the log that a replica has ended for good."""

    start: str
    model: str
    state: str
    reason: str


class TellRelaunch(msgspec.Struct, frozen=True):
    """Say in the log that a supervisor was killed, and is started again in *delay_s*."""

    start: str
    model: str
    reason: str
    delay_s: float


AgentAction: TypeAlias = (
    LaunchReplica
    | StopReplica
    | Answer
    | TellEnded
    | TellRelaunch
    | Announce
    | AnswerProbe
    | SendBeat
    | AskEnd
    | TellEnd
    | Exit
)
