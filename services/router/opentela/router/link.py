"""The router's link to all sessions: one `Caller` a stream, over one subscription.

Called on the loop and calling back on it: no task for a request, one timer for all. An answer is
taken only on the subject on which nobody but the asked session may publish.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from opentela.core.errors import WireError
from opentela.core.rng import Rng
from opentela.mesh.data_client import DataClient
from opentela.mesh.nats_wire import Message
from opentela.mesh.seldom import Seldom
from opentela.mesh.stream_timer import StreamTimer
from opentela.router.ports import StreamSink
from opentela.stream.caller import Caller, CallerSettings, Request
from opentela.stream.events import (
    TICK,
    Acknowledged,
    Begin,
    CallerAction,
    CallerEvent,
    CarrierLost,
    Consumed,
    NoResponders,
    Withdraw,
)
from opentela.telemetry import log as logs
from opentela.telemetry import metrics
from opentela.wire import frames, subjects
from opentela.wire.frames import Body, Cancel, Credit, Data, End, Fail, Head, Headers, Open
from opentela.wire.subjects import SessionPath

log: Final = logs.get_logger()

INSTANCE_BYTES: Final = 8
"""Of the token that names this process among those of one router."""
CANCELS_KEPT_MAX: Final = 4096
"""Sessions to be told, once the mesh is back, that nobody waits; one for each stream that ran."""

ROUTES_MAX: Final = 4096
"""Sessions whose subjects are remembered; more than a mesh has at one time."""
GRAIN_S: Final = 0.05
"""How finely the acknowledgement time-out of half a second is kept."""

_TAIL: Final = "0"
_late: Final = metrics.counter(
    "otela_router_frames_late_total", "Frames of streams that had ended; some are normal."
)
_strange: Final = metrics.counter(
    "otela_router_frames_rejected_total",
    "Frames that could not be read, or not from who was asked.",
)

_BEGIN: Final = Begin()


class Route(NamedTuple):
    """Subjects between this process and one session: to it, before a stream's number, from it."""

    subject: str
    reply_prefix: str
    answers: str


class MeshStream:
    """One request under way to one session."""

    __slots__ = ("_link", "_sink", "answers", "caller", "is_withdrawn", "reply", "subject")

    def __init__(self, link: "MeshLink", caller: Caller, sink: StreamSink, route: Route) -> None:
        self.caller = caller
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
        if self._link.client.publish(self.subject, frames.encode(frame), self.reply):
            return
        if isinstance(frame, Cancel):
            self._link.owe(self, frame)
        else:
            # In a turn of its own: whoever opens a stream does not hear of it before it has it.
            lost = CarrierLost(unsent=isinstance(frame, Open | Body))
            asyncio.get_running_loop().call_soon(self.step, lost)


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


