"""The router's link to all sessions: one `Caller` a stream, over the mesh or over channels.

Called on the loop and calling back on it: no task for a request, one timer for all. On the mesh one
subscription takes every answer, and an answer counts only on the subject on which nobody but the
asked session may publish; on a channel, only from the session that has proved itself there. Who has
a channel is asked over it. A session that has none is dialled, or invited to dial, at most every
`INVITE_EVERY_S`, when a request takes the mesh. Who floods us is cut off.
"""

import math
import time
from collections.abc import Callable
from typing import Final

from opentela.core.errors import WireError
from opentela.core.pieces import Text
from opentela.core.rng import Rng
from opentela.mesh.channel import Channel
from opentela.mesh.data_client import DataClient
from opentela.mesh.nats_wire import Message
from opentela.mesh.seldom import Seldom
from opentela.mesh.stream_timer import StreamTimer
from opentela.router.link_stream import MeshStream, Route
from opentela.router.loans import Loans
from opentela.router.ports import Stream, StreamSink
from opentela.stream.caller import Caller, CallerSettings, Request
from opentela.stream.events import TICK, BreakOff, CarrierLost, Heard, NoResponders
from opentela.stream.flood import FloodGuard
from opentela.telemetry import log as logs
from opentela.telemetry import metrics
from opentela.wire import frames, subjects
from opentela.wire.frames import Cancel, FailKind, Headers, Invite, Loan
from opentela.wire.subjects import SessionPath

log: Final = logs.get_logger()

INSTANCE_BYTES: Final = 8
"""Of the token that names this process among those of one router."""
CANCELS_KEPT_MAX: Final = 4096
"""Sessions to be told, once the mesh is back, that nobody waits; one for each stream that ran."""

ROUTES_MAX: Final = 4096
"""Sessions whose subjects are remembered; more than a mesh has at one time."""
INVITE_EVERY_S: Final = 10.0
"""A session that could not dial is asked again after so long."""
GRAIN_S: Final = 0.5
"""New streams are looked at within this, or within the acknowledgement time-out if that is less."""

_TAIL: Final = "0"
_late: Final = metrics.counter(
    "otela_router_frames_late_total", "Frames of streams that had already ended; some are normal."
)
_strange: Final = metrics.counter(
    "otela_router_frames_rejected_total",
    "Frames that could not be read, or came from another session than was asked.",
)

_cuts: Final = metrics.counter(
    "otela_router_sessions_cut_off_total",
    "Senders that were cut off for flooding the router with useless frames.",
)
_FLOODING: Final = "the session was cut off: it floods the router"

