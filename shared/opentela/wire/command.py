"""What a placer tells an agent to run, and what the agent answers; as msgpack.

`otela.v1.command.<p>.<s>.<agent>`, request and reply. An agent is a session without models, so the
last token is its session id; the engines that it runs are sessions of their own, whose offers carry
the labels `COMMAND` and `AGENT`. Nothing here is a command line: what an engine is started with
stands in the agent's own templates, and a placer can only name one and fill in its values.

A command is done at most once: an agent answers a repeated one as it answered the first time. It
takes none of a term older than the latest that it heard, so that a placer that lost its lease and
does not know it yet changes nothing any more. Unknown fields are ignored.
"""

from typing import Final, TypeAlias

import msgspec

from opentela.core.errors import WireError
from opentela.core.ids import SessionId

ENGINE: Final = "agent"
"""What the offer of an agent's session names as its engine; it has no models, and no requests come
to it."""
TEMPLATES: Final = "otela.templates"
"""Label of an agent's session: the templates that a `Start` may name, separated by commas."""
COMMAND: Final = "otela.command"
"""Label of a session: the `Start` that it was made by."""
AGENT: Final = "otela.agent"
"""Label of a session: that of the agent which ran it at its start; an agent that was given up by
registries goes on as another session."""
COMMAND_BYTES_MAX: Final = 64 * 1024
"""A `Holding` of 64 replicas with long names is a fourth of it."""


class Start(msgspec.Struct, frozen=True, kw_only=True, tag="start", tag_field="kind"):
    """Run one replica of a model.

    Attributes:
        command: A ULID of the placer's making.
        term: Of the lease under which the placer leads; grows with every leader.
        template: Of the agent, such as `vllm`.
        model: As the engine is to load it, for example `Qwen/Qwen3-8B`.
        tp, pp: Tensor parallelism and pipeline stages; the replica holds `tp · pp` GPUs.
        quantisation, kv_dtype: Empty for the template's own.
        context_max: Tokens; 0 for the template's own.
    """

    command: str
    term: int
    template: str
    model: str
    tp: int = 1
    pp: int = 1
    quantisation: str = ""
    kv_dtype: str = ""
    context_max: int = 0


class Stop(msgspec.Struct, frozen=True, kw_only=True, tag="stop", tag_field="kind"):
    """Drain a replica and end it.

    Attributes:
        start: The command that started it, which names it whatever its session is by now.
    """

    command: str
    term: int
    start: str
    reason: str = ""


class Look(msgspec.Struct, frozen=True, kw_only=True, tag="look", tag_field="kind"):
    """Say what you hold; starts and stops nothing.

    Whoever hears of a later term takes no command of an older one any more. So what a placer sent
    before it lost its lease is done before this is answered, or not at all.

    Attributes:
        term: Of the lease under which the placer leads; 0 when it only looks.
    """

    term: int = 0


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent runs for one `Start`, from the answer on until its GPUs are free again.

    Attributes:
        gpus: Indices or UUIDs, as the agent gives them to the engine; no two replicas share one.
        state: Of the engine's life: `launching`, `loading`, `ready`, `draining`, `stopped`,
            `failed`; the last two are told for some minutes and hold nothing.
        session: Of the engine that runs now; a restarted engine is another session.
        reason: Why it is draining or has ended, for people.
    """

    start: str
    template: str
    model: str
    tp: int
    pp: int
    gpus: tuple[str, ...]
    state: str
    session: SessionId = SessionId("")
    reason: str = ""


class Holding(msgspec.Struct, frozen=True, kw_only=True, tag="holding", tag_field="kind"):
    """An agent's answer to each command: whether it does it, and what it holds then.

    Attributes:
        command: That is answered; empty for a `Look`.
        accepted: Whether it is done, or was when it was first said.
        reason: Why not, for people; names what is missing.
        term: The latest that the agent heard.
        hardware: GPU name, or `cpu`.
        gpus: All that the allocation has.
        walltime_ends_at: Unix seconds; 0 when it does not end.
        templates: That a `Start` may name.
    """

    command: str = ""
    accepted: bool = True
    reason: str = ""
    term: int = 0
    hardware: str = ""
    gpus: tuple[str, ...] = ()
    walltime_ends_at: float = 0.0
    templates: tuple[str, ...] = ()
    replicas: tuple[Replica, ...] = ()


Command: TypeAlias = Start | Stop | Look

_encode: Final = msgspec.msgpack.Encoder().encode
_command: Final = msgspec.msgpack.Decoder(Start | Stop | Look)
_holding: Final = msgspec.msgpack.Decoder(Holding)


def encode(message: Command | Holding) -> bytes:
    """Return the bytes of a command or of the answer to one."""
    return _encode(message)


def read_command(payload: bytes) -> Command:
    """Return the command in *payload*.

    Raises:
        WireError: Too large, or no command that this version knows.
    """
    _check(payload)
    try:
        command: Command = _command.decode(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise WireError(str(error)) from error
    return command


def read_holding(payload: bytes) -> Holding:
    """Return the answer in *payload*.

    Raises:
        WireError: Too large, or not an agent's answer.
    """
    _check(payload)
    try:
        return _holding.decode(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise WireError(str(error)) from error


def _check(payload: bytes) -> None:
    if len(payload) > COMMAND_BYTES_MAX:
        raise WireError(f"a command or answer of {len(payload)} bytes is too large")
