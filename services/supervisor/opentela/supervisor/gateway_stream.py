"""One request at the gateway: what its `Callee` decides is done to the mesh and to the engine."""

import time
from typing import Final, Protocol, TypeAlias

from opentela.engine import serving
from opentela.engine.serving import Served
from opentela.mesh.data_client import DataClient
from opentela.stream.callee import Callee
from opentela.stream.events import CalleeAction, CalleeEvent, CarrierLost
from opentela.stream.hearing import ASK_EVERY_S
from opentela.stream.loan import ENDED
from opentela.wire import frames
from opentela.wire.frames import Credit, Data, End, Fail, FailKind, Head, Open

Key: TypeAlias = tuple[str, int]
"""Who asks, and the number of the stream there."""
_FOR_ROUTER: Final = (Head, Data, End, Fail, Credit)


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


class Host(serving.Host, serving.Progress, Protocol):
    """The gateway, as its streams see it."""

    def owe(self, key: Key, payload: bytes) -> None:
        """Keep a failure that was not taken until the mesh is back."""

    def finish(self, key: Key, outcome: str) -> None:
        """Forget a stream that has ended."""


class GatewayStream(Served):
    """One request, from its Open to its end."""

    __slots__ = ("_gateway", "_is_held", "_key", "way")

    def __init__(self, gateway: Host, key: Key, way: Way, callee: Callee) -> None:
        super().__init__(gateway, gateway, callee)
        self.way = way
        self._gateway = gateway
        self._key = key
        self._is_held = False

    def begin(self, frame: Open) -> None:
        """Take the Open, which mostly holds the whole request."""
        if self.callee.starts(time.monotonic(), frame):
            self.ask(frame)
        else:
            self.step(frame)

    def step(self, event: CalleeEvent) -> None:
        """Take an event; do what follows from it."""
        for action in self.callee.step(time.monotonic(), event):
            act = self.ACTS.get(type(action))
            if act is None:
                self._send(action)
            else:
                act(self, action)
        if self.callee.ended:
            self._end()

    def take_whole(self, answer: Head) -> None:
        """Send an answer that came whole."""
        self.way.publish(frames.encode(answer))
        self._end()

    def take_part(self, seq: int, data: bytes) -> None:
        """Send a part of an answer that goes on."""
        if not self.way.publish(frames.data(self.callee.stream, seq, data)):
            self.step(CarrierLost())

    def ask(self, request: Open) -> None:
        """Send the request to the engine, and read its answer as fast as the way takes it."""
        super().ask(request)
        if self.way.is_congested:
            super().pause()

    def pause(self) -> None:
        """Read the engine's answer no more: the router has given no credit."""
        self._is_held = True
        super().pause()

    def resume(self) -> None:
        """Read it again, if the way takes it."""
        self._is_held = False
        if not self.way.is_congested:
            super().resume()

    def hold(self) -> None:
        """Read the engine's answer no more while the way is congested."""
        if not self._is_held:
            if self.way.is_congested:
                super().pause()
            else:
                super().resume()

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
            self.outcome = frame.kind if isinstance(frame, Fail) else ENDED
            if not self.way.publish(payload) and is_fail:
                self._gateway.owe(self._key, payload)
        elif not self.way.publish(payload):
            self.step(CarrierLost())

    def _end(self) -> None:
        self.let_go()
        self._gateway.finish(self._key, self.outcome)
