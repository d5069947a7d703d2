"""One request at the gateway: what its `Callee` decides is done to the mesh and to the engine."""

import time
from typing import Protocol, TypeAlias

from opentela.core.errors import WireError
from opentela.stream.callee import Callee
from opentela.stream.events import (
    ENGINE_END,
    AbortEngine,
    CalleeEvent,
    CarrierLost,
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
from opentela.supervisor.engine_connection import AnswerHead
from opentela.supervisor.engine_http import EngineHttp, Exchange
from opentela.wire.frames import Credit, Data, End, Fail, FailKind, Frame, Head, Open

Key: TypeAlias = tuple[str, int]
"""Who asks, and the number of the stream there."""


class Host(Protocol):
    """The gateway, as its streams see it."""

    received: int

    @property
    def engine(self) -> EngineHttp:
        """Return the way to the engine."""

    @property
    def is_congested(self) -> bool:
        """Return whether the mesh takes less than the engine gives."""

    def send(self, answers: str, frame: Frame) -> bool:
        """Publish a frame of a stream; False when it is not taken."""

    def finish(self, key: Key, outcome: str) -> None:
        """Forget a stream that has ended."""


class GatewayStream:
    """One request, from its Open to its end."""

    __slots__ = ("_answers", "_exchange", "_host", "_is_held", "_key", "_outcome", "callee")

    def __init__(self, host: Host, key: Key, answers: str, callee: Callee) -> None:
        self.callee = callee
        self._host = host
        self._key = key
        self._answers = answers
        self._exchange: Exchange | None = None
        self._is_held = False
        self._outcome: str = FailKind.CANCELLED

    def step(self, event: CalleeEvent) -> None:
        """Take an event; do what follows from it."""
        for action in self.callee.step(time.monotonic(), event):
            if isinstance(action, Head | Data | End | Fail | Credit):
                self._send(action)
            else:
                self._act(action)
        if self.callee.ended:
            self._host.finish(self._key, self._outcome)

    def hold(self, *, is_congested: bool) -> None:
        """Read the engine's answer no more while the mesh is congested."""
        if self._exchange is not None and not self._is_held:
            if is_congested:
                self._exchange.pause()
            else:
                self._exchange.resume()

    # What the exchange with the engine calls.

    def on_connected(self) -> None:
        """The request's head is on its way."""
        self.step(EngineConnected())

    def on_took(self, size: int) -> None:
        """The engine's socket took a part of the body."""
        self.step(EngineTook(size))

    def on_read(self, head: AnswerHead | None, data: bytes, *, ended: bool) -> None:
        """One read of the answer: its frames leave together."""
        self._host.received += len(data)
        if head is not None:
            self.step(EngineHead(head.status, head.headers, data, ended))
        elif data:
            self.step(EngineData(data, ended))
        else:
            self.step(ENGINE_END)

    def on_failed(self, kind: FailKind, message: str) -> None:
        """The answer will not come, or not wholly."""
        self.step(EngineFailed(kind, message))

    # The rest.

    def _send(self, frame: Head | Data | End | Fail | Credit) -> None:
        if isinstance(frame, Fail):
            self._outcome = frame.kind
        elif isinstance(frame, End) or (isinstance(frame, Head) and frame.end is not None):
            self._outcome = "ended"
        if not self._host.send(self._answers, frame):
            # What comes after the end is passed over.
            self.step(CarrierLost())

    def _act(
        self, action: StartEngine | WriteBody | AbortEngine | PauseEngine | ResumeEngine
    ) -> None:
        exchange = self._exchange
        match action:
            case StartEngine(request=request):
                self._start(request)
            case WriteBody(data=data, more=more):
                assert exchange is not None
                exchange.write(data, more=more)
            case AbortEngine():
                if exchange is not None:
                    exchange.abort()
            case PauseEngine():
                assert exchange is not None
                self._is_held = True
                exchange.pause()
            case ResumeEngine():
                assert exchange is not None
                self._is_held = False
                if not self._host.is_congested:
                    exchange.resume()

    def _start(self, request: Open) -> None:
        try:
            self._exchange = self._host.engine.ask(request, self)
        except WireError as error:
            self.step(EngineFailed(FailKind.REFUSED, str(error)))
            return
        if self._host.is_congested:
            self._exchange.pause()
