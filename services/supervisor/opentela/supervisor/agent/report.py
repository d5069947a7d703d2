"""What a replica's supervisor tells its agent, through a pipe that it was started with."""

import contextlib
import os
from collections.abc import Callable
from typing import Final

import msgspec

from opentela.core.errors import ConfigError
from opentela.supervisor.engine_state import EngineState
from opentela.supervisor.machine import Machine

LINE_BYTES_MAX: Final = 2048
"""Below what a pipe takes as one, so that no line is cut."""
_REASON_CHARACTERS_MAX: Final = 256


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine is, and in which session."""

    state: str
    session: str = ""
    reason: str = ""


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Report).decode


def read(line: bytes) -> Report:
    """Return the report in *line*.

    Raises:
        msgspec.DecodeError: It is none.
    """
    return _decode(line)


class Reporter:
    """Writes a line whenever there is news.

    Args:
        descriptor: Of the pipe.

    Raises:
        ConfigError: There is no such pipe.
    """

    def __init__(self, descriptor: int) -> None:
        try:
            # The engine has no business with it; and nobody waits for an agent that does not read.
            os.set_inheritable(descriptor, False)  # noqa: FBT003 - takes no keyword
            os.set_blocking(descriptor, False)
        except OSError as error:
            raise ConfigError(
                f"--report-fd {descriptor}: {os.strerror(error.errno or 0)}",
                remedy="omit it: otela agent uses it",
            ) from error
        self._descriptor = descriptor
        self._said = Report(state="")

    def beside(
        self, on_ready: Callable[[bool, str], None], machine: Machine
    ) -> Callable[[bool, str], None]:
        """Return what tells of *machine* whenever *on_ready* is called, after it."""

        def told(flag: bool, reason: str) -> None:  # noqa: FBT001 - reads as a fact
            on_ready(flag, reason)
            self.tell(machine)

        return told

    def tell(self, machine: Machine) -> None:
        """Say how the engine of *machine* is, if that has changed."""
        claim = machine.session.claim if machine.session else None
        reason = machine.leaving or (claim.reason if claim else "")
        is_going = machine.state is EngineState.DRAINING and not machine.leaving
        # What ends while its supervisor stays is about to be started again: nothing drains.
        state = EngineState.STOPPED if is_going else machine.state
        report = Report(
            state=state.value,
            session=claim.session if claim else "",
            reason=reason[:_REASON_CHARACTERS_MAX],
        )
        if report != self._said:
            # An agent that is gone is the guardian's business.
            with contextlib.suppress(BrokenPipeError, BlockingIOError):
                os.write(self._descriptor, _encode(report) + b"\n")
                self._said = report
