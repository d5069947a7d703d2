"""The life of one request: which session is tried, when again, and what the client gets.

::

            start                Head               first bytes             End
    (new) ───────► TRYING ──────────────► HEADED ───────────────► COMMITTED ─────► (done)
                    ▲  │ Failed, Tick       │ Failed, Tick, 503     │ Failed, Tick
        next session│  ▼                    ▼                       ▼
                   WAITING ◄──── may try again ────► GiveUp        Break

    Before each attempt the request may be HELD until there is a session that can take it.

Until something was sent to the client an attempt that fails is followed by another, never at the
same session unless it may only be slow, or the way there, and there is no other: always when the
engine surely did not begin (`definite`), and on paths that only compute also when it may have.
Answers that are not streams are held until they are whole, so that an engine lost in the middle
costs only time. What was sent cannot be taken back: a stream that breaks then ends with an error
event, anything else with a cut connection. Definite failures: Kingsbury, Maelstrom, "Errors".
"""

from collections.abc import Callable
from typing import ClassVar, Final

from opentela.core.ids import SessionId
from opentela.core.rng import Rng
from opentela.router import endings
from opentela.router.answers import (
    SURELY_NOT_BEGUN,
    TRY_ELSEWHERE,
    Answer,
    is_plain,
    is_status,
    presented,
    shown_status,
)
from opentela.router.attempt_events import (
    BETWEEN,
    COMMITTED,
    TRYING,
    Action,
    Break,
    ClientGone,
    Commit,
    Data,
    End,
    EndAttempt,
    Event,
    Failed,
    Finish,
    Forward,
    GiveUp,
    Head,
    Hold,
    Outcome,
    Phase,
    Recheck,
    Reply,
    Tick,
    TryOn,
    Whole,
)
from opentela.router.choosing import Choose, Held
from opentela.router.chunks import Usage, usage_of
from opentela.router.config import AttemptConfig
from opentela.router.directory import Candidate
from opentela.router.fault import Fault, of_fail
from opentela.router.holding import Holding
from opentela.router.outcomes import Result
from opentela.router.paths import EnginePath
from opentela.router.retries import RetryBudget, backoff, has_left
from opentela.router.sse import StreamEnd, StreamWatch
from opentela.wire.frames import FailKind, Headers

_END: Final = End()
_NOTHING: Final = Holding(0, ())


