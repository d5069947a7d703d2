"""One request at an engine: what its `Callee` decides is done there, and what comes is told to it.

What carries the frames is a matter of who builds on this: a gateway sends them, a router to which
the engine is lent hands them to its own half of the stream.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Protocol

from opentela.core.errors import WireError
from opentela.core.forecast import tokens_asked
from opentela.engine.connection import AnswerHead
from opentela.engine.curfew import AnswerLength, Curfew
from opentela.engine.pool import EngineHttp, Exchange
from opentela.stream.callee import Callee
from opentela.stream.events import (
    ENGINE_END,
    AbortEngine,
    CalleeEvent,
    EngineConnected,
    EngineData,
    EngineFailed,
    EngineHead,
    EngineTook,
    PauseEngine,
    ResumeEngine,
    StartEngine,
    WriteBody,
)
from opentela.stream.loan import ENDED
from opentela.wire.frames import FailKind, Head, Open

_OK: Final = 200


class Progress(Protocol):
    """Who counts the bytes that come from an engine."""

    received: int


class Host(Protocol):
    """Who keeps the streams to one engine."""

    @property
    def engine(self) -> EngineHttp:
        """Return the way to the engine."""

    @property
    def curfew(self) -> Curfew:
        """Return until when requests may run."""


class Served(ABC):
    """One request at an engine.

    Attributes:
        callee: The session's half of its stream.
        outcome: How it ended, as it is counted.
    """

    __slots__ = (
        "_began_at",
        "_exchange",
        "_host",
        "_length",
        "_progress",
        "_tokens_max",
        "callee",
        "outcome",
    )

    def __init__(self, host: Host, progress: Progress, callee: Callee) -> None:
        self.callee = callee
        self.outcome: str = FailKind.CANCELLED
        self._host = host
        self._progress = progress
        self._exchange: Exchange | None = None
        # Only while an end is known, to learn how long requests take.
        self._began_at = 0.0
        self._length: AnswerLength | None = None
        self._tokens_max = 0

    @abstractmethod
    def step(self, event: CalleeEvent) -> None:
        """Take an event; do what follows from it."""

    @abstractmethod
    def take_whole(self, answer: Head) -> None:
        """Pass on an answer that came whole, with which the stream has ended."""

    @abstractmethod
    def take_part(self, seq: int, data: bytes) -> None:
        """Pass on a part of an answer that goes on."""

    # What the exchange with the engine calls, and never while an event is being dealt with but for
    # `on_took`.

    def on_connected(self) -> None:
        """The request's head is on its way."""
        self.step(EngineConnected())

    def on_took(self, size: int) -> None:
        """The engine's socket took a part of the body."""
        self.step(EngineTook(size))

    def on_read(self, head: AnswerHead | None, data: bytes, *, ended: bool) -> None:
        """One read of the answer: its frames leave together."""
        callee, size = self.callee, len(data)
        self._progress.received += size
        if self._began_at:
            self._measure(head, data)
        if head is not None:
            timings = callee.answers(time.monotonic(), size) if ended else None
            if timings is None:
                self.step(EngineHead(head.status, head.headers, data, ended))
            else:
                self.outcome = ENDED
                self.take_whole(Head(callee.stream, head.status, head.headers, data, timings))
        elif not data:
            self.step(ENGINE_END)
        elif ended or (seq := callee.passes(time.monotonic(), size)) < 0:
            self.step(EngineData(data, ended))
        else:
            self.take_part(seq, data)

    def on_failed(self, kind: FailKind, message: str) -> None:
        """The answer will not come, or not wholly."""
        self.step(EngineFailed(kind, message))

    # What is done to the engine.

    def ask(self, request: Open) -> None:
        """Send the request, or what has come of it."""
        if self._host.curfew.leave_at:
            self._began_at = time.monotonic()
            self._tokens_max = tokens_asked(request.body)
        try:
            self._exchange = self._host.engine.ask(request, self)
        except WireError as error:
            self.step(EngineFailed(FailKind.REFUSED, str(error)))

    def pause(self) -> None:
        """Read the engine's answer no more."""
        if self._exchange is not None:
            self._exchange.pause()

    def resume(self) -> None:
        """Read it again."""
        if self._exchange is not None:
            self._exchange.resume()

    def let_go(self) -> None:
        """Turn from the engine, for the stream has ended; learn how long it took if it went well.

        What holds the exchange is held by it: until somebody looks for such circles, they stay.
        """
        self._exchange = None
        if self._length is not None and self.outcome == ENDED:
            duration_s = time.monotonic() - self._began_at
            self._host.curfew.learn(duration_s, self._length, self._tokens_max)
            self._length = None

    # The rest.

    def _measure(self, head: AnswerHead | None, data: bytes) -> None:
        if head is not None and head.status == _OK:
            self._length = AnswerLength()
        if self._length is not None:
            self._length.read(data)

    def _start(self, action: StartEngine) -> None:
        self.ask(action.request)

    def _write(self, action: WriteBody) -> None:
        assert self._exchange is not None
        self._exchange.write(action.data, more=action.more)

    def _abort(self, _: AbortEngine) -> None:
        if self._exchange is not None:
            self._exchange.abort()

    ACTS: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        StartEngine: _start,
        WriteBody: _write,
        AbortEngine: _abort,
        PauseEngine: lambda self, _: self.pause(),
        ResumeEngine: lambda self, _: self.resume(),
    }
    """What is done to the engine; every other action is a frame for the router."""
