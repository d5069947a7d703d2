"""A router, sessions and engines without sockets, on virtual time, for scripts of all that happens.

Everything between a client's connection and an engine's is the product's own. What stands for the
mesh, for channels and for sockets delivers in order, a turn of the loop later.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple, cast

import msgspec
import pytest
from tests.property.in_memory import Mesh, Pipe, Wire
from tests.unit.router.parts import record

from opentela.engine import connection, pool
from opentela.engine.connection import AnswerHead, EngineConnection
from opentela.engine.pool import EngineAddress, EngineHttp
from opentela.mesh.channel import Channel
from opentela.mesh.data_client import DataClient
from opentela.mesh.identity import Identity
from opentela.router import journal as journals
from opentela.router.attempt_events import Data, Whole
from opentela.router.config import AttemptConfig, ListenConfig, RouterConfig
from opentela.router.connection import Connection
from opentela.router.exchange import Exchange
from opentela.router.front import Front
from opentela.router.intake import Intake
from opentela.router.link import MeshLink
from opentela.service import SystemClock
from opentela.stream.callee import Callee
from opentela.stream.caller import Caller
from opentela.supervisor import gateway as gateways
from opentela.supervisor.gateway import Gateway, GatewaySettings
from opentela.testing.virtual_loop import elapse, virtual_time
from opentela.wire.subjects import SessionPath
from opentela.wire.usage import UsageRecord, read_usage

CARRIERS: Final = ("mesh", "channel", "lent")
HELD_BYTES: Final = 80_000
"""More than fits into one frame, as by default."""
SESSIONS: Final = 2
_TURN_S: Final = 0.001
_SETTLED_S: Final = 0.3
"""Longer than any back-off and than the wait for an acknowledgement's delay."""
_TOLD_S: Final = 2.0
"""Longer than a router takes to tell of the end of what it did on a loan."""
_AFTER_S: Final = 30.0
_PORT: Final = 7000

Op = tuple[Literal["send"], bytes] | tuple[Literal["pause", "eof", "reset", "leave"]]
"""What an engine does with a request; to leave is the client's."""


class Script(NamedTuple):
    """What a client sends, and what is done with each request that reaches an engine, in turn."""

    sent: tuple[bytes, ...]
    is_pipelined: bool
    answers: tuple[tuple[Op, ...], ...]


class Seen(NamedTuple):
    """All that anybody outside can tell of how a script went."""

    client: tuple[object, ...]
    engines: tuple[tuple[int, bytes], ...]
    books: tuple[object, ...]
    counts: tuple[tuple[str, float], ...]


class Engine:
    """All engines: each connection, and what is done with each request in turn."""

    def __init__(self, play: "Play") -> None:
        self.got: list[tuple[int, bytes]] = []
        self._play = play
        self._turn = 0
        self._tasks: list[asyncio.Task[None]] = []

    async def connect(self, factory: Callable[[], asyncio.Protocol], _: str, port: int) -> None:
        """Take a connection."""
        protocol = factory()
        assert isinstance(protocol, EngineConnection)
        waiting = bytearray()

        def got(data: bytes) -> None:
            waiting.extend(data)
            asyncio.get_running_loop().call_soon(look)

        def look() -> None:
            if wire.end:
                return
            head, blank, body = bytes(waiting).partition(b"\r\n\r\n")
            if not blank:
                return
            size = next(
                (int(line[15:]) for line in head.split(b"\r\n") if line[:15] == b"content-length:"),
                0,
            )
            if len(body) >= size:
                request = bytes(waiting[: len(head) + 4 + size])
                del waiting[: len(request)]
                self.got.append((port - _PORT, request))
                self._serve(wire)

        wire = Wire(protocol, got)
        protocol.connection_made(cast("asyncio.Transport", wire))

    def _serve(self, wire: Wire) -> None:
        answers = self._play.script.answers
        ops = answers[self._turn % len(answers)]
        self._turn += 1
        self._tasks.append(asyncio.ensure_future(self._do(ops, wire)))

    async def _do(self, ops: tuple[Op, ...], wire: Wire) -> None:
        for op in ops:
            match op:
                case ("send", data):
                    await self._play.feed(wire, data)
                case ("pause",):
                    await elapse(0.02)
                case ("eof",):
                    wire.leave()
                case ("reset",):
                    wire.leave(reset=True)
                case ("leave",):
                    await elapse(0.02)
                    self._play.client.leave()


