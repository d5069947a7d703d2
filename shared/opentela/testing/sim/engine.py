"""A scripted engine: it loads for a while, then streams answers that only it can give.

It lives and dies with the process of its supervisor, as parent-death signals make real ones do.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final

import msgspec

from opentela.core.ids import SessionId
from opentela.stream.events import (
    CalleeEvent,
    EngineConnected,
    EngineData,
    EngineEnd,
    EngineFailed,
    EngineHead,
    EngineTook,
)
from opentela.testing.sim.history import Ask, answer
from opentela.testing.world_node import Node
from opentela.wire.frames import FailKind, Open

_CONNECT_S: Final = 0.0005
_SSE: Final = (("content-type", "text/event-stream"),)
_JSON: Final = (("content-type", "application/json"),)
_ASK: Final = msgspec.json.Decoder(Ask)

Tell = Callable[[CalleeEvent], None]


class EngineForm(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine behaves.

    Attributes:
        load_s: From its start until it answers.
        first_s: Mean time to the first token.
        gap_s: Mean time between two reads of its answer.
    """

    load_s: float = 1.0
    first_s: float = 0.05
    gap_s: float = 0.03


class Condition(Enum):
    """What an engine is up to."""

    OFF = "off"
    LOADING = "loading"
    SERVING = "serving"
    HUNG = "hung"


class Job:
    """One request at the engine.

    Attributes:
        name: As its client knows it.
        is_over: Nothing more will be told of it.
    """

    def __init__(self, engine: "SimEngine", request: Open, session: SessionId, tell: Tell) -> None:
        self._engine = engine
        self._session = session
        self._tell = tell
        self.name = dict(request.headers).get("x-request-id", "")
        self._body = bytearray()
        self._early: list[tuple[bytes, bool]] | None = []
        self._parts: list[bytes] = []
        self._is_paused = self._is_waiting = False
        self.is_over = False
        engine.later(_CONNECT_S, self._connect, request)

    def _connect(self, request: Open) -> None:
        if self.is_over:
            return
        if self._engine.condition in (Condition.OFF, Condition.LOADING):
            self.fail(FailKind.ENGINE_UNREACHABLE)
            return
        self._tell(EngineConnected())
        self._take(request.body, more=request.more)
        # A body that came whole was never in a window.
        if request.more:
            self._tell(EngineTook(len(request.body)))
        early, self._early = self._early or [], None
        for body, more in early:
            self.write(body, more=more)

    def write(self, body: bytes, *, more: bool) -> None:
        """Take a further part of the request's body; it waits until the connection stands."""
        if self._early is not None:
            self._early.append((body, more))
        elif not self.is_over:
            self._take(body, more=more)
            self._tell(EngineTook(len(body)))

    def _take(self, body: bytes, *, more: bool) -> None:
        """Begin to answer when the body is whole."""
        self._body += body
        if not more:
            self._engine.later(self._engine.draw(self._engine.form.first_s), self._begin)

    def _begin(self) -> None:
        if self.is_over or self._engine.condition is not Condition.SERVING:
            return
        ask = _ASK.decode(self._body)
        whole = answer(self.name, self._session, ask)
        self._engine.sent[self.name, self._session] = whole
        self._parts = _cut(whole, ask.reads, self._engine.node)
        self._tell(EngineHead(200, _SSE if ask.stream else _JSON))
        self._next()

    def _next(self) -> None:
        self._is_waiting = False
        if self.is_over or self._is_paused or self._engine.condition is not Condition.SERVING:
            return
        if not self._parts:
            self.is_over = True
            self._engine.forget(self)
            self._tell(EngineEnd())
            return
        self._is_waiting = True
        self._engine.later(self._engine.draw(self._engine.form.gap_s), self._next)
        self._tell(EngineData(self._parts.pop(0)))

    def pause(self) -> None:
        """Stop reading from the engine."""
        self._is_paused = True

    def resume(self) -> None:
        """Read from the engine again."""
        self._is_paused = False
        if not self._is_waiting:
            self._next()

    def abort(self) -> None:
        """Close the engine's connection."""
        self.is_over = True
        self._engine.forget(self)

    def fail(self, kind: FailKind) -> None:
        """Let the engine's connection break."""
        if not self.is_over:
            self.is_over = True
            self._engine.forget(self)
            self._tell(EngineFailed(kind, "simulated"))


class SimEngine:
    """The engine process of one node.

    Attributes:
        condition: What it is up to.
        sent: Every answer that was begun, whole, by request and session.
    """

    def __init__(self, node: Node, form: EngineForm, sent: dict[tuple[str, str], bytes]) -> None:
        self.node = node
        self.form = form
        self.condition = Condition.OFF
        self.sent = sent
        self._jobs: list[Job] = []
        self._timers = 0

    @property
    def running(self) -> int:
        """Requests at the engine."""
        return len(self._jobs)

    def working_on(self) -> list[str]:
        """Return the names of those requests."""
        return [job.name for job in self._jobs]

    def draw(self, mean_s: float) -> float:
        """Return a time around *mean_s*."""
        return self.node.rng.expovariate(1 / mean_s)

    def later(self, delay_s: float, call: Callable[..., None], *args: object) -> None:
        """Call *call* on the engine's host after a while."""
        self._timers += 1
        node = self.node
        node.arm(f"engine/{self._timers}", node.now() + delay_s, lambda _now: call(*args))

    def load(self) -> None:
        """Begin to load."""
        self.condition = Condition.LOADING

    def serve(self) -> None:
        """Answer from now on."""
        if self.condition is Condition.LOADING:
            self.condition = Condition.SERVING

    def hang(self) -> None:
        """Take connections and do nothing."""
        if self.condition is Condition.SERVING:
            self.condition = Condition.HUNG

    def end(self) -> None:
        """Die, and break every connection."""
        self.condition = Condition.OFF
        for job in list(self._jobs):
            job.fail(FailKind.ENGINE_LOST)

    def start(self, request: Open, session: SessionId, tell: Tell) -> Job:
        """Take a request."""
        job = Job(self, request, session, tell)
        self._jobs.append(job)
        return job

    def forget(self, job: Job) -> None:
        """Count a request out."""
        if job in self._jobs:
            self._jobs.remove(job)


def _cut(whole: bytes, count: int, node: Node) -> list[bytes]:
    """Return *whole* in *count* reads that end anywhere, as TCP has it."""
    cuts = sorted(node.rng.randrange(len(whole)) for _ in range(count - 1))
    parts = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    return [part for part in parts if part]
