"""One request between a client and the mesh: performs what `Attempts` decides, and nothing else."""

import math
from collections.abc import Callable
from typing import ClassVar, Final

from opentela.core.ids import SessionId
from opentela.router import constraints, headers
from opentela.router.attempt import Attempts
from opentela.router.attempt_events import (
    Break,
    ClientGone,
    Commit,
    Data,
    EndAttempt,
    Event,
    Finish,
    Forward,
    GiveUp,
    Hold,
    Outcome,
    Recheck,
    Reply,
    Tick,
    TryOn,
)
from opentela.router.choosing import Held
from opentela.router.desk import Desk
from opentela.router.directory import Candidate
from opentela.router.fault import INTERNAL, TOO_MANY, Fault, envelope, sse_event
from opentela.router.leg import Leg
from opentela.router.matching import NO_WISH
from opentela.router.openai import Ask
from opentela.router.outcomes import Result
from opentela.router.policies.base import Call, Observed
from opentela.router.ports import Client
from opentela.router.reading import Reading
from opentela.router.records import record_of, usage_of
from opentela.router.stopwatch import Stopwatch
from opentela.router.wanted import UNNAMED, read_wanted
from opentela.telemetry.log import get_logger
from opentela.wire.frames import Headers

log: Final = get_logger()

_TICK: Final = Tick()
_RECHECK: Final = Recheck()
_CLIENT_GONE: Final = ClientGone()
_JSON: Final = b"content-type: application/json\r\n"
_ID_BYTES: Final = 12


