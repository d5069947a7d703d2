"""Commands to agents and their answers are bytes that any version reads."""

import msgspec
import pytest

from opentela.core.errors import WireError
from opentela.core.ids import SessionId
from opentela.wire import command
from opentela.wire.command import (
    COMMAND_BYTES_MAX,
    Command,
    Holding,
    Look,
    Replica,
    Start,
    Stop,
)

START = Start(command="01J", term=7, template="vllm", model="Qwen/Qwen3-8B", tp=2, kv_dtype="fp8")
STOP = Stop(command="01K", term=7, start="01J", reason="demand fell")
REPLICA = Replica(
    start="01J", template="vllm", model="m", tp=2, pp=1, gpus=("0", "1"), state="ready",
    session=SessionId("01S"),
)  # fmt: skip
HOLDING = Holding(command="01J", term=7, hardware="cpu", gpus=("0", "1"), replicas=(REPLICA,))


@pytest.mark.parametrize("message", [START, STOP, Look()], ids=lambda one: type(one).__name__)
def test_a_command_is_read_as_it_was_written(message: Command) -> None:
    """Each kind by its tag."""
    assert command.read_command(command.encode(message)) == message


def test_an_answer_is_read_as_it_was_written() -> None:
    """With the replicas in it."""
    assert command.read_holding(command.encode(HOLDING)) == HOLDING


def test_what_a_newer_version_adds_is_ignored() -> None:
    """And what an older one leaves out has its default."""
    told = msgspec.msgpack.encode(
        {"kind": "start", "command": "c", "term": 1, "template": "t", "model": "m", "colour": "red"}
    )
    assert command.read_command(told) == Start(command="c", term=1, template="t", model="m")


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode({"kind": "start"}),
        msgspec.msgpack.encode({"kind": "dance"}),
        msgspec.msgpack.encode({"kind": "stop", "command": 1, "term": 1, "start": "x"}),
        command.encode(HOLDING),
        b"\x80" * (COMMAND_BYTES_MAX + 1),
    ],
)
def test_what_is_no_command_is_refused(payload: bytes) -> None:
    """Agents count it and go on."""
    with pytest.raises(WireError):
        command.read_command(payload)


@pytest.mark.parametrize("payload", [b"", command.encode(Look()), b"\x80" * 70_000])
def test_what_is_no_answer_is_refused(payload: bytes) -> None:
    """So do placers."""
    with pytest.raises(WireError):
        command.read_holding(payload)


def test_an_answer_of_many_replicas_fits() -> None:
    """As many as an agent runs, with names as long as it takes."""
    one = Replica(
        start="0" * 26, template="t" * 63, model="m" * 256, tp=1, pp=1,
        gpus=("GPU-" + "f" * 36,), state="launching", session=SessionId("1" * 26), reason="r" * 256,
    )  # fmt: skip
    told = command.encode(Holding(replicas=(one,) * 64))
    assert len(told) < COMMAND_BYTES_MAX * 0.8
