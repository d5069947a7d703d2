"""A simulated gateway: the session's half of each stream, between the mesh and the engine."""

from collections.abc import Callable
from typing import Final, TypeAlias

from opentela.core.errors import WireError
from opentela.mesh.bus import Message
from opentela.stream.callee import Callee, CalleeSettings
from opentela.stream.events import (
    TICK,
    AbortEngine,
    BreakOff,
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
from opentela.wire.frames import (
    Body,
    Cancel,
    Credit,
    Data,
    End,
    Fail,
    FailKind,
    Head,
    Open,
)
from opentela.wire.subjects import SessionPath

Key: TypeAlias = tuple[str, int]
"""Where a stream is answered, and its number there."""

_SETTINGS: Final = CalleeSettings()
ENDED_MAX: Final = 1024
"""Streams that are remembered after their end, so that an Open that comes twice starts nothing."""


def _ignore() -> None:
    """Take no notice."""


class SimStream:
    """One stream at a session."""

    def __init__(self, gateway: "SimGateway", key: Key) -> None:
        self._gateway = gateway
        self._key = key
        self._answer_to, number = key
        self._job: Job | None = None
        self.callee = Callee(number, _SETTINGS)
        self._driver = Driver[CalleeEvent, CalleeAction](
            gateway.node,
            f"callee/{gateway.path.session}/{number}",
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
            self._gateway.ended(self._key)

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
                self._send(action)

    def _send(self, frame: Head | Data | End | Fail | Credit) -> None:
        payload = frames.encode(frame)
        if self._gateway.node.publish(self._answer_to, payload):
            return
        if isinstance(frame, Fail):
            self._gateway.owed.append((self._answer_to, payload))
        else:
            self._driver.feed(CarrierLost())


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
        self.streams: dict[Key, SimStream] = {}
        self.owed: list[tuple[str, bytes]] = []
        self._ended: dict[Key, None] = {}
        self._interest = node.subscribe(subjects.data(path), self._on_message)

    def drain(self) -> None:
        """Refuse what is new."""
        self.is_draining = True

    def close(self) -> None:
        """Break off what still runs, and listen no more."""
        self.is_draining = True
        self.node.unsubscribe(self._interest)
        for stream in list(self.streams.values()):
            stream.feed(BreakOff(FailKind.ENGINE_LOST, "the session ended"))

    def lose_carrier(self) -> None:
        """Let every stream know that its frames are lost from now on."""
        for stream in list(self.streams.values()):
            stream.feed(CarrierLost())

    def regain_carrier(self) -> None:
        """Tell routers what could not be told."""
        owed, self.owed = self.owed, []
        for answer_to, payload in owed:
            self.node.publish(answer_to, payload)

    def ended(self, key: Key) -> None:
        """Forget a stream, but not that it was there."""
        if self.streams.pop(key, None) is not None:
            self._remember(key)
            self.on_carried()

    def _remember(self, key: Key) -> None:
        self._ended[key] = None
        if len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]

    def _on_message(self, message: Message) -> None:
        try:
            frame = frames.decode(message.payload)
            answer_to = subjects.answer(message.reply, self.path)
        except WireError as error:
            self.node.note(".", f"refused: {error}")
            return
        key = (answer_to, frame.stream)
        stream = self.streams.get(key)
        if stream is None:
            if not isinstance(frame, Open) or key in self._ended:
                # Its Open may yet come, late, and must start nothing.
                self._remember(key)
                return
            if self.is_draining:
                self._refuse(key)
                return
            stream = self.streams[key] = SimStream(self, key)
            self.on_carried()
        if isinstance(frame, Open | Body | Credit | Cancel):
            stream.feed(frame)

    def _refuse(self, key: Key) -> None:
        self._remember(key)
        fail = failure(key[1], FailKind.REFUSED, "draining", may_have_begun=False)
        self.node.publish(key[0], frames.encode(fail))
