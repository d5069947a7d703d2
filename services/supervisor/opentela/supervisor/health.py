"""Whether an engine lives, from three kinds of evidence: its output, its answers, its tokens.

An engine can be alive in one way and dead in another: `/health` answers while its scheduler has
stopped, or the process runs while nothing answers. So each kind of evidence has its own limit, and
a token is proof against a missed probe, because a busy engine may answer probes late. Time in
which this process itself did not run counts for nothing.
"""

from enum import StrEnum
from typing import NamedTuple

from opentela.supervisor.config import WatchConfig


class Condition(StrEnum):
    """What is known of an engine."""

    UNKNOWN = "unknown"  # still loading
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"  # it says so, or refuses connections, or went silent while loading
    HUNG = "hung"  # it runs, and does nothing


class Finding(NamedTuple):
    """A condition and, unless it is healthy, why."""

    condition: Condition
    reason: str = ""


class Health:
    """The evidence of one engine's life.

    Every method takes the instant at which its evidence was seen; instants never go back.
    """

    def __init__(self, config: WatchConfig, now: float) -> None:
        self._config = config
        self._seen_at = now
        self._output_at = now
        self._alive_at = now
        self._answers = False
        self._failures = 0
        self._timeouts = 0
        self._failure = ""
        self._running = 0
        self._received = 0
        self._tokens: float | None = None
        self._stalled_s = 0.0

    def wrote(self, now: float) -> None:
        """The engine wrote to its log."""
        self._pass_time(now)
        self._output_at = now

    def answered(self, now: float) -> None:
        """A health probe was answered well."""
        self._pass_time(now)
        self._answers = True
        self._failures = self._timeouts = 0
        self._alive_at = now

    def failed(self, now: float, reason: str) -> None:
        """A health probe was refused, or answered with an error."""
        self._pass_time(now)
        self._answers = False
        self._failures += 1
        self._failure = reason

    def timed_out(self, now: float) -> None:
        """A health probe was not answered."""
        self._pass_time(now)
        self._answers = False
        self._timeouts += 1

    def carried(self, now: float, running: int, received: int) -> None:
        """So many requests are at the engine, and so many bytes came from it since its start."""
        self._pass_time(now)
        self._running = running
        if received != self._received:
            self._received = received
            self._progress(now)

    def counted(self, now: float, tokens: float) -> None:
        """The engine has worked on so many tokens since its start, by its own count."""
        self._pass_time(now)
        if self._tokens is not None and tokens != self._tokens:
            self._progress(now)
        self._tokens = tokens

    def judge_loading(self, now: float) -> Finding:
        """Return whether a loading engine has begun to answer, or went silent."""
        self._pass_time(now)
        silent_s = now - self._output_at
        if silent_s >= self._config.load_stall_s:
            return Finding(
                Condition.UNHEALTHY,
                f"loading, and silent for {silent_s:.0f} s{self._latest_failure()}",
            )
        return Finding(Condition.HEALTHY if self._answers else Condition.UNKNOWN)

    def judge_ready(self, now: float) -> Finding:
        """Return whether an engine that has served still does."""
        self._pass_time(now)
        config = self._config
        if self._failures >= config.failures_max:
            return Finding(
                Condition.UNHEALTHY,
                f"{self._failures} health probes in a row failed{self._latest_failure()}",
            )
        silent_s = now - self._alive_at
        if self._timeouts >= config.timeouts_max and silent_s >= config.hang_s:
            return Finding(Condition.HUNG, f"no sign of life for {silent_s:.1f} s")
        if self._stalled_s >= self._stall_limit_s():
            return Finding(
                Condition.HUNG,
                f"no token for {self._stalled_s:.0f} s with {self._running} requests running",
            )
        return Finding(Condition.HEALTHY)

    def _stall_limit_s(self) -> float:
        return self._config.blind_stall_s if self._tokens is None else self._config.stall_s

    def _latest_failure(self) -> str:
        return f" ({self._failure})" if self._failure else ""

    def _progress(self, now: float) -> None:
        self._stalled_s = 0.0
        self._alive_at = now

    def _pass_time(self, now: float) -> None:
        passed_s = now - self._seen_at
        assert passed_s >= 0, f"time went back by {-passed_s} s"
        self._seen_at = now
        if passed_s > self._config.pause_s:
            self._output_at += passed_s
            self._alive_at += passed_s
        elif self._running:
            # Summed up rather than measured from one instant: requests that a router gave up
            # after its own time-out must not wind the clock back.
            self._stalled_s += passed_s