class Exchange:
    """One request, from its last byte in to its last byte out."""

    __slots__ = (
        "_alarm", "_attempts", "_began_at", "_call", "_client", "_desk", "_has_begun",
        "_heading", "_incoming", "_is_busy", "_is_concluded", "_leg", "_pending", "_stopwatch",
        "_streamed", "_watched_until", "_wish",
    )  # fmt: skip

    def __init__(self, desk: Desk, client: Client, incoming: Reading) -> None:
        self._desk = desk
        self._client = client
        self._incoming = incoming
        self._began_at = desk.clock.now()
        self._heading = incoming.head.read()
        self._call = Call("", self._heading.request or desk.rng.randbytes(_ID_BYTES).hex())
        self._attempts: Attempts | None = None
        self._leg: Leg | None = None
        self._pending: list[Event] = []
        self._is_busy = False
        self._is_concluded = False
        self._has_begun = False
        self._streamed = False
        self._stopwatch = Stopwatch(incoming.read_at) if desk.config.server_timing else None
        self._watched_until = math.inf
        self._alarm = 0
        self._wish = NO_WISH
        desk.entered()

    @property
    def is_paused(self) -> bool:
        """Whether the client takes its answer more slowly than it comes."""
        return self._client.is_paused

    @property
    def wants(self) -> tuple[object, ...]:
        """What it waits for: another that wants the same is told the same."""
        return self._call.model, self._wish, self._attempts and self._attempts.tried

    def begin(self) -> None:
        """Start, or answer at once what is wrong with the request."""
        desk, incoming, head = self._desk, self._incoming, self._incoming.head
        if desk.in_flight > desk.config.listen.requests_max:
            self._refuse(TOO_MANY)
            return
        ask = read_wanted(head.method, head.target, head.headers, incoming.body, incoming.large)
        if isinstance(ask, Fault):
            self._refuse(ask)
            return
        model = ask.model or desk.chooser.only_model()
        if not model:
            self._refuse(UNNAMED)
            return
        asked, is_pinned = self._heading.asked, "@" in model and desk.chooser.is_pinned(model)
        if asked or ask.otela or is_pinned:
            settled = constraints.settle(
                model, incoming.body, headers=asked, ask=ask, is_pinned=is_pinned
            )
            if isinstance(settled, Fault):
                self._refuse(settled)
                return
            model, self._wish, incoming.body = settled.model, settled.wish, settled.body
        self._call = Call(model, self._call.request, incoming.body)
        self._attempts = self._new_attempts(ask)
        self._run(self._attempts, None)

    def feed(self, event: Event) -> None:
        """Take what happened; it waits while an earlier event is being dealt with."""
        if self._is_busy:
            self._pending.append(event)
            return
        assert self._attempts is not None
        self._run(self._attempts, event)

    def pass_on(self, data: bytes) -> None:
        """Take a part of the answer, mostly one of many that flow to the client."""
        attempts, passed = self._attempts, None
        assert attempts is not None
        try:
            if not self._is_busy:
                passed = attempts.pass_on(self._desk.clock.now(), data)
            if passed:
                self._client.send(passed)
        except Exception:
            log.exception("exchange_crashed", request=self._call.request, model=self._call.model)
            self.crash()
        else:
            if passed is None:
                self.feed(Data(data))

    def client_gone(self) -> None:
        """Stop: nobody waits for the answer."""
        if self._attempts is not None and not self._is_concluded:
            self.feed(_CLIENT_GONE)

    def recheck(self) -> None:
        """Look again for a session, while the request waits for one."""
        self.feed(_RECHECK)

    def resumed(self) -> None:
        """Go on: the client has taken what was held for it."""
        if self._leg is not None:
            # The silence so far was the client's.
            self.feed(Data(b""))
            self._leg.settle()

    def _new_attempts(self, ask: Ask) -> Attempts:
        desk, call, wish, kind = self._desk, self._call, self._wish, self._incoming.head.kind
        body = self._incoming.body
        stopwatch = self._stopwatch  # and not self: a cycle is work for the garbage collector
        assert kind is not None, "not an engine's path"

        def lasts() -> float:
            return desk.forecasts.lasts_s(call.model, body)

        def choose(tried: tuple[SessionId, ...]) -> Candidate | Fault | Held:
            now = desk.clock.now()
            choice = desk.chooser.choose(
                call, wish, tried, now=now, wall=desk.clock.wall(), lasts=lasts
            )
            if stopwatch is not None:
                stopwatch.chosen_s += desk.clock.now() - now
            return choice

        return Attempts(
            config=desk.config.attempts,
            path=kind,
            streams=ask.streams,
            choose=choose,
            rng=desk.rng,
            budget=desk.budget,
        )

    def _run(self, attempts: Attempts, event: Event | None) -> None:
        """Do what follows from *event*, or from the start; and from what happens meanwhile."""
        self._is_busy = True
        now = self._desk.clock.now
        try:
            actions = (
                attempts.start(self._began_at) if event is None else attempts.step(now(), event)
            )
            for action in actions:
                self._PERFORM[type(action)](self, action)
            while self._pending:
                for action in attempts.step(now(), self._pending.pop(0)):
                    self._PERFORM[type(action)](self, action)
        except Exception:
            # A bug on one request must reach neither the mesh's connection nor other requests.
            log.exception("exchange_crashed", request=self._call.request, model=self._call.model)
            self.crash()
        finally:
            self._is_busy = False
        if attempts.is_done:
            self._conclude(attempts.outcome, attempts.status)
        elif not self._is_concluded:
            self._watch(attempts.next_deadline())

    # Actions -----------------------------------------------------------------

    def _hold(self, _: Hold) -> None:
        self._desk.waiting.join(self._call.model, self)

    def _wait_no_more(self) -> None:
        if self._desk.waiting:
            self._desk.waiting.leave(self._call.model, self)

    def _try_on(self, action: TryOn) -> None:
        self._wait_no_more()
        desk, heading = self._desk, self._heading
        method, target, _ = self._incoming.head.words
        chosen, leg = action.candidate, Leg(self)
        self._leg = leg
        if self._stopwatch is not None:
            self._stopwatch.opened_at = desk.clock.now()
        # What can wait until the request is on its way does.
        leg.stream = desk.link.open(
            chosen.path,
            method=method,
            path_and_query=target,
            headers=(*heading.outward, ("x-request-id", self._call.request)),
            body=self._incoming.body,
            deadline_s=action.deadline_s,
            trace=heading.trace,
            sink=leg,
        )
        now = desk.clock.now()
        desk.policy.on_request_start(self._call, chosen)
        leg.is_counted, leg.began_at = True, now
        desk.outcomes.start(now, chosen.session)
        desk.attempt_began(chosen.session)

    def _end_attempt(self, action: EndAttempt) -> None:
        desk, leg, chosen = self._desk, self._leg, action.candidate
        assert leg is not None
        leg.is_over = True
        if action.cancel and leg.stream is not None:
            leg.stream.cancel(action.why)
        leg.stream = None  # which holds the leg as its sink
        now = desk.clock.now()
        if leg.is_counted:
            usage = usage_of(self._attempts)
            observed = Observed(
                action.result,
                now - leg.began_at,
                usage.tokens_in,
                usage.tokens_cached,
                usage.tokens_out,
            )
            # First: a policy that fails must not leave the session counted as busy.
            desk.attempt_ended(chosen.session)
            desk.policy.on_request_end(self._call, chosen, observed)
        desk.outcomes.end(now, chosen.session, action.result)
        if desk.sightings.saw(now, chosen.path, action.result):
            desk.has_sighted.set()
        tried = len(self._attempts.tried) if self._attempts else 0
        desk.journal.attempt_ended(self._call, action, attempt=tried)

    def _reply(self, action: Reply) -> None:
        status, fields, body = action.answer
        self._has_begun = True
        lines = self._fields(fields)
        if self._stopwatch is not None and self._leg is not None:
            lines += self._stopwatch.line(self._desk.clock.now(), self._leg.timings)
        self._client.reply(status, lines, body)

    def _commit(self, action: Commit) -> None:
        self._has_begun = True
        self._streamed = True
        self._client.begin(action.status, self._fields(action.headers), action.data)

    def _forward(self, action: Forward) -> None:
        self._client.send(action.data)

    def _finish(self, _: Finish) -> None:
        self._client.finish()

    def _give_up(self, action: GiveUp) -> None:
        self._answer_fault(action.fault)

    def _break(self, action: Break) -> None:
        if action.can_say:
            self._client.say_last(sse_event(action.fault))
        else:
            self._client.cut()

    _PERFORM: ClassVar[dict[type, Callable[..., None]]] = {
        Forward: _forward,
        TryOn: _try_on,
        Hold: _hold,
        EndAttempt: _end_attempt,
        Commit: _commit,
        Finish: _finish,
        Reply: _reply,
        GiveUp: _give_up,
        Break: _break,
    }

    # Ends --------------------------------------------------------------------

    def _fields(self, engine: Headers) -> bytes:
        attempts = self._attempts
        fields = headers.homeward(engine) + b"x-request-id: %b\r\n" % self._call.request.encode()
        chosen = attempts.candidate if attempts else None
        if attempts and chosen:
            fields += b"x-otela-session: %b\r\nx-otela-site: %b\r\nx-otela-attempts: %d\r\n" % (
                chosen.session.encode(),
                chosen.site.encode(),
                len(attempts.tried),
            )
            if chosen.fingerprint:
                fields += b"x-otela-fingerprint: %b\r\n" % chosen.fingerprint.encode()
        return fields + self._desk.cors(self._heading.origin)

    def _answer_fault(self, fault: Fault) -> None:
        self._has_begun = True
        fields = self._fields(()) + _JSON
        if fault.retry_after_s:
            fields += b"retry-after: %d\r\n" % fault.retry_after_s
        self._client.reply(fault.http_status, fields, envelope(fault))

    def _refuse(self, fault: Fault) -> None:
        """Answer a request that no session sees."""
        self._answer_fault(fault)
        self._conclude(Outcome.REJECTED, fault.http_status)

    def crash(self) -> None:
        """End it, for a bug."""
        self._pending.clear()
        leg, attempts = self._leg, self._attempts
        if leg is not None and not leg.is_over and attempts and attempts.candidate:
            self._end_attempt(
                EndAttempt(attempts.candidate, Result.CANCELLED, "the router failed", cancel=True)
            )
        if self._has_begun:
            self._client.cut()
        else:
            self._answer_fault(INTERNAL)
        self._conclude(Outcome.FAILED, INTERNAL.http_status)

    def _conclude(self, outcome: Outcome, status: int) -> None:
        if self._is_concluded:
            return
        self._is_concluded = True
        self._wait_no_more()
        self._leg = None
        self._desk.alarms.forget(self._alarm)
        self._desk.left()
        record = record_of(
            self._call,
            self._attempts,
            id=self._desk.rng.randbytes(_ID_BYTES).hex(),
            router=self._desk.name,
            path=self._incoming.head.words[2],
            status=status,
            outcome=outcome,
            streamed=self._streamed,
            began_at=self._began_at,
            now=self._desk.clock.now(),
            wall=self._desk.clock.wall(),
        )
        self._desk.forecasts.learn(record, self._incoming.body)
        self._desk.journal.request_finished(record)

    # Time --------------------------------------------------------------------

    def _watch(self, deadline: float | None) -> None:
        """See to it that time is told at *deadline*; a later one is found when it comes."""
        if deadline is not None and deadline < self._watched_until:
            self._watched_until = deadline
            self._alarm = self._desk.alarms.watch(self, self._alarm)

    def next_deadline(self) -> float | None:
        """Return when time must be told, for who looks again then; None when it need not."""
        attempts = self._attempts
        deadline = None if self._is_concluded or attempts is None else attempts.next_deadline()
        self._watched_until = math.inf if deadline is None else deadline
        return deadline

    def on_deadline(self) -> None:
        """Act on the time that has passed."""
        deadline = self.next_deadline()
        if deadline is not None and self._desk.clock.now() >= deadline and self.is_paused:
            # The silence is the client's: it has not read for as long as an engine may be silent.
            self.client_gone()
            self._client.cut()
            return
        self.feed(_TICK)