Dial = Callable[[SessionPath], bool]
"""Begins to dial a session and returns True, or returns False when it cannot be dialled."""


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
        self.instance: Final = rng.randbytes(INSTANCE_BYTES).hex()
        self.loans: Final = Loans(self.instance, self._publish)
        self._last_stream = int.from_bytes(rng.randbytes(4), "big") << 32
        self._settings = settings or CallerSettings()
        self._streams: dict[int, MeshStream] = {}
        self._routes: dict[SessionPath, Route] = {}
        self._channels: dict[SessionPath, Channel] = {}
        self._invite = b""
        self._dial: Dial | None = None
        self._on_channels: Callable[[SessionPath], None] | None = None
        self._guard = FloodGuard()
        self._asked: dict[str, SessionPath] = {}
        self._senders: dict[Channel, str] = {}
        self._invited_at: dict[SessionPath, float] = {}
        self._heard_at: dict[str, float] = {}  # on the mesh, of sessions that were asked
        self._owed: list[tuple[str, bytes, str]] = []
        self._timer: StreamTimer[int] | None = None
        self._sid = 0
        self._logs_rejection = Seldom()

    @property
    def in_flight(self) -> int:
        """Return the streams under way."""
        return len(self._streams) + self.loans.in_flight

    async def start(self) -> None:
        """Listen for answers; the nearest server of the mesh knows when this returns.

        Raises:
            MeshUnavailableError: There is no connection. The interest is kept for the next one.
        """
        grain_s = min(GRAIN_S, self._settings.ack_timeout_s)
        self._timer = StreamTimer(grain_s, self._deadline_of, self._tick)
        self.client.watch(self)
        self._sid = self.client.subscribe(
            subjects.replies(self._role, self.instance),
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
        body: Text,
        deadline_s: float,
        trace: str,
        sink: StreamSink,
    ) -> Stream:
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
        if loaned := self.loans.open(path, number, request, sink):
            return loaned
        route = self._routes.get(path) or self._learn(path)
        channel = self._channels.get(path)
        if channel is not None and (channel.is_congested or channel.is_doubted):
            channel = None
        caller = Caller(number, request, self._settings)
        stream = MeshStream(self, caller, sink, route, channel)
        self._streams[number] = stream
        if self._guard.has_cut and self._is_cut(route.answers):
            stream.refuse(_FLOODING)
            return stream
        stream.begin()
        self._timer.add(number, deadline_s or math.inf)
        if channel is None and (self._invite or self._dial is not None):
            self._seek_channel(path)
        return stream

    def heard_at(self, path: SessionPath) -> float:
        """Return when anything last came on a session's channel, on the loop's clock; 0 if none."""
        channel = self._channels.get(path)
        return channel.heard_at if channel is not None else 0.0

    def on_channels(self, told: Callable[[SessionPath], None]) -> None:
        """Let *told* know of sessions whose channel was made or lost."""
        self._on_channels = told

    # What a home port and a dialler call.

    def dial_with(self, dial: Dial) -> None:
        """Have sessions dialled, from now on, that can be."""
        self._dial = dial

    def tell_key(self, path: SessionPath, key: str) -> None:
        """Let a session know that who dials it with *key* is this process."""
        self._publish(path, frames.encode(Invite(0, (), key)))

    def invite_home(self, path: SessionPath) -> None:
        """Invite a session that could not be dialled."""
        if self._invite and path not in self._channels:
            self._publish(path, self._invite)

    def invite(self, invite: Invite | None) -> None:
        """Let sessions know from now on where they can dial; None for nowhere."""
        self._invite = frames.encode(invite) if invite else b""

    def attach(self, path: SessionPath, channel: Channel) -> None:
        """Send what is for a session over its *channel* from now on."""
        before, self._channels[path] = self._channels.get(path), channel
        if before is not None:
            before.close("the session dialled again")
        self._senders[channel] = (self._routes.get(path) or self._learn(path)).answers
        if self._on_channels is not None:
            self._on_channels(path)

    def detach(self, path: SessionPath, channel: Channel) -> None:
        """Fail what the *channel* carried; what comes next takes the mesh."""
        self._senders.pop(channel, None)
        if self._channels.get(path) is channel:
            del self._channels[path]
        self.loans.lost(path, channel)
        for stream in tuple(self._streams.values()):
            if stream.channel is channel:
                stream.lose_channel()
        if self._on_channels is not None:
            self._on_channels(path)

    def on_frame(self, channel: Channel, payload: bytes) -> None:
        """Take a frame from the session that has proved itself on *channel*."""
        try:
            frame = frames.decode(payload)
            if type(frame) is Loan:
                sender = self._sender_on(channel)
                if not self.loans.take(self._asked.get(sender), channel, frame):
                    self._note_late(sender)
                return
        except WireError as error:
            self._reject(self._sender_on(channel), str(error))
            broken = self._streams.get(frames.stream_broken_by(payload))
            if broken is not None and broken.channel is channel:
                broken.step(BreakOff(FailKind.PROTOCOL, str(error)))
            return
        stream = self._streams.get(frame.stream)
        if stream is None:
            self._note_late(self._sender_on(channel))
        elif stream.channel is not channel:
            self._reject(self._sender_on(channel), "not who was asked")
        else:
            stream.step(frame)

    def close(self) -> None:
        """Withdraw every stream, and listen no more."""
        for stream in tuple(self._streams.values()):
            stream.cancel("the router ended")
        self.loans.close()
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
                if stream.channel is not None:
                    continue
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
            self._owed.append((stream.route.subject, frames.encode(cancel), stream.reply))

    def forget(self, stream: MeshStream) -> None:
        """Forget a stream that has ended."""
        self._streams.pop(stream.caller.stream, None)

    # The rest.

    def _learn(self, path: SessionPath) -> Route:
        if len(self._routes) >= ROUTES_MAX:
            self._routes.clear()
            self._asked = {self._sender_on(one): path for path, one in self._channels.items()}
            self._heard_at.clear()
        reply = subjects.reply(self._role, path.provider, self.instance, _TAIL)
        route = Route(subjects.data(path), reply.removesuffix(_TAIL), subjects.answer(reply, path))
        self._routes[path] = route
        self._asked[route.answers] = path
        return route

    def _on_message(self, message: Message) -> None:
        if self._guard.has_cut and self._is_cut(message.subject):
            _strange.inc()
            return
        try:
            frame = frames.decode(message.payload)
            if type(frame) is Loan:
                if not self.loans.take(self._asked.get(message.subject), None, frame):
                    self._note_late(message.subject)
                return
        except WireError as error:
            self._reject(message.subject, str(error))
            broken = self._streams.get(frames.stream_broken_by(message.payload))
            if broken is not None and broken.route.answers == message.subject:
                broken.step(BreakOff(FailKind.PROTOCOL, str(error)))
            return
        stream = self._streams.get(frame.stream)
        if stream is None:
            self._note_late(message.subject)
        elif stream.route.answers != message.subject:
            self._reject(message.subject, "not who was asked")
        else:
            self._heard_at[message.subject] = time.monotonic()
            stream.step(frame)

    def _seek_channel(self, path: SessionPath) -> None:
        now = time.monotonic()
        if now < self._invited_at.get(path, 0.0):
            return
        if len(self._invited_at) >= ROUTES_MAX:
            self._invited_at.clear()
        self._invited_at[path] = now + INVITE_EVERY_S
        if self._dial is not None and self._dial(path):
            return
        if self._invite:
            self._publish(path, self._invite)

    def _publish(self, path: SessionPath, payload: bytes) -> bool:
        """Send a frame of no stream over the mesh."""
        route = self._routes.get(path) or self._learn(path)
        return self.client.publish(route.subject, payload, f"{route.reply_prefix}{_TAIL}")

    # Who sends what is of no use.

    def _reject(self, sender: str, error: str) -> None:
        _strange.inc()
        if self._logs_rejection.now():
            log.warning("frame_rejected", subject=sender, error=error)
        sender = self._counted_as(sender)
        if self._guard.strange(time.monotonic(), sender):
            self._cut_off(sender)

    def _note_late(self, sender: str) -> None:
        _late.inc()
        sender = self._counted_as(sender)
        if self._guard.late(time.monotonic(), sender):
            self._cut_off(sender)

    def _counted_as(self, sender: str) -> str:
        """Return *sender*, or its provider where it is no session that was ever asked."""
        return sender if sender in self._asked else sender.rpartition(".")[0]

    def _sender_on(self, channel: Channel) -> str:
        """Return on which subject the session that is at the other end would answer."""
        return self._senders.get(channel, f"{channel.peer}.")

    def _is_cut(self, subject: str) -> bool:
        now, provider = time.monotonic(), subject.rpartition(".")[0]
        return self._guard.is_cut(now, subject) or self._guard.is_cut(now, provider)

    def _cut_off(self, sender: str) -> None:
        _cuts.inc()
        log.warning("sender_cut_off", subject=sender)
        path = self._asked.get(sender)
        channel = self._channels.get(path) if path is not None else None
        if channel is not None:
            channel.close(_FLOODING)
        for stream in tuple(self._streams.values()):
            if stream.route.answers == sender:
                stream.step(BreakOff(FailKind.PROTOCOL, _FLOODING))

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
            channel = stream.channel
            heard_at = channel.heard_at if channel else self._heard_at.get(stream.answers, 0.0)
            stream.step(Heard(heard_at))
            stream.step(TICK)