class Play:
    """One script, played once.

    Args:
        cuts: Cuts reads at places of its own; None leaves them whole.
    """

    def __init__(self, script: Script, carrier: str, cuts: random.Random | None) -> None:
        self.script = script
        self.carrier = carrier
        self.client: Wire
        self._cuts = cuts
        self._received = bytearray()

    async def feed(self, wire: Wire, data: bytes) -> None:
        """Let one end read *data*."""
        if self._cuts is None or len(data) < 2:
            wire.feed(data)
            return
        places = sorted(self._cuts.sample(range(1, len(data)), min(3, len(data) - 1)))
        for start, end in zip((0, *places), (*places, len(data)), strict=True):
            wire.feed(data[start:end])
            await elapse(_TURN_S)

    async def run(self) -> Seen:
        """Play it to its end."""
        loop = asyncio.get_running_loop()
        engine, mesh = Engine(self), Mesh()
        loop.create_connection = engine.connect  # type: ignore[method-assign,assignment]
        link = MeshLink(cast("DataClient", mesh.client()), role="r", rng=random.Random(1))
        front = _front(link)
        front.directory.apply(record(number) for number in range(SESSIONS))
        front.directory.is_complete = True
        link.loans.start()
        await link.start()
        paths = sorted(one.path for one in front.directory.pool("m").candidates)
        made = [await self._session(mesh, link, path, number) for number, path in enumerate(paths)]
        served = Connection(front.gate)
        self.client = Wire(served, self._received.extend)
        served.connection_made(cast("asyncio.Transport", self.client))
        before = _counts()
        await self._send()
        await elapse(_AFTER_S)
        end = self.client.end
        self.client.leave()
        await elapse(_TOLD_S)
        books: list[UsageRecord] = []

        def book(_: str, payload: bytes) -> bool:
            books.append(read_usage(payload))
            return True

        assert await front.journal.flush_usage(book)
        assert len({one.id for one in books}) == len(books)
        asked = {line for _, head in engine.got for line in head.split(b"\r\n") if b"x-req" in line}
        assert asked <= {b"x-request-id: %b" % one.request.encode() for one in books}
        seen = Seen(
            (*_answers(bytes(self._received), self.script.sent), end),
            tuple(engine.got),
            tuple(map(_timeless, sorted(books, key=lambda book: book.id))),
            tuple(sorted((_counts() - before).items())),
        )
        assert front.desk.in_flight == front.gate.held_bytes == link.in_flight == 0
        assert [gateway.in_flight for gateway in made] == [0] * SESSIONS
        for gateway in made:
            gateway.stop()
        link.close()
        await front.stop()
        return seen

    async def _send(self) -> None:
        for request in self.script.sent:
            if self.client.end:
                return
            await self.feed(self.client, request)
            if not self.script.is_pipelined:
                await elapse(_SETTLED_S)

    async def _session(self, mesh: Mesh, link: MeshLink, path: SessionPath, number: int) -> Gateway:
        engine = EngineHttp(EngineAddress("127.0.0.1", _PORT + number))
        gateway = Gateway(
            cast("DataClient", mesh.client()),
            path,
            engine,
            settings=GatewaySettings(lends_engine=self.carrier == "lent"),
            provider=Identity.new(),
            spawn=lambda coroutine: coroutine.close(),
        )
        await gateway.start()
        if self.carrier != "mesh":
            ours, theirs = Pipe(path.session), Pipe(f"otela.v1.reply.r.{link.instance}.x")
            ours.far, theirs.far = theirs, ours
            ours.take = lambda payload: link.on_frame(cast("Channel", ours), payload)
            theirs.take = lambda payload: gateway.on_frame(cast("Channel", theirs), payload)
            link.attach(path, cast("Channel", ours))
            gateway.on_channel_opened(cast("Channel", theirs))
            await elapse(_TURN_S)
            assert bool(link.loans._open) is (self.carrier == "lent")
        return gateway


