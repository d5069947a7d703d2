"""What is kept of a finished request: one log line, a few numbers, one usage record."""

import asyncio
from collections import Counter as Tally
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec
from prometheus_client import Counter, Histogram

from opentela.router.attempt_events import EndAttempt
from opentela.router.labels import ModelLabels
from opentela.router.outcomes import Result
from opentela.router.policies.base import Call
from opentela.telemetry import metrics
from opentela.telemetry.log import get_logger, json_lines
from opentela.wire import subjects, usage
from opentela.wire.usage import UsageRecord

RECORDS_MAX: Final = 50_000
"""Usage records that wait for the mesh, some 300 bytes each; beyond it the oldest are lost."""
GATHER_S: Final = 0.1
"""Records of so long are dealt with together, and leave as one write: one each cost a busy router a
quarter of its CPU. A router that is killed loses as many."""
AT_ONCE_MAX: Final = 256
"""Records of one turn of the loop, some 100 KB: after an outage there may be thousands, and they
leave over the connection that carries the requests."""
Publish: TypeAlias = Callable[[str, bytes], bool]
"""Hands a message to the mesh; False when it is surely not sent."""
RETRY_S: Final = 1.0
"""Between attempts to hand the waiting records to a mesh that is away."""

REQUESTS: Final = metrics.counter(
    "otela_router_requests_total", "Finished requests.", ("model", "outcome")
)
DURATION: Final = metrics.histogram(
    "otela_router_request_seconds",
    "Time from the complete request to the end of its answer.",
    ("model",),
)
TTFT: Final = metrics.histogram(
    "otela_router_first_token_seconds",
    "Time from the complete request to the first event of its answer.",
    ("model",),
)
TOKENS: Final = metrics.counter(
    "otela_router_tokens_total", "Tokens as engines counted them.", ("model", "direction")
)
ATTEMPTS: Final = metrics.counter(
    "otela_router_attempts_total", "Attempts at sessions, by outcome.", ("result",)
)
REFUSED: Final = metrics.counter(
    "otela_router_refused_total", "Requests that could not be read, by status.", ("status",)
)
LOST: Final = metrics.counter(
    "otela_router_usage_lost_total",
    "Usage records dropped because the mesh was unreachable for too long.",
)


_UNREMARKABLE: Final = frozenset({Result.ANSWERED, Result.CANCELLED})
_ENGINES_OWN: Final = "the engine answered with an error of its own"


class _Series:
    """The series of one model, looked up once."""

    __slots__ = ("_label", "_outcomes", "_tokens_in", "_tokens_out", "duration", "ttft")

    def __init__(self, label: str) -> None:
        self._label = label
        self._outcomes: dict[str, Counter] = {}
        self._tokens_in = TOKENS.labels(label, "in")
        self._tokens_out = TOKENS.labels(label, "out")
        self.duration: Histogram = DURATION.labels(label)
        self.ttft: Histogram = TTFT.labels(label)

    def count(self, records: Sequence[UsageRecord]) -> None:
        """Count together: each word with a counter costs as much as reading a head."""
        for outcome, times in Tally(record.outcome for record in records).items():
            counter = self._outcomes.get(outcome)
            if counter is None:
                counter = self._outcomes[outcome] = REQUESTS.labels(self._label, outcome)
            counter.inc(times)
        for record in records:
            self.duration.observe(record.duration_s)
            if record.ttft_s >= 0:
                self.ttft.observe(record.ttft_s)
        self._tokens_in.inc(sum(record.tokens_in for record in records))
        self._tokens_out.inc(sum(record.tokens_out for record in records))


class _Told(msgspec.Struct):
    """What the log says of a request, in this order."""

    request: str
    model: str
    session: str
    site: str
    path: str
    attempts: int
    outcome: str
    status: int
    duration_s: float
    ttft_s: float | None
    tokens_in: int
    tokens_out: int


