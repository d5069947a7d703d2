"""The session's gateway: requests from the mesh to the engine, answers back.

One subscription takes the frames of every stream; one timer keeps their deadlines; nothing waits
in a task. A stream is a `Callee`, which decides, and an `Exchange` with the engine.
"""

import asyncio
import time
from typing import Final

import msgspec

from opentela.core.errors import WireError
from opentela.engine.curfew import Curfew
from opentela.engine.pool import EngineHttp
from opentela.mesh.channel import Channel
from opentela.mesh.data_client import DataClient
from opentela.mesh.identity import Identity
from opentela.mesh.nats_wire import Message
from opentela.mesh.seldom import Seldom
from opentela.mesh.stream_timer import StreamTimer
from opentela.service import SystemClock
from opentela.stream.callee import Callee, CalleeSettings
from opentela.stream.events import TICK, BreakOff, CarrierLost
from opentela.stream.failures import failure
from opentela.stream.hearing import CONFIRM_S, Hearers, Hearing
from opentela.supervisor.channels import Channels, Spawn
from opentela.supervisor.gateway_stream import GatewayStream, Key, MeshWay, Way
from opentela.supervisor.lending import Lending
from opentela.telemetry import log as logs
from opentela.telemetry import metrics
from opentela.wire import control, frames, subjects
from opentela.wire.frames import Credit, FailKind, Frame, Invite, Loan, Open
from opentela.wire.subjects import SessionPath

log: Final = logs.get_logger()
_CLOCK: Final = SystemClock()

ENDED_KEPT_MIN: Final = 4096
"""Streams remembered after their end, lest a late or repeated Open asks the engine twice; more
than all that are under way at once. Twice as many are kept at most."""
FLUSH_LOOK_S: Final = 0.02
"""Between two looks whether the last answers have left."""
OWED_MAX: Final = 4096
"""Failures kept for routers until the mesh is back; one for each stream that ran."""
ASKERS_MAX: Final = 1024
"""Router processes whose subjects are remembered; many times those that there are."""

_HAIL: Final = "hail"
"""Ends the subject on which we hear that no registry heard us."""
_NOTHING: Final = frames.encode(Credit(0, 0))
"""A frame of no stream."""

