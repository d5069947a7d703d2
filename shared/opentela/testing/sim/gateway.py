"""A simulated gateway: the session's half of each stream, between the mesh and the engine."""

from collections.abc import Callable
from typing import Final

from opentela.core.errors import WireError
from opentela.core.ids import SessionId
from opentela.mesh.bus import Message
from opentela.stream.callee import Callee, CalleeSettings
from opentela.stream.events import (
    TICK,
    AbortEngine,
    CalleeAction,
    CalleeEvent,
    CarrierLost,
    EngineData,
    PauseEngine,
    ResumeEngine,
    StartEngine,
    WriteBody,
)
from opentela.stream.failures import failure
from opentela.testing.sim.driver import Driver
from opentela.testing.sim.engine import Job, SimEngine
from opentela.testing.world_node import Node
from opentela.wire import frames, subjects
from opentela.wire.frames import Body, Cancel, Credit, FailKind, Open
from opentela.wire.subjects import SessionPath

_SETTINGS: Final = CalleeSettings()
ENDED_MAX: Final = 1024
"""Streams that are remembered after their end, so that an Open that comes twice starts nothing."""


def _ignore() -> None:
    """Take no notice."""


class SimStream:
    """One stream at a session."""

    def __init__(self, gateway: "SimGateway", frame: Open, answer_to: str) -> None:
        self._gateway = gateway
        self._answer_to = answer_to
        self._job: Job | None = None
        self.callee = Callee(frame.stream, _SETTINGS)
        self._driver = Driver[CalleeEvent, CalleeAction](
            gateway.node,
            f"callee/{gateway.path.session}/{frame.stream}",
            step=self.callee.step,
            perform=self._perform,
            next_deadline=self.callee.next_deadline,
            tick=TICK,
            after=self._settle,
        )

    def feed(self, event: CalleeEvent) -> None:
        """Take an event."""
        if isinstance(event, EngineData):
            self._gateway.received += len(event.data)
        self._driver.feed(event)

    def _settle(self) -> None:
        if self.callee.ended:
            self._driver.stop()
            self._gateway.ended(self.callee.stream)

    def _perform(self, action: CalleeAction) -> None:
        job = self._job
        match action:
            case StartEngine(request=request):
                gateway = self._gateway
                self._job = gateway.engine.start(request, gateway.path.session, self.feed)
            case WriteBody(data=data, more=more):
                assert job is not None
                job.write(data, more=more)
            case AbortEngine():
                if job is not None:
                    job.abort()
            case PauseEngine():
                assert job is not None
                job.pause()
            case ResumeEngine():
                assert job is not None
                job.resume()
            case _:
                self._gateway.node.publish(self._answer_to, frames.encode(action))


class SimGateway:
    """Everything that is under way at one session.

    Attributes:
        is_draining: New requests are refused.
        received: Bytes that came from the engine.
        on_carried: Told that the count of streams has changed.
    """

    def __init__(self, node: Node, path: SessionPath, engine: SimEngine) -> None:
        self.node = node
        self.path = path
        self.engine = engine
        self.is_draining = False
        self.received = 0
        self.on_carried: Callable[[], None] = _ignore
        self.streams: dict[int, SimStream] = {}
        self._ended: dict[int, None] = {}
        self._interest = node.subscribe(subjects.data(path), self._on_message)

    def drain(self) -> None:
        """Refuse what is new."""
        self.is_draining = True

    def close(self) -> None:
        """Break off what still runs, and listen no more."""
        self.node.unsubscribe(self._interest)
        self.lose_carrier()

    def lose_carrier(self) -> None:
        """Let every stream know that its frames are lost from now on."""
        for stream in list(self.streams.values()):
            stream.feed(CarrierLost())

    def ended(self, stream: int) -> None:
        """Forget a stream, but not that it was there."""
        if self.streams.pop(stream, None) is not None:
            self._ended[stream] = None
            self.on_carried()
            if len(self._ended) > ENDED_MAX:
                del self._ended[next(iter(self._ended))]

    def _on_message(self, message: Message) -> None:
        try:
            frame = frames.decode(message.payload)
        except WireError:
            self.node.note(".", "unreadable frame")
            return
        stream = self.streams.get(frame.stream)
        if stream is None and isinstance(frame, Open) and frame.stream not in self._ended:
            answer_to = _answer_to(message.reply, self.path.session)
            if self.is_draining:
                fail = failure(frame.stream, FailKind.REFUSED, "draining", may_have_begun=False)
                self.node.publish(answer_to, frames.encode(fail))
                return
            stream = self.streams[frame.stream] = SimStream(self, frame, answer_to)
            self.on_carried()
        if stream is not None and isinstance(frame, Open | Body | Credit | Cancel):
            stream.feed(frame)


def _answer_to(reply: str, session: SessionId) -> str:
    return f"{reply.rpartition('.')[0]}.{session}"
