"""One request under way to one session: its `Caller`, and the way that its frames take."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import msgspec

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
from opentela.stream.failures import failure
from opentela.telemetry import log as logs
from opentela.wire import frames
from opentela.wire.frames import Body, Cancel, Credit, Data, End, Fail, FailKind, Head, Open

log: Final = logs.get_logger()

_FOR_SESSION: Final = (Open, Body, Credit, Cancel)


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
        "caller",
        "channel",
        "is_withdrawn",
        "route",
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
        self.route = route
        self.is_withdrawn = False
        self._link = link
        self._sink = sink

    @property
    def reply(self) -> str:
        """The subject that the session's word comes back on, but for who it is from."""
        return f"{self.route.reply_prefix}{self.caller.stream:016x}"

    @property
    def answers(self) -> str:
        """The subject on which nobody but the session may publish."""
        return self.route.answers

    def begin(self) -> None:
        """Send the request."""
        frame = self.caller.begin(time.monotonic())
        if not self._publish(frames.encode(frame)):
            self._lose(frame)

    def cancel(self, reason: str) -> None:
        """Stop the engine; the sink hears nothing more. Does nothing when the stream has ended."""
        self.is_withdrawn = True
        self.step(Withdraw(reason))

    def consumed(self, size: int) -> None:
        """Let the session send *size* bytes more."""
        self.step(Consumed(size))

    def step(self, event: CallerEvent) -> None:
        """Take an event; send and tell what follows from it."""
        now, caller = time.monotonic(), self.caller
        try:
            if type(event) is Data and caller.passes(now, event):
                self._sink.on_data(event.data)
                return
            if type(event) is Head and event.end is not None and caller.answers(event):
                self._link.forget(self)
                self._sink.on_answer(event.status, event.headers, event.data, event.end)
                return
        except Exception as error:  # noqa: BLE001 - it is logged there
            self._sink_failed(error)
            return
        for action in caller.step(now, event):
            tell = TELL.get(type(action))
            if tell is None:
                self._send(action)
                continue
            if self.channel is not None and isinstance(action, Fail):
                action = self._doubted(action, self.channel)  # noqa: PLW2901 - the same, told better
            if not self.is_withdrawn:
                try:
                    tell(self._sink, action)
                except Exception as error:  # noqa: BLE001 - it is logged there
                    self._sink_failed(error)
        if caller.ended:
            self._link.forget(self)

    def _sink_failed(self, error: Exception) -> None:
        # A bug above; the session need not work for it, nor others suffer.
        log.error("stream_sink_failed", error=repr(error), exc_info=error)
        self.cancel("the router failed")

    def _send(self, frame: CallerAction) -> None:
        assert isinstance(frame, _FOR_SESSION)
        if self._publish(frames.encode(frame)):
            return
        if isinstance(frame, Cancel):
            self._link.owe(self, frame)
        else:
            self._lose(frame)

    def _publish(self, payload: bytes) -> bool:
        channel = self.channel
        if channel is not None:
            return channel.publish(payload)
        return self._link.client.publish(self.route.subject, payload, self.reply)

    def _lose(self, frame: Open | Body | Credit) -> None:
        # In a turn of its own: whoever opens a stream does not hear of it before it has it.
        lost = CarrierLost(unsent=isinstance(frame, Open | Body), kind=self._carrier_kind)
        asyncio.get_running_loop().call_soon(self.step, lost)

    def refuse(self, message: str) -> None:
        """Fail before anything was sent, in a turn of its own."""
        fail = failure(self.caller.stream, FailKind.REFUSED, message, may_have_begun=False)
        self.caller.ended = True
        self._link.forget(self)
        asyncio.get_running_loop().call_soon(self._tell_refusal, fail)

    def _tell_refusal(self, fail: Fail) -> None:
        if not self.is_withdrawn:
            self._sink.on_fail(fail)

    def _doubted(self, fail: Fail, channel: Channel) -> Fail:
        """Return *fail*; a channel on which an Open was not acknowledged may itself be dead.

        Then the mesh may still reach the session, and takes what comes next until the channel
        shows life.
        """
        if fail.kind is not FailKind.UNACKNOWLEDGED:
            return fail
        channel.is_doubted = True
        return msgspec.structs.replace(fail, kind=FailKind.CHANNEL_LOST)

    @property
    def _carrier_kind(self) -> FailKind:
        return FailKind.MESH_LOST if self.channel is None else FailKind.CHANNEL_LOST

    def lose_channel(self) -> None:
        """Fail for want of the channel; the session is told over the mesh, if it still listens."""
        self.channel = None
        self._link.client.publish(
            self.route.subject,
            frames.encode(Cancel(self.caller.stream, "the channel broke")),
            self.reply,
        )
        self.step(CarrierLost(kind=FailKind.CHANNEL_LOST))


TELL: Final[dict[type, Callable[..., None]]] = {
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