class MeshLink:
    """The way to all sessions, over the mesh.

    Args:
        client: Its connection.
        role: The router's name, which its answers' subjects bear.
        rng: Draws what tells this process from others of that name; a secret is not needed, as
            the servers let nobody else listen.
    """

    def __init__(
        self,
        client: DataClient,
        *,
        role: str,
        rng: Rng,
        settings: CallerSettings | None = None,
    ) -> None:
        self.client: Final = client
        self._role = role
        self._instance = rng.randbytes(INSTANCE_BYTES).hex()
        self._last_stream = int.from_bytes(rng.randbytes(4), "big") << 32
        self._settings = settings or CallerSettings()
        self._streams: dict[int, MeshStream] = {}
        self._routes: dict[SessionPath, Route] = {}
        self._owed: list[tuple[str, bytes, str]] = []
        self._timer: StreamTimer[int] | None = None
        self._sid = 0
        self._logs_rejection = Seldom()

    @property
    def in_flight(self) -> int:
        """Return the streams under way."""
        return len(self._streams)

    async def start(self) -> None:
        """Listen for answers; the nearest server of the mesh knows when this returns.

        Raises:
            MeshUnavailableError: There is no connection. The interest is kept for the next one.
        """
        self._timer = StreamTimer(GRAIN_S, self._deadline_of, self._tick)
        self.client.watch(self)
        self._sid = self.client.subscribe(
            subjects.replies(self._role, self._instance),
            self._on_message,
            on_no_responders=self._on_no_responders,
        )
        await self.client.round_trip()

    def open(
        self,
        path: SessionPath,
        *,
        method: str,
        path_and_query: str,
        headers: Headers,
        body: bytes,
        deadline_s: float,
        trace: str,
        sink: StreamSink,
    ) -> MeshStream:
        """Send a request; everything that follows is told to *sink*, after this call."""
        assert self._timer is not None, "the link is not started"
        self._last_stream += 1
        number = self._last_stream
        request = Request(
            method=method,
            path=path_and_query,
            headers=headers,
            body=body,
            deadline_s=deadline_s,
            trace=trace,
        )
        route = self._routes.get(path) or self._learn(path)
        stream = MeshStream(self, Caller(number, request, self._settings), sink, route)
        self._streams[number] = stream
        stream.step(_BEGIN)
        self._timer.add(number)
        return stream

    def close(self) -> None:
        """Withdraw every stream, and listen no more."""
        for stream in tuple(self._streams.values()):
            stream.cancel("the router ended")
        if self._timer is not None:
            self._timer.close()
            self._timer = None
            self.client.unwatch(self)
            self.client.unsubscribe(self._sid)

    # What the mesh calls.

    def on_mesh(self, *, connected: bool) -> None:
        """Fail what is under way without a mesh; tell the sessions when it is back."""
        if not connected:
            for stream in tuple(self._streams.values()):
                self.owe(stream, Cancel(stream.caller.stream, "the router lost the mesh"))
                stream.step(CarrierLost())
            return
        owed, self._owed = self._owed, []
        for subject, payload, reply in owed:
            self.client.publish(subject, payload, reply)

    def on_congested(self, *, congested: bool) -> None:
        """Do nothing: credit bounds what is sent to each session."""

    # What a stream calls.

    def owe(self, stream: MeshStream, cancel: Cancel) -> None:
        """Keep a Cancel until the mesh is back."""
        if len(self._owed) < CANCELS_KEPT_MAX:
            self._owed.append((stream.subject, frames.encode(cancel), stream.reply))

    def forget(self, stream: MeshStream) -> None:
        """Forget a stream that has ended."""
        self._streams.pop(stream.caller.stream, None)

    # The rest.

    def _learn(self, path: SessionPath) -> Route:
        if len(self._routes) >= ROUTES_MAX:
            self._routes.clear()
        reply = subjects.reply(self._role, path.provider, self._instance, _TAIL)
        route = Route(subjects.data(path), reply.removesuffix(_TAIL), subjects.answer(reply, path))
        self._routes[path] = route
        return route

    def _on_message(self, message: Message) -> None:
        try:
            frame = frames.decode(message.payload)
        except WireError as error:
            self._reject(message, str(error))
            return
        stream = self._streams.get(frame.stream)
        if stream is None:
            _late.inc()
        elif stream.answers != message.subject:
            self._reject(message, "not who was asked")
        else:
            stream.step(frame)

    def _reject(self, message: Message, error: str) -> None:
        _strange.inc()
        if self._logs_rejection.now():
            log.warning("frame_rejected", subject=message.subject, error=error)

    def _on_no_responders(self, message: Message) -> None:
        try:
            stream = self._streams.get(int(message.subject.rpartition(".")[2], 16))
        except ValueError:
            stream = None
        # A provider could publish such words as well, but only under its own name.
        if stream is not None and stream.reply == message.subject:
            stream.step(NoResponders())
        else:
            _late.inc()

    def _deadline_of(self, number: int) -> float | None:
        stream = self._streams.get(number)
        return None if stream is None else stream.caller.next_deadline()

    def _tick(self, number: int) -> None:
        stream = self._streams.get(number)
        if stream is not None:
            stream.step(TICK)