_streams: Final = metrics.counter(
    "otela_gateway_streams_total", "Requests that a session accepted, by outcome.", ("outcome",)
)
_outcomes: Final = {
    outcome: _streams.labels(outcome) for outcome in ("ended", *(str(kind) for kind in FailKind))
}
_rejected: Final = metrics.counter(
    "otela_gateway_frames_rejected_total", "Frames that could not be read or answered."
)


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one session's gateway.

    Attributes:
        streams_max: Requests at once; above it they are refused, and routers try elsewhere.
            Each may hold a window of 256 KiB both ways.
        stream: Time-outs and limits of each.
        lends_engine: Whether routers of this host may ask the engine themselves.
    """

    streams_max: int = 1024
    stream: CalleeSettings = CalleeSettings()
    lends_engine: bool = False


class Gateway:
    """Takes requests for one session.

    Attributes:
        received: Bytes that came from the engine so far: its forward progress.
        curfew: Until when requests may run.
    """

    def __init__(
        self,
        client: DataClient,
        path: SessionPath,
        engine: EngineHttp,
        *,
        settings: GatewaySettings | None = None,
        provider: Identity | None = None,
        spawn: Spawn | None = None,
        dials: bool = True,
        curfew: Curfew | None = None,
    ) -> None:
        self.client: Final = client
        self.engine: Final = engine
        self.curfew: Final = curfew or Curfew()
        self.received = 0
        self._path = path
        self._settings = settings or GatewaySettings()
        self._streams: dict[Key, GatewayStream] = {}
        self._ended: set[Key] = set()
        self._ended_before: set[Key] = set()
        self._ways: dict[str, MeshWay] = {}
        self._hearers = Hearers()
        self._askers: dict[str, str] = {}
        self._askers_known = 0
        self._asking: set[asyncio.TimerHandle] = set()
        self.channels: Final = (
            Channels(path.session, self, provider=provider, spawn=spawn, dials=dials)
            if provider is not None and spawn is not None
            else None
        )
        self.lending: Final = Lending(self, path, self._settings)
        self._owed: list[tuple[str, bytes]] = []
        self._timer: StreamTimer[Key] | None = None
        self._sid = self._echo_sid = 0
        self._refusal = ""
        self._logs_rejection = Seldom()
        self._on_idle: asyncio.Event | None = None

    @property
    def in_flight(self) -> int:
        """Return the requests that run; one at least while answers have not left this process."""
        return len(self._streams) + self.lending.running or int(self._has_unsent)

    @property
    def _has_unsent(self) -> bool:
        return self.channels is not None and self.channels.unsent_bytes > 0

    async def start(self) -> None:
        """Take requests; the nearest server of the mesh knows when this returns.

        Raises:
            MeshUnavailableError: There is no connection. The interest is kept for the next one.
        """
        self._timer = StreamTimer(self._settings.stream.ack_delay_s, self._deadline_of, self._tick)
        self.client.watch(self)
        self._sid = self.client.subscribe(subjects.data(self._path), self.on_message)
        self._echo_sid = self.client.subscribe(
            subjects.echoes(self._path), self._reject_echo, on_no_responders=self._on_unheard
        )
        await self.client.round_trip()

    def drain(self, reason: str = "the session is draining") -> None:
        """Refuse new requests; those that run go on."""
        self._refusal = reason
        self.lending.recall(reason)

    async def wait_idle(self) -> None:
        """Return when no request runs, and every answer has left."""
        self._on_idle = self._on_idle or asyncio.Event()
        while self._streams or self.lending.running:
            self._on_idle.clear()
            await self._on_idle.wait()
        while self._has_unsent:  # noqa: ASYNC110 - no transport tells that it is empty
            await asyncio.sleep(FLUSH_LOOK_S)

    def stop(self, reason: str = "the session ended") -> None:
        """Take nothing more; what still runs is broken off."""
        self.drain(reason)
        if self._timer is None:
            return
        self.client.unsubscribe(self._sid)
        self.client.unsubscribe(self._echo_sid)
        for handle in self._asking:
            handle.cancel()
        self._asking.clear()
        for stream in tuple(self._streams.values()):
            stream.step(BreakOff(FailKind.ENGINE_LOST, reason))
        self.lending.recall(reason, at_once=True)
        self.lending.close()
        if self.channels is not None:
            self.channels.close()
        self.client.unwatch(self)
        self._timer.close()
        self._timer = None

    # What the mesh calls.

    def on_message(self, message: Message) -> None:
        """Take one frame."""
        try:
            frame = frames.decode(message.payload)
            asker = message.reply.rpartition(".")[0]
            way = self._ways.get(asker) or self._learn(asker, message.reply)
        except WireError as error:
            self._reject(error)
            return
        if type(frame) is Invite:
            if self.channels is not None:
                self.channels.invited(asker, frame)
        elif type(frame) is Loan:
            self._take_word(asker, None, frame)
        else:
            self._take((asker, frame.stream), way, frame)

    def on_mesh(self, *, connected: bool) -> None:
        """Break off what runs without a mesh; tell the routers when it is back."""
        if not connected:
            for stream in tuple(self._streams.values()):
                if isinstance(stream.way, MeshWay):
                    stream.step(CarrierLost())
            return
        owed, self._owed = self._owed, []
        for asker, payload in owed:
            if way := self._ways.get(asker):
                way.publish(payload)

    def on_congested(self, *, congested: bool) -> None:  # noqa: ARG002 - asked of the way
        """Hold the engine's answers while the mesh takes less than they give."""
        for stream in tuple(self._streams.values()):
            if isinstance(stream.way, MeshWay):
                stream.hold()

    def _on_unheard(self, message: Message) -> None:
        """Take word that nobody heard a frame that asked for it."""
        now, tail = time.monotonic(), message.subject.rpartition(".")[2]
        if tail == _HAIL:
            self._hearers.nobody_hears(now)
            return
        asker = self._askers.get(tail, "")
        way = self._ways.get(asker)
        if way is None or not (self._has_stream_on(way) or self.lending.is_owed_by(asker)):
            self._hearers.forget(asker)
            return
        match self._hearers.missed(now, asker):
            case Hearing.ASK_AGAIN:
                self._hail()
                self._ask_later(way)
            case Hearing.GONE:
                for stream in tuple(self._streams.values()):
                    if stream.way is way:
                        stream.step(BreakOff(FailKind.SILENT, "the router is gone"))
                self.lending.gone(asker)
            case Hearing.WAIT:
                pass

    def _hail(self) -> None:
        """Let registries hear us, and us hear whether none does."""
        # Under no incarnation that could be news: the session's own beats tell that.
        beat = control.encode(control.Beat(incarnation=0, running=len(self._streams)))
        self.client.publish(subjects.beat(self._path), beat, subjects.echo(self._path, _HAIL))

    def _ask_later(self, way: MeshWay) -> None:
        def ask() -> None:
            self._asking.discard(handle)
            way.ask_again(_NOTHING)

        handle = asyncio.get_running_loop().call_later(CONFIRM_S, ask)
        self._asking.add(handle)

    def _has_stream_on(self, way: MeshWay) -> bool:
        return any(stream.way is way for stream in self._streams.values())

    def _reject_echo(self, _: Message) -> None:
        self._reject(WireError("a message where only servers of the mesh have something to say"))

    # What channels call.

    def on_frame(self, channel: Channel, payload: bytes) -> None:
        """Take one frame of a router that has proved itself."""
        try:
            frame = frames.decode(payload)
        except WireError as error:
            self._reject(error)
            return
        if type(frame) is Loan:
            self._take_word(channel.peer, channel, frame)
        else:
            self._take((channel.peer, frame.stream), channel, frame)

    def on_channel_opened(self, channel: Channel) -> None:
        """Let the router at its other end know what it may do."""
        self.lending.opened(channel)

    def on_channel_congested(self, channel: Channel) -> None:
        """Hold the engine's answers to one router while it takes less than they give."""
        for stream in tuple(self._streams.values()):
            if stream.way is channel:
                stream.hold()

    def on_channel_lost(self, channel: Channel) -> None:
        """Break off what came over a channel."""
        self.lending.lost(channel)
        for stream in tuple(self._streams.values()):
            if stream.way is channel:
                stream.lose_channel(self._learn(channel.peer, f"{channel.peer}.0"))

    # What a stream calls.

    def owe(self, key: Key, payload: bytes) -> None:
        """Keep a failure that was not taken until the mesh is back."""
        if len(self._owed) < OWED_MAX:
            self._owed.append((key[0], payload))

    def finish(self, key: Key, outcome: str) -> None:
        """Forget a stream that has ended."""
        if self._streams.pop(key, None) is None:
            return
        _outcomes[outcome].inc()
        self._remember(key)
        self.settled()

    # What a loan calls.

    def ask_over_mesh(self, asker: str, payload: bytes) -> None:
        """Send a frame to a router process; `Lending.gone` is told when it is not there."""
        (self._ways.get(asker) or self._learn(asker, f"{asker}.0")).ask_again(payload)

    def count(self, outcome: str, count: int) -> None:
        """Count requests that a router ended on its own."""
        if outcome in _outcomes:
            _outcomes[outcome].inc(count)

    def settled(self) -> None:
        """Let go who waits until nothing runs, if nothing does."""
        if self._on_idle is not None and not self._streams and not self.lending.running:
            self._on_idle.set()

    # The rest.

    def _take_word(self, asker: str, channel: Channel | None, frame: Loan) -> None:
        try:
            self.lending.take(asker, channel, frame)
        except WireError as error:
            self._reject(error)

    def _take(self, key: Key, way: Way, frame: Frame) -> None:
        stream = self._streams.get(key)
        if stream is not None:
            stream.step(frame)
        elif not isinstance(frame, Open) or key in self._ended or key in self._ended_before:
            self._remember(key)
        else:
            self._open(key, way, frame)

    def _reject(self, error: WireError) -> None:
        _rejected.inc()
        if self._logs_rejection.now():
            log.warning("frame_rejected", session=self._path.session, error=str(error))

    def _open(self, key: Key, way: Way, frame: Open) -> None:
        refusal = self._refusal
        if self.curfew.leave_at:
            refusal = refusal or self.curfew.refusal(_CLOCK.wall(), frame.body)
        if len(self._streams) + self.lending.running >= self._settings.streams_max:
            refusal = refusal or f"the session has {self._settings.streams_max} requests already"
        if refusal or self._timer is None:
            _outcomes[FailKind.REFUSED].inc()
            self._remember(key)
            fail = failure(frame.stream, FailKind.REFUSED, refusal, may_have_begun=False)
            way.publish(frames.encode(fail))
            return
        stream = GatewayStream(self, key, way, Callee(frame.stream, self._settings.stream))
        self._streams[key] = stream
        stream.begin(frame)
        if self._timer is not None:
            self._timer.add(key)

    def _learn(self, asker: str, reply: str) -> MeshWay:
        if len(self._ways) >= ASKERS_MAX:
            self._forget_idle()
        # Never one that was: word on who had it before may still be under way.
        self._askers_known += 1
        number = f"{self._askers_known:x}"
        self._askers[number] = asker
        echo = subjects.echo(self._path, number)
        way = self._ways[asker] = MeshWay(self.client, subjects.answer(reply, self._path), echo)
        return way

    def _forget_idle(self) -> None:
        running = {stream.way for stream in self._streams.values()}
        self._ways = {asker: way for asker, way in self._ways.items() if way in running}
        self._askers = {
            number: asker for number, asker in self._askers.items() if asker in self._ways
        }

    def _remember(self, key: Key) -> None:
        self._ended.add(key)
        if len(self._ended) >= ENDED_KEPT_MIN:
            self._ended, self._ended_before = set(), self._ended

    def _deadline_of(self, key: Key) -> float | None:
        stream = self._streams.get(key)
        return None if stream is None else stream.callee.next_deadline()

    def _tick(self, key: Key) -> None:
        stream = self._streams.get(key)
        if stream is not None:
            stream.step(TICK)