class Attempts:
    """All attempts of one request, as one machine.

    Attributes:
        candidate: The session that was tried last.
        tried: Sessions, in order.
        outcome: How the request ended.
        status: Of the answer; 0 while there is none.
        first_at: When the first bytes of a stream were ready for the client.
        usage: Tokens as the engine counted them.
    """

    __slots__ = (
        "_absent", "_budget", "_choose", "_config", "_deadline", "_ends_at", "_fault", "_got",
        "_held_until", "_path", "_phase", "_refused", "_rng", "_spared",
        "_streams", "_watch", "candidate", "first_at", "outcome", "status", "tried", "usage",
    )  # fmt: skip

    def __init__(
        self,
        *,
        config: AttemptConfig,
        path: EnginePath,
        streams: bool,
        choose: Choose,
        rng: Rng,
        budget: RetryBudget | None = None,
    ) -> None:
        self.tried: tuple[SessionId, ...] = ()
        self._spared: tuple[SessionId, ...] = ()  # may only be slow, or the way there
        self._absent = 0  # of those tried: they were not there, and nothing was repeated
        self.outcome = Outcome.RUNNING
        self.status = 0
        self.first_at: float | None = None
        self.usage: Usage | None = None
        self._config = config
        self._path = path
        self._streams = streams
        self._choose = choose
        self._rng = rng
        self._budget = budget or RetryBudget(config)
        self._held_until: float | None = None
        self._phase = Phase.NEW
        self._deadline: float | None = None
        self._ends_at = 0.0
        self.candidate: Candidate | None = None
        self._fault: Fault | None = None
        self._refused: Answer | None = None
        self._got = _NOTHING
        self._watch: StreamWatch | None = None

    @property
    def is_done(self) -> bool:
        """Whether the client has all that it will get."""
        return self._phase is Phase.DONE

    def next_deadline(self) -> float | None:
        """Return when a `Tick` is due next; None when none is."""
        return self._deadline

    def start(self, now: float) -> list[Action]:
        """Begin; the time of all attempts counts from *now*."""
        assert self._phase is Phase.NEW
        self._ends_at = now + self._config.total_s
        self._budget.deposit()
        return self._try(now)

    def step(self, now: float, event: Event) -> list[Action]:
        """Take one event of the attempt under way; return what to do, in order."""
        if self._phase is Phase.DONE:
            return []
        return self._HANDLERS[type(event)](self, now, event)

    def _on_head(self, now: float, head: Head) -> list[Action]:
        if self._phase is not TRYING:
            return []
        if not is_status(head.status):
            return self._fail(now, Result.FAILED, endings.NO_STATUS, cancel=True)
        self._phase = Phase.HEADED
        self._got = Holding(head.status, head.headers)
        if self._path.has_body and self._got.is_readable:
            self._watch = StreamWatch(ends_with_done=self._path.ends_with_done)
        return []

    def answers(self, status: int, headers: Headers) -> bool:
        """Take a whole answer that ends the request and is the client's as it is: nearly every one.

        Its `usage` is to be set. False changes nothing, and the answer is for `step`.
        """
        if self._phase is not TRYING or not is_plain(status, headers):
            return False
        self.status = status
        self._conclude(Outcome.OK)
        return True

    def _on_whole(self, now: float, event: Whole) -> list[Action]:
        if self.answers(event.status, event.headers):
            self.usage = usage_of(event.body)
            # The answer first: the books can wait.
            reply = Reply(Answer(event.status, event.headers, event.body))
            return [reply, *self._end_attempt(Result.ANSWERED)]
        actions = self._on_head(now, Head(event.status, event.headers))
        if self._phase is not Phase.HEADED:
            return actions
        if self._watch:
            return [*self._on_data(now, Data(event.body)), *self._on_end(now, _END)]
        self._got.add(event.body)
        return self._end_whole(now)

    def pass_on(self, now: float, data: bytes) -> bytes | None:
        """Return what the client gets now of an answer that flows; None is for `step` to take."""
        if self._phase is not COMMITTED:
            return None
        deadline = now + self._config.idle_s
        self._deadline = deadline if deadline < self._ends_at else self._ends_at  # noqa: FURB136
        return self._watch.feed(data) if self._watch else data

    def _on_data(self, now: float, event: Data) -> list[Action]:
        watch, data = self._watch, event.data
        if (passed := self.pass_on(now, data)) is not None:
            return [Forward(passed)] if passed else []
        if self._phase is not Phase.HEADED or not data or self._got.is_bodiless:
            return []
        if watch:
            self._wait_until(now + self._config.idle_s)
            passed = watch.feed(data)
            return self._commit(now, passed) if passed else []
        got = self._got
        got.add(data)
        if got.is_stream or got.size > self._config.held_bytes_max:
            self._wait_until(now + self._config.idle_s)
            return self._commit(now, got.taken())
        return []

    def _commit(self, now: float, data: bytes) -> list[Action]:
        self._phase = COMMITTED
        self.first_at = now
        self.status = shown_status(self._got.status)
        return [Commit(self.status, self._got.headers, data)]

    def _on_end(self, now: float, _: End) -> list[Action]:
        if self._phase is Phase.HEADED:
            return self._end_stream_unsent(now) if self._watch else self._end_whole(now)
        if self._phase is not COMMITTED:
            return []
        if not self._watch:
            return [
                *self._end_attempt(self._answered()),
                *self._finish(endings.outcome_of(self.status)),
            ]
        return self._end_stream()

    def _end_stream(self, *, cancel: bool = False) -> list[Action]:
        """End a stream of which something was sent."""
        assert self._watch is not None
        ending, held = self._watch.end()
        self.usage = self._watch.usage
        if ending is StreamEnd.CUT_OFF:
            return self._break(Result.FAILED, endings.CUT_OFF)
        result = Result.ERRORED if ending is StreamEnd.FAILED else Result.ANSWERED
        last: list[Action] = [Forward(held)] if held else []
        attempt = self._end_attempt(result, cancel=cancel)
        return [*attempt, *last, *self._finish(endings.STREAM_OUTCOMES[ending])]

    def _end_stream_unsent(self, now: float) -> list[Action]:
        """End a stream of which no whole event came: nothing, or one without its blank line."""
        assert self._watch is not None
        ending, held = self._watch.end()
        if not held or ending is StreamEnd.CUT_OFF:
            return self._fail(now, Result.FAILED, endings.CUT_OFF)
        attempt = self._end_attempt(Result.ANSWERED)
        return [*attempt, *self._commit(now, held), *self._finish(endings.STREAM_OUTCOMES[ending])]

    def _end_whole(self, now: float) -> list[Action]:
        answer = self._got.answer()
        if answer.status in TRY_ELSEWHERE:
            self._refused = answer
            definite = answer.status in SURELY_NOT_BEGUN
            return self._fail(now, Result.ERRORED, None, definite=definite)
        self.usage = usage_of(answer.body)
        # The answer first: the books can wait.
        return [*self._reply(answer), *self._end_attempt(self._answered())]

    def _on_failed(self, now: float, event: Failed) -> list[Action]:
        fail = event.fail
        result = endings.result_of(fail.kind)
        if self._phase is COMMITTED:
            return self._break(result, of_fail(fail))
        if self._phase in BETWEEN:
            return []
        if fail.kind in endings.MAY_BE_SLOW:
            self._spared = self.tried[-1:]
        self._absent += fail.kind is FailKind.NO_RESPONDERS and fail.definite
        return self._fail(
            now, result, of_fail(fail), definite=fail.definite, retryable=fail.retryable
        )

    def _on_tick(self, now: float, _: Tick) -> list[Action]:
        if self._deadline is None or now < self._deadline:
            return []
        if self._phase in BETWEEN:
            return self._try(now)
        if self._phase is COMMITTED:
            return self._break(Result.TIMED_OUT, endings.SILENT, cancel=True)
        return self._fail(now, Result.TIMED_OUT, endings.SILENT, cancel=True)

    def _on_client_gone(self, _now: float, _: ClientGone) -> list[Action]:
        if self._watch and self._watch.has_said_last:
            return self._end_stream(cancel=True)
        if self._watch:
            self.usage = self._watch.usage
        is_between = self._phase in BETWEEN
        self._conclude(Outcome.CANCELLED)
        if is_between:
            return []
        return self._end_attempt(Result.CANCELLED, "the client left", cancel=True)

    def _on_recheck(self, now: float, _: Recheck) -> list[Action]:
        return self._try(now) if self._phase is Phase.HELD else []

    def _try(self, now: float) -> list[Action]:
        """Go to the next session, or end with the best that is known."""
        choice = self._choose(self.tried)
        if self._spared and isinstance(choice, Fault):
            choice = self._choose(tuple(one for one in self.tried if one not in self._spared))
        if not isinstance(choice, Candidate):
            if isinstance(choice, Held):
                if self._held_until is None:
                    self._held_until = min(now + choice.wait_s, self._ends_at)
                if now < self._held_until and (choice.has_room or self._phase is Phase.HELD):
                    self._phase = Phase.HELD
                    self._wait_until(self._held_until)
                    return [Hold()]
                choice = choice.fault
            if self._refused:
                return self._reply(self._refused)
            return self._give_up(self._fault or choice)
        self._got, self._watch, self._phase = _NOTHING, None, TRYING
        self.candidate = choice
        if self._spared:
            self._spared = tuple(one for one in self._spared if one != choice.session)
        self.tried = (*self.tried, choice.session)
        self._wait_until(now + (self._config.first_s if self._streams else self._config.unary_s))
        return [TryOn(choice, max(self._ends_at - now, 0.001))]

    def _fail(
        self,
        now: float,
        result: Result,
        fault: Fault | None,
        *,
        definite: bool = False,
        retryable: bool = True,
        cancel: bool = False,
    ) -> list[Action]:
        """End an attempt of which nothing was sent; *fault* is None when the engine answered."""
        why = fault.message if fault else f"the engine answered {self._got.status}"
        attempt = self._end_attempt(result, why, cancel=cancel)
        if fault:
            self._fault, self._refused = fault, None
        tried = len(self.tried) - self._absent
        left = retryable and now < self._ends_at and has_left(self._config, tried, self._absent)
        if left and (definite or (self._path.only_computes and self._budget.take())):
            delay = backoff(self._config, self._rng, tried=tried, definite=definite)
            if not delay:
                return [*attempt, *self._try(now)]
            self._phase = Phase.WAITING
            self._wait_until(now + delay)
            return attempt
        if self._refused:
            return [*attempt, *self._reply(self._refused)]
        assert self._fault is not None
        return [*attempt, *self._give_up(self._fault)]

    def _wait_until(self, deadline: float) -> None:
        self._deadline = deadline if deadline < self._ends_at else self._ends_at  # noqa: FURB136

    def _end_attempt(self, result: Result, why: str = "", *, cancel: bool = False) -> list[Action]:
        assert self.candidate is not None
        return [EndAttempt(self.candidate, result, why, cancel)]

    def _answered(self) -> Result:
        return Result.ERRORED if self._got.status >= endings.ENGINE_ERROR else Result.ANSWERED

    def _reply(self, answer: Answer) -> list[Action]:
        shown = presented(answer)
        self.status = shown.status
        self._conclude(endings.outcome_of(self.status))
        return [Reply(shown)]

    def _finish(self, outcome: Outcome) -> list[Action]:
        self._conclude(outcome)
        return [Finish()]

    def _give_up(self, fault: Fault) -> list[Action]:
        self.status = fault.http_status
        self._conclude(Outcome.FAILED if self.status >= endings.ENGINE_ERROR else Outcome.REJECTED)
        return [GiveUp(fault)]

    def _break(self, result: Result, fault: Fault, *, cancel: bool = False) -> list[Action]:
        if self._watch and self._watch.has_said_last:
            return self._end_stream(cancel=cancel)  # nothing is missing
        if self._watch:
            self.usage = self._watch.usage
        attempt = self._end_attempt(result, fault.message, cancel=cancel)
        self._conclude(Outcome.BROKEN)
        return [*attempt, Break(fault, can_say=self._watch is not None)]

    def _conclude(self, outcome: Outcome) -> None:
        self._phase, self._deadline, self.outcome = Phase.DONE, None, outcome

    _HANDLERS: ClassVar[dict[type, Callable[..., list[Action]]]] = {
        Data: _on_data,
        Head: _on_head,
        Whole: _on_whole,
        End: _on_end,
        Failed: _on_failed,
        Recheck: _on_recheck,
        Tick: _on_tick,
        ClientGone: _on_client_gone,
    }
