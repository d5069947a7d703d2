"""One request between a client and the mesh: performs what `Attempts` decides, and nothing else."""

import math
from collections.abc import Callable
from functools import partial
from typing import ClassVar, Final

from opentela.router import chunks, constraints, headers
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
    Whole,
)
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


class Exchange:
    """One request, from its last byte in to its last byte out."""

    __slots__ = (
        "_alarm", "_attempts", "_began_at", "_call", "_client", "_desk", "_has_begun",
        "_heading", "_id", "_incoming", "_is_busy", "_is_concluded", "_is_held", "_leg",
        "_pending", "_stopwatch", "_streamed", "_watched_until", "_wish",
    )  # fmt: skip

    def __init__(self, desk: Desk, client: Client, incoming: Reading) -> None:
        self._desk = desk
        self._client = client
        self._incoming = incoming
        self._began_at = desk.clock.now()
        self._heading = incoming.head.read()
        self._id = desk.new_id()
        self._call = Call("", self._heading.request or self._id)
        self._attempts: Attempts | None = None
        self._leg: Leg | None = None
        self._pending: list[Event] = []
        self._is_busy = False
        self._is_concluded = False
        self._is_held = False
        self._has_begun = False
        self._streamed = False
        self._stopwatch = Stopwatch(incoming.read_at) if desk.config.server_timing else None
        self._watched_until = math.inf
        self._alarm = 0
        self._wish = NO_WISH
        desk.in_flight += 1

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
        body = incoming.body
        ask = read_wanted(head.method, head.target, head.headers, body, incoming.large)
        if not isinstance(ask, Ask):
            self._refuse(ask)
            return
        model = ask.model or desk.chooser.only_model()
        if not model:
            self._refuse(UNNAMED)
            return
        asked, is_pinned = self._heading.asked, "@" in model and desk.chooser.is_pinned(model)
        if asked or ask.otela or is_pinned:
            settled = constraints.settle(model, body, headers=asked, ask=ask, is_pinned=is_pinned)
            if isinstance(settled, Fault):
                self._refuse(settled)
                return
            model, self._wish, body = settled.model, settled.wish, settled.body
        call = self._call = Call(model, self._call.request, body)
        assert head.kind is not None, "not an engine's path"
        self._attempts = Attempts(
            config=desk.config.attempts,
            path=head.kind,
            streams=ask.streams,
            # Without this request in it: a cycle is work for the garbage collector.
            choose=partial(desk.choose, call, self._wish, self._stopwatch),
            rng=desk.rng,
            budget=desk.budget,
        )
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
        except Exception as error:  # noqa: BLE001 - it is logged there
            self.crash(error)
        else:
            if passed is None:
                self.feed(Data(data))

    def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Take a whole answer, mostly one that the client gets as it is."""
        attempts, is_taken = self._attempts, False
        assert attempts is not None and attempts.candidate is not None  # noqa: PT018 - no test
        try:
            if not self._is_busy and attempts.answers(status, headers):
                is_taken = True
                self._reply(status, headers, body)
                attempts.usage = chunks.usage_of(body)
                self._close_attempt(attempts.candidate, Result.ANSWERED)
                self._conclude(attempts.outcome, status)
        except Exception as error:  # noqa: BLE001 - it is logged there
            self.crash(error)
        else:
            if not is_taken:
                self.feed(Whole(status, headers, body))

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

    def _run(self, attempts: Attempts, event: Event | None) -> None:
        """Do what follows from *event*, or from the start; and from what happens meanwhile."""
        self._is_busy = True
        now, perform = self._desk.clock.now, self._PERFORM
        try:
            actions = (
                attempts.start(self._began_at) if event is None else attempts.step(now(), event)
            )
            for action in actions:
                perform[type(action)](self, action)
            while self._pending:
                for action in attempts.step(now(), self._pending.pop(0)):
                    perform[type(action)](self, action)
        except Exception as error:  # noqa: BLE001 - it is logged there
            # A bug on one request must reach neither the mesh's connection nor other requests.
            self.crash(error)
        finally:
            self._is_busy = False
        if attempts.is_done:
            self._conclude(attempts.outcome, attempts.status)
        elif not self._is_concluded:
            self._watch(attempts.next_deadline())

    # Actions -----------------------------------------------------------------

    def _hold(self, _: Hold) -> None:
        self._is_held = True
        self._desk.waiting.join(self._call.model, self)

    def _wait_no_more(self) -> None:
        self._is_held = False
        self._desk.waiting.leave(self._call.model, self)

    def _try_on(self, action: TryOn) -> None:
        if self._is_held:
            self._wait_no_more()
        desk, heading, call = self._desk, self._heading, self._call
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
            headers=(*heading.outward, ("x-request-id", call.request)),
            body=call.body,
            deadline_s=action.deadline_s,
            trace=heading.trace,
            sink=leg,
        )
        leg.began_at = desk.clock.now()
        desk.policy.on_request_start(call, chosen)
        leg.is_counted = True
        desk.outcomes.start(leg.began_at, chosen.session)
        desk.waiting.started(chosen.session)

    def _end_attempt(self, action: EndAttempt) -> None:
        desk, leg, chosen = self._desk, self._leg, action.candidate
        assert leg is not None
        if action.cancel and leg.stream is not None:
            leg.is_over = True
            leg.stream.cancel(action.why)
        now = self._close_attempt(chosen, action.result)
        if desk.sightings.saw(now, chosen.path, action.result):
            desk.has_sighted.set()
        if action.result is not Result.ANSWERED:
            tried = len(self._attempts.tried) if self._attempts else 0
            desk.journal.attempt_failed(self._call, action, attempt=tried)

    def _close_attempt(self, chosen: Candidate, result: Result) -> float:
        """Let the books know of the end of the attempt; return when it was."""
        desk, leg, now = self._desk, self._leg, self._desk.clock.now()
        assert leg is not None
        leg.is_over = True
        leg.stream = None  # which holds the leg as its sink
        usage = usage_of(self._attempts)
        if leg.is_counted:
            # First: a policy that fails must not leave the session counted as busy.
            desk.attempt_ended(chosen.session)
            tokens = (usage.tokens_in, usage.tokens_cached, usage.tokens_out)
            observed = Observed(result, now - leg.began_at, *tokens)
            desk.policy.on_request_end(self._call, chosen, observed)
        desk.outcomes.end(now, chosen.session, result)
        desk.journal.attempt_ended(result)
        return now

    def _reply(self, status: int, fields: Headers, body: bytes) -> None:
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
        Reply: lambda self, action: self._reply(*action.answer),
        GiveUp: _give_up,
        Break: _break,
    }

    # Ends --------------------------------------------------------------------

    def _fields(self, engine: Headers) -> bytes:
        attempts, origin = self._attempts, self._heading.origin
        fields = headers.homeward(engine) + b"x-request-id: %b\r\n" % self._call.request.encode()
        if attempts is not None and (chosen := attempts.candidate) is not None:
            fields += headers.of_session(
                chosen.session, chosen.path.site, chosen.fingerprint, len(attempts.tried)
            )
        return fields + self._desk.cors(origin) if origin else fields

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

    def crash(self, error: Exception) -> None:
        """End it, for a bug."""
        request, model = self._call.request, self._call.model
        log.error("exchange_crashed", request=request, model=model, exc_info=error)
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
        if self._is_held:
            self._wait_no_more()
        self._leg = None
        desk, call = self._desk, self._call
        desk.alarms.forget(self._alarm)
        desk.left()
        record = record_of(
            call,
            self._attempts,
            id=self._id,
            router=desk.name,
            path=self._incoming.head.words[2],
            status=status,
            outcome=outcome,
            streamed=self._streamed,
            began_at=self._began_at,
            now=desk.clock.now(),
            wall=desk.clock.wall(),
        )
        desk.forecasts.learn(record, call.body)
        desk.journal.request_finished(record)

    # Time --------------------------------------------------------------------

    def _watch(self, deadline: float | None) -> None:
        """See to it that time is told at *deadline*; a later one is found when it comes."""
        if deadline is not None and deadline < self._watched_until:
            self._watched_until = deadline
            self._alarm = self._desk.alarms.watch(self, deadline, self._alarm)

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