def _front(link: MeshLink) -> Front:
    config = RouterConfig(
        access="",
        policy="round_robin",
        listen=ListenConfig(address="127.0.0.1:0"),
        attempts=AttemptConfig(backoff_s=0.001, held_bytes_max=HELD_BYTES),
    )
    return Front(config, name="r", link=link, clock=SystemClock(), rng=random.Random(1))


def _timeless(book: UsageRecord) -> object:
    return msgspec.structs.replace(book, at_ms=0, ttft_s=float(book.ttft_s >= 0), duration_s=0.0)


def _counts() -> Counter[str]:
    """Return what is counted of attempts, requests, tokens and streams."""
    counted: Counter[str] = Counter()
    for family in (journals.ATTEMPTS, journals.REQUESTS, journals.TOKENS, gateways._streams):
        for sample in next(iter(family.collect())).samples:
            if sample.name.endswith("_total"):
                counted[f"{sample.name} {sample.labels}"] += int(sample.value)
    return counted


def _answers(received: bytes, sent: tuple[bytes, ...]) -> Iterator[object]:
    """Read what a client got as a client does: framing apart, byte for byte."""
    for request in sent:
        if not received:
            return
        head, blank, received = received.partition(b"\r\n\r\n")
        assert blank, head
        lines = head.split(b"\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in lines[1:])
        framing = {b"content-length", b"transfer-encoding"}
        shown = (lines[0], *(line for line in lines[1:] if line.split(b":")[0] not in framing))
        if request.startswith(b"HEAD") or lines[0].split()[1] in {b"204", b"304"}:
            body = b""
        elif fields.get(b"transfer-encoding") == b"chunked":
            body, received = _chunks(received)
        elif b"content-length" in fields:
            size = int(fields[b"content-length"])
            body, received = received[:size], received[size:]
        else:
            body, received = received, b""
        yield shown, body
    assert not received, received


def _chunks(data: bytes) -> tuple[bytes, bytes]:
    body = b""
    while data:
        digits, _, data = data.partition(b"\r\n")
        size = int(digits, 16)
        if not size:
            return body, data[2:]
        body, data = body + data[:size], data[size + 2 :]
    return body + b"<cut>", b""


@contextmanager
def in_steps() -> Iterator[None]:
    """Have nothing taken but event by event."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pool.Exchange, "read", _read_in_steps)
        patched.setattr(Callee, "passes", lambda *_: -1)
        patched.setattr(Caller, "passes", lambda *_: False)
        patched.setattr(Intake, "whole", lambda *_: None)
        patched.setattr(connection, "_familiar", lambda *_: None)
        patched.setattr(Exchange, "pass_on", lambda self, data: self.feed(Data(data)))
        patched.setattr(Exchange, "answer", lambda self, *whole: self.feed(Whole(*whole)))
        yield


def _read_in_steps(
    self: pool.Exchange, head: AnswerHead | None, data: bytes, *, ended: bool
) -> None:
    """Tell of a head, of data, and of the end as if each had been read by itself."""
    if self._is_over:
        return
    self._is_over = ended
    if head is not None:
        self.listener.on_read(head, b"", ended=False)
    if data and self._is_over is ended:
        self.listener.on_read(None, data, ended=False)
    if ended:
        self.listener.on_read(None, b"", ended=True)


def played(script: Script, carrier: str, cuts: random.Random | None = None) -> Seen:
    """Play a script on a clock of its own."""
    with virtual_time() as runner, pytest.MonkeyPatch.context() as patched:
        loop = runner.get_loop()
        patched.setattr(time, "monotonic", lambda: 1000.0 + loop.time())
        return runner.run(Play(script, carrier, cuts).run())
