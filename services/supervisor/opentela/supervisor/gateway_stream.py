"""One request at the gateway: what its `Callee` decides is done to the mesh and to the engine."""

import time
from collections.abc import Callable
from typing import ClassVar, Final, Protocol, TypeAlias

from opentela.core.errors import WireError
from opentela.core.forecast import tokens_asked
from opentela.engine.connection import AnswerHead
from opentela.engine.curfew import AnswerLength, Curfew
from opentela.engine.pool import EngineHttp, Exchange
from opentela.mesh.data_client import DataClient
from opentela.stream.callee import Callee
from opentela.stream.events import (
    ENGINE_END,
    AbortEngine,
    CalleeAction,
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
from opentela.stream.hearing import ASK_EVERY_S
from opentela.wire import frames
from opentela.wire.frames import Credit, Data, End, Fail, FailKind, Head, Open

Key: TypeAlias = tuple[str, int]
"""Who asks, and the number of the stream there."""
_FOR_ROUTER: Final = (Head, Data, End, Fail, Credit)
_OK: Final = 200
_ENDED: Final = "ended"


class Way(Protocol):
    """What carries the frames of a stream to its router."""

    @property
    def is_congested(self) -> bool:
        """Whether it takes less than is sent."""

    def publish(self, payload: bytes) -> bool:
        """Send a frame; False when it is surely not sent."""


class MeshWay:
    """The mesh, as the way to one router process.

    Attributes:
        answers: Where that listens for us.
    """

    __slots__ = ("_ask_at", "_client", "_echo", "answers")

    def __init__(self, client: DataClient, answers: str, echo: str) -> None:
        self.answers = answers
        self._client = client
        self._echo = echo
        self._ask_at = 0.0

    @property
    def is_congested(self) -> bool:
        """Whether the mesh takes less than is sent."""
        return self._client.is_congested

    def publish(self, payload: bytes) -> bool:
        """Send a frame; False when no connection takes it.

        Now and then one asks for word, on our own subject, when nobody hears it.
        """
        now = time.monotonic()
        if now < self._ask_at:
            return self._client.publish(self.answers, payload)
        self._ask_at = now + ASK_EVERY_S
        return self._client.publish(self.answers, payload, self._echo)

    def ask_again(self, payload: bytes) -> None:
        """Send a frame that asks for such word."""
        self._ask_at = 0.0
        self.publish(payload)


class Host(Protocol):
    """The gateway, as its streams see it."""

    received: int

    @property
    def engine(self) -> EngineHttp:
        """Return the way to the engine."""

    @property
    def curfew(self) -> Curfew:
        """Return until when requests may run."""

    def owe(self, key: Key, payload: bytes) -> None:
        """Keep a failure that was not taken until the mesh is back."""

    def finish(self, key: Key, outcome: str) -> None:
        """Forget a stream that has ended."""


class GatewayStream:
    """One request, from its Open to its end."""

    __slots__ = (
        "_began_at",
        "_exchange",
        "_host",
        "_is_held",
        "_key",
        "_length",
        "_outcome",
        "_tokens_max",
        "callee",
        "way",
    )

    def __init__(self, host: Host, key: Key, way: Way, callee: Callee) -> None:
        self.callee = callee
        self.way = way
        self._host = host
        self._key = key
        self._exchange: Exchange | None = None
        self._is_held = False
        self._outcome: str = FailKind.CANCELLED
        # Read only while an end is known, to learn how long requests take.
        self._length: AnswerLength | None = None
        self._tokens_max = 0
        self._began_at = 0.0

    def begin(self, frame: Open) -> None:
        """Take the Open, which mostly holds the whole request."""
        if self.callee.starts(time.monotonic(), frame):
            self._ask(frame)
        else:
            self.step(frame)

    def step(self, event: CalleeEvent) -> None:
        """Take an event; do what follows from it."""
        for action in self.callee.step(time.monotonic(), event):
            act = self._ACTS.get(type(action))
            if act is None:
                self._send(action)
            else:
                act(self, action)
        if self.callee.ended:
            self._end()

    def _end(self) -> None:
        if self._length is not None and self._outcome == _ENDED:
            duration_s = time.monotonic() - self._began_at
            self._host.curfew.learn(duration_s, self._length, self._tokens_max)
        self._host.finish(self._key, self._outcome)

    def hold(self) -> None:
        """Read the engine's answer no more while the way is congested."""
        if self._exchange is not None and not self._is_held:
            if self.way.is_congested:
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
        if head is not None and self._began_at and head.status == _OK:
            self._length = AnswerLength()
        if self._length is not None:
            self._length.read(data)
        if head is not None:
            timings = self.callee.answers(time.monotonic(), len(data)) if ended else None
            if timings is None:
                self.step(EngineHead(head.status, head.headers, data, ended))
                return
            whole = Head(self.callee.stream, head.status, head.headers, data, timings)
            self._outcome = _ENDED
            self.way.publish(frames.encode(whole))
            self._end()
        elif not data:
            self.step(ENGINE_END)
        elif ended or (seq := self.callee.passes(time.monotonic(), len(data))) < 0:
            self.step(EngineData(data, ended))
        elif not self.way.publish(frames.data(self.callee.stream, seq, data)):
            self.step(CarrierLost())

    def on_failed(self, kind: FailKind, message: str) -> None:
        """The answer will not come, or not wholly."""
        self.step(EngineFailed(kind, message))

    def lose_channel(self, mesh: Way) -> None:
        """Fail for want of the channel; the router hears it over the *mesh*."""
        self.way = mesh
        self.step(CarrierLost(kind=FailKind.CHANNEL_LOST))

    # The rest.

    def _send(self, frame: CalleeAction) -> None:
        assert isinstance(frame, _FOR_ROUTER)
        payload = frames.encode(frame)
        if self.callee.ended:
            is_fail = isinstance(frame, Fail)
            self._outcome = frame.kind if isinstance(frame, Fail) else _ENDED
            if not self.way.publish(payload) and is_fail:
                self._host.owe(self._key, payload)
        elif not self.way.publish(payload):
            self.step(CarrierLost())

    def _start(self, action: StartEngine) -> None:
        self._ask(action.request)

    def _ask(self, request: Open) -> None:
        if self._host.curfew.leave_at:
            self._began_at = time.monotonic()
            self._tokens_max = tokens_asked(request.body)
        try:
            self._exchange = self._host.engine.ask(request, self)
        except WireError as error:
            self.step(EngineFailed(FailKind.REFUSED, str(error)))
            return
        if self.way.is_congested:
            self._exchange.pause()

    def _write(self, action: WriteBody) -> None:
        assert self._exchange is not None
        self._exchange.write(action.data, more=action.more)

    def _abort(self, _: AbortEngine) -> None:
        if self._exchange is not None:
            self._exchange.abort()

    def _pause(self, _: PauseEngine) -> None:
        assert self._exchange is not None
        self._is_held = True
        self._exchange.pause()

    def _resume(self, _: ResumeEngine) -> None:
        assert self._exchange is not None
        self._is_held = False
        if not self.way.is_congested:
            self._exchange.resume()

    _ACTS: ClassVar[dict[type, Callable[..., None]]] = {
        StartEngine: _start,
        WriteBody: _write,
        AbortEngine: _abort,
        PauseEngine: _pause,
        ResumeEngine: _resume,
    }
    """What is done to the engine; every other action is a frame for the router."""
