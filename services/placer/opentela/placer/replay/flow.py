"""Requests of one model on their way: which were answered or turned away by now.

The times that a replay is judged by come from `queue`, for a whole trace at once. A placer learns
of requests while they end, so here they pass one after another, as soon as that speed allows.
"""

import heapq
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from opentela.core.ids import SessionId
from opentela.wire.usage import UsageRecord

AGAIN_S: Final = 60.0
"""Who was turned away asks again after this, until somebody answers."""
AGAIN_MAX: Final = 100
"""So many of those who wait are told of at once; more say nothing else."""
_SOMEBODY: Final = SessionId("0")


class Asked(NamedTuple):
    """One request.

    Attributes:
        work: In mean requests.
        takes_s: From the moment at which a replica takes it up to its last token.
    """

    arrival_s: float
    work: float
    takes_s: float
    in_tokens: int
    cached_tokens: int
    out_tokens: int


class Flow:
    """The requests of one model."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._waiting: deque[Asked] = deque()
        self._left = 0.0
        self._running: list[tuple[float, int, Asked]] = []
        self._count = 0
        self._told_s = 0.0

    def pass_by(
        self, from_s: float, until_s: float, speed: float, came: list[Asked]
    ) -> Iterator[UsageRecord]:
        """Yield what ended between two instants.

        Args:
            from_s: At which the time before has been told.
            until_s: Up to which to tell.
            speed: Mean requests a second that the replicas serve in between; 0 without any.
            came: Who asked in between, in order of arrival.
        """
        self._waiting += came
        if speed <= 0:
            yield from self._turned_away(until_s, came)
        else:
            self._serve(from_s, until_s, speed)
        while self._running and self._running[0][0] <= until_s:
            yield _answered(self._model, heapq.heappop(self._running)[-1])

    def _turned_away(self, until_s: float, came: list[Asked]) -> Iterator[UsageRecord]:
        count = len(came)
        if self._waiting and until_s - self._told_s >= AGAIN_S:
            self._told_s, count = until_s, len(self._waiting)
        return (_refused(self._model) for _ in range(min(count, AGAIN_MAX)))

    def _serve(self, from_s: float, until_s: float, speed: float) -> None:
        at = from_s
        while self._waiting:
            one = self._waiting[0]
            begins = max(at, one.arrival_s)
            left = self._left or one.work
            if begins + left / speed > until_s:
                self._left = max(left - max(until_s - begins, 0.0) * speed, 1e-12)
                return
            at, self._left = begins + left / speed, 0.0
            self._waiting.popleft()
            self._count += 1
            heapq.heappush(self._running, (begins + one.takes_s, self._count, one))


def _answered(model: str, one: Asked) -> UsageRecord:
    return UsageRecord(
        id="",
        request="",
        at_ms=0,
        router="",
        model=model,
        session=_SOMEBODY,
        path="",
        status=200,
        outcome="ok",
        attempts=1,
        tokens_in=one.in_tokens,
        tokens_cached=one.cached_tokens,
        tokens_out=one.out_tokens,
        duration_s=one.takes_s,
    )


def _refused(model: str) -> UsageRecord:
    return UsageRecord(
        id="",
        request="",
        at_ms=0,
        router="",
        model=model,
        path="",
        status=503,
        outcome="rejected",
        attempts=0,
        duration_s=0.0,
    )
