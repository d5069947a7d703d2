"""One request under way to one session: its `Caller`, and the way that its frames take."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from opentela.mesh.channel import Channel
from opentela.mesh.data_client import DataClient
from opentela.router.ports import StreamSink
from opentela.stream.caller import Caller
from opentela.stream.events import (
    Acknowledged,
    CallerAction,
    CallerEvent,
    CarrierLost,
    Consumed,
    Withdraw,
)
from opentela.telemetry import log as logs
from opentela.wire import frames
from opentela.wire.frames import Body, Cancel, Credit, Data, End, Fail, FailKind, Head, Open

log: Final = logs.get_logger()


class Link(Protocol):
    """The link, as its streams see it."""

    @property
    def client(self) -> DataClient:
        """Return the connection to the mesh."""

    def owe(self, stream: "MeshStream", cancel: Cancel) -> None:
        """Keep a Cancel until the mesh is back."""

    def forget(self, stream: "MeshStream") -> None:
        """Forget a stream that has ended."""


class Route(NamedTuple):
    """Subjects between this process and one session: to it, before a stream's number, from it."""

    subject: str
    reply_prefix: str
    answers: str


class MeshStream:
    """One request under way to one session."""

    __slots__ = (
        "_link",
        "_sink",
        "answers",
        "caller",
        "channel",
        "is_withdrawn",
        "reply",
        "subject",
    )

    def __init__(
        self,
        link: Link,
        caller: Caller,
        sink: StreamSink,
        route: Route,
        channel: Channel | None,
    ) -> None:
        self.caller = caller
        self.channel = channel
        self.subject = route.subject
        self.reply = f"{route.reply_prefix}{caller.stream:016x}"
        self.answers = route.answers
        self.is_withdrawn = False
        self._link = link
        self._sink = sink

    def cancel(self, reason: str) -> None:
        """Stop the engine; the sink hears nothing more. Does nothing when the stream has ended."""
        self.is_withdrawn = True
        self.step(Withdraw(reason))

    def consumed(self, size: int) -> None:
        """Let the session send *size* bytes more."""
        self.step(Consumed(size))

    def step(self, event: CallerEvent) -> None:
        """Take an event; send and tell what follows from it."""
        for action in self.caller.step(time.monotonic(), event):
            tell = _TELL.get(type(action))
            if tell is None:
                self._send(action)
            elif not self.is_withdrawn:
                try:
                    tell(self._sink, action)
                except Exception as error:
                    # A bug above; the session need not work for it, nor others suffer.
                    log.error("stream_sink_failed", error=repr(error), exc_info=error)  # noqa: TRY400
                    self.cancel("the router failed")
        if self.caller.ended:
            self._link.forget(self)

    def _send(self, frame: CallerAction) -> None:
        assert isinstance(frame, Open | Body | Credit | Cancel)
        payload = frames.encode(frame)
        if self.channel is not None:
            if self.channel.publish(payload):
                return
        elif self._link.client.publish(self.subject, payload, self.reply):
            return
        if isinstance(frame, Cancel):
            self._link.owe(self, frame)
        else:
            # In a turn of its own: whoever opens a stream does not hear of it before it has it.
            lost = CarrierLost(unsent=isinstance(frame, Open | Body), kind=self._carrier_kind)
            asyncio.get_running_loop().call_soon(self.step, lost)

    @property
    def _carrier_kind(self) -> FailKind:
        return FailKind.MESH_LOST if self.channel is None else FailKind.CHANNEL_LOST

    def lose_channel(self) -> None:
        """Fail for want of the channel; the session is told over the mesh, if it still listens."""
        self.channel = None
        self._link.client.publish(
            self.subject, frames.encode(Cancel(self.caller.stream, "the channel broke")), self.reply
        )
        self.step(CarrierLost(kind=FailKind.CHANNEL_LOST))


_TELL: Final[dict[type, Callable[..., None]]] = {
    Acknowledged: lambda sink, _: sink.on_ack(),
    Head: lambda sink, head: (
        sink.on_head(head.status, head.headers)
        if head.end is None
        else sink.on_answer(head.status, head.headers, head.data, head.end)
    ),
    Data: lambda sink, data: sink.on_data(data.data),
    End: lambda sink, end: sink.on_end(end.timings),
    Fail: lambda sink, fail: sink.on_fail(fail),
}
"""What a sink is told of; every other action is a frame for the session."""