def _told(record: UsageRecord) -> _Told:
    return _Told(
        record.request,
        record.model,
        record.session,
        record.site,
        record.path,
        record.attempts,
        record.outcome,
        record.status,
        record.duration_s,
        record.ttft_s if record.ttft_s >= 0 else None,
        record.tokens_in,
        record.tokens_out,
    )


class Journal:
    """Takes note of what happened; quick, and never in the way of the next request."""

    def __init__(self) -> None:
        # Made once, when logging is configured: a module's logger is put together at each call.
        self._log = get_logger().bind()
        self._lines = json_lines()
        self._labels = ModelLabels()
        self._series: dict[str, _Series] = {}
        self._results = {result: ATTEMPTS.labels(result.value) for result in Result}
        self._answered = 0
        self._fresh: list[UsageRecord] = []
        self._waiting: deque[UsageRecord] = deque(maxlen=RECORDS_MAX)
        self._has_waiting = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def attempt_ended(self, result: Result) -> None:
        """Count an attempt; those that were answered soon, with others."""
        if result is Result.ANSWERED:
            self._answered += 1
        else:
            self._results[result].inc()

    def attempt_failed(self, call: Call, ended: EndAttempt, *, attempt: int) -> None:
        """Log an attempt, by number, that brought no answer, or an error."""
        if ended.result in _UNREMARKABLE:
            return
        self._log.warning(
            "attempt_failed",
            request=call.request,
            model=call.model,
            session=ended.candidate.session,
            site=ended.candidate.site,
            attempt=attempt,
            reason=ended.result.value,
            error=ended.why or _ENGINES_OWN,
        )

    def request_finished(self, record: UsageRecord) -> None:
        """Log and count a request, and queue its usage record: soon, with others."""
        self._fresh.append(record)
        if self._lines is None:
            self.settle()
        elif len(self._fresh) == 1:
            self._loop.call_later(GATHER_S, self.settle)

    def settle(self) -> None:
        """Deal with the requests that have finished since."""
        fresh, self._fresh = self._fresh, []
        answered, self._answered = self._answered, 0
        if answered:
            self._results[Result.ANSWERED].inc(answered)
        if not fresh:
            return
        if self._lines is not None:
            self._lines.write("request_finished", [(one.at_ms / 1000, _told(one)) for one in fresh])
        by_label: dict[str, list[UsageRecord]] = {}
        for record in fresh:
            if self._lines is None:
                self._log.info("request_finished", **msgspec.structs.asdict(_told(record)))
            label = self._labels.label(record.model, is_served=bool(record.session))
            by_label.setdefault(label, []).append(record)
            if len(self._waiting) == RECORDS_MAX:
                LOST.inc()
            self._waiting.append(record)
        for label, records in by_label.items():
            series = self._series.get(label)
            if series is None:
                series = self._series[label] = _Series(label)
            series.count(records)
        self._has_waiting.set()

    def request_refused(self, status: int, reason: str) -> None:
        """Log and count a request that was not even read; the statuses are few."""
        REFUSED.labels(str(status)).inc()
        self._log.info("request_refused", status=status, reason=reason)

    @property
    def waiting(self) -> int:
        """Usage records not yet handed to the mesh."""
        return len(self._waiting) + len(self._fresh)

    async def publish_usage(self, publish: Publish) -> None:
        """Hand usage records to the mesh, for ever; run as a task of its own."""
        while True:
            await self._has_waiting.wait()
            if self._lines is None:
                await asyncio.sleep(GATHER_S)  # else they come gathered
            if not await self.flush_usage(publish):
                await asyncio.sleep(RETRY_S)

    async def flush_usage(self, publish: Publish) -> bool:
        """Hand what waits to the mesh; return whether all went."""
        self.settle()
        while self._waiting:
            for _ in range(min(len(self._waiting), AT_ONCE_MAX)):
                if not publish(subjects.USAGE, usage.encode(self._waiting[0])):
                    return False
                self._waiting.popleft()
            await asyncio.sleep(0)
        self._has_waiting.clear()
        return True
