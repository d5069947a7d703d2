"""What is asked of each model, over a window that slides in steps."""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from opentela.placer.live.config import DemandConfig
from opentela.wire.usage import UsageRecord

STEPS: Final = 60
"""Parts of the window: one is forgotten at a time."""
_TURNED_AWAY: Final = frozenset({404, 503})
"""Statuses of requests that met nobody who serves their model."""
TOKENS_MAX: Final = 1 << 21
"""Of a prompt or an answer; twice the longest context that there is. What is beyond is a mistake,
and one such number would outweigh all true ones in a mean."""
UNKNOWN_RPS: Final = 0.1
"""What requests that were turned away count for where none was answered: enough for one replica.
Clients repeat them, so that how many there are says little; what it serves then says more."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked of one model.

    Attributes:
        rate_rps: Requests a second that were answered, the greater of the whole window's mean and
            its last part's; and as many of those that were turned away, if there are.
        refused_rps: Those that were turned away because nobody served the model.
        expected_rps: Requests a second for which it is worth having replicas, as far as the past
            tells: the mean of the window's and of the long mean, whether anybody asks now or not.
        in_cv: Standard deviation of prompts' lengths over their mean; out_cv of answers'.
        cv: Burstiness: variation of the gaps between arrivals; 1 is Poisson.
        prefix_hit: Share of prompt tokens that a cache held.
        waits_s: For how long whoever asked was turned away; 0 once anybody is answered.
    """

    model: str
    rate_rps: float = 0.0
    refused_rps: float = 0.0
    expected_rps: float = 0.0
    in_tokens: float = 0.0
    out_tokens: float = 0.0
    in_cv: float = 1.0
    out_cv: float = 1.0
    cv: float = 1.0
    prefix_hit: float = 0.0
    waits_s: float = 0.0


class _Step:
    """Sums over one part of the window."""

    __slots__ = ("answered", "cached", "in2", "in_", "out", "out2", "refused", "sized")

    def __init__(self) -> None:
        self.answered = self.refused = self.sized = 0
        self.in_ = self.in2 = self.out = self.out2 = self.cached = 0.0

    @property
    def counted(self) -> int:
        """How many were answered, and one more if any were turned away: those are repeated."""
        return self.answered + min(self.refused, 1)

    def add(self, record: UsageRecord, *, is_refused: bool) -> None:
        self.answered += not is_refused
        self.refused += is_refused
        if _is_sized(record):
            self.sized += 1
            self.in_ += record.tokens_in
            self.in2 += record.tokens_in**2
            self.out += record.tokens_out
            self.out2 += record.tokens_out**2
            self.cached += record.tokens_cached


class _Memory:
    """A mean that fades."""

    __slots__ = ("_at", "_count")

    def __init__(self, now: float) -> None:
        self._at, self._count = now, 0.0

    def add(self, now: float, memory_s: float) -> None:
        """Count one more."""
        self._count = self._count * math.exp((self._at - now) / memory_s) + 1
        self._at = now

    def rate(self, now: float, memory_s: float, listened_s: float) -> float:
        """Return how many there were a second, of those *listened_s*."""
        count = self._count * math.exp((self._at - now) / memory_s)
        return count / (memory_s * -math.expm1(-listened_s / memory_s))


class Demands:
    """Requests of the models that may be placed; of others nothing is remembered.

    Args:
        names: By each name that clients use: the model.
    """

    def __init__(self, config: DemandConfig, names: Mapping[str, str], now: float) -> None:
        self._config = config
        self._names = names
        self._step_s = config.window_s / STEPS
        self._first = math.floor(now / self._step_s)
        self._steps: dict[str, deque[tuple[int, _Step]]] = {}
        self._began_at = now
        self._asked_at: dict[str, float] = {}
        self._base: dict[str, _Memory] = {}
        self._refused_since: dict[str, float] = {}

    def add(self, now: float, records: Iterable[UsageRecord]) -> None:
        """Take note of requests that have ended."""
        number = math.floor(now / self._step_s)
        for record in records:
            model = self._names.get(record.model)
            if model is None:
                continue
            self._asked_at[model] = now
            steps = self._steps.setdefault(model, deque(maxlen=STEPS + 1))
            if not steps or steps[-1][0] != number:
                steps.append((number, _Step()))
            counted = steps[-1][1].counted
            # What an engine says is not there, as a path, was asked of one that serves.
            is_refused = record.status in _TURNED_AWAY and not record.session
            steps[-1][1].add(record, is_refused=is_refused)
            if is_refused:
                self._refused_since.setdefault(model, now)
            else:
                self._refused_since.pop(model, None)
            if self._config.base_s and steps[-1][1].counted > counted:
                base = self._base.setdefault(model, _Memory(now))
                base.add(now, self._config.base_s)

    def of(self, now: float, model: str) -> Asked:
        """Return what was asked of *model*."""
        steps = dict(self._within(now, model))
        base = self._long(now, model)
        if not steps:
            # Whoever waited has given up; who asks next waits anew.
            self._refused_since.pop(model, None)
            return Asked(model=model, expected_rps=base / 2)
        # One that has listened for a short while only divides by that, but not by nothing.
        listened_s = max(now - self._began_at, self._step_s)
        window_s = min(self._config.window_s, listened_s)
        fast_s = min(self._config.fast_s, listened_s)
        since = now - fast_s - self._step_s
        lately = [one for number, one in steps.items() if number * self._step_s >= since]
        slow = sum(one.answered for one in steps.values()) / window_s
        fast = sum(one.answered for one in lately) / max(fast_s, self._step_s)
        refused = sum(one.refused for one in lately) / max(fast_s, self._step_s)
        answered = max(slow, fast)
        turned_away = sum(one.refused for one in steps.values()) / window_s
        counted = min(refused, max(answered, UNKNOWN_RPS))
        if turned_away and not answered:
            counted = max(counted, UNKNOWN_RPS)
        rate = answered + counted
        present = slow + min(turned_away, max(slow, UNKNOWN_RPS))
        return _sized(
            Asked(
                model=model,
                rate_rps=rate,
                refused_rps=refused,
                expected_rps=(present + base) / 2 if self._config.base_s else rate,
                cv=self._cv(now, steps),
                waits_s=now - self._refused_since.get(model, now),
            ),
            list(steps.values()),
        )

    def is_asked(self, now: float, model: str) -> bool:
        """Return whether any request for *model* ended within the window."""
        return next(self._within(now, model), None) is not None

    def _long(self, now: float, model: str) -> float:
        """Return the long mean."""
        memory = self._base.get(model)
        listened_s = max(now - self._began_at, self._step_s)
        return memory.rate(now, self._config.base_s, listened_s) if memory else 0.0

    def has_learnt(self, now: float) -> bool:
        """Return whether it has listened for long enough to know who does not ask."""
        return now - self._began_at >= self._config.learn_s

    def quiet_s(self, now: float, model: str) -> float:
        """Return for how long nobody has asked for *model*, as far as it has listened."""
        return now - self._asked_at.get(model, self._began_at)

    def _within(self, now: float, model: str) -> Iterator[tuple[int, _Step]]:
        since = math.floor((now - self._config.window_s) / self._step_s)
        steps = self._steps.get(model)
        while steps and steps[0][0] <= since:
            steps.popleft()
        return iter(steps or ())

    def _cv(self, now: float, steps: Mapping[int, _Step]) -> float:
        """Return what counts by the step say of the gaps: variance over mean is their cv²."""
        last = math.floor(now / self._step_s) - 1  # the present step is not over
        first = max(self._first + 1, last - STEPS + 1)
        counts = [steps[n].answered if n in steps else 0 for n in range(first, last + 1)]
        if len(counts) < 2 or not any(counts):  # noqa: PLR2004  # one number has no variance
            return 1.0
        mean = sum(counts) / len(counts)
        variance = sum((one - mean) ** 2 for one in counts) / (len(counts) - 1)
        return min(self._config.cv_max, max(1.0, math.sqrt(variance / mean)))


def _is_sized(record: UsageRecord) -> bool:
    """Return whether the engine counted tokens, and as only an engine can."""
    is_answer = 0 < record.tokens_out <= TOKENS_MAX
    return is_answer and 0 <= record.tokens_cached <= record.tokens_in <= TOKENS_MAX


def _sized(asked: Asked, steps: list[_Step]) -> Asked:
    sized = sum(one.sized for one in steps)
    if not sized:
        return asked
    prompts, answers = sum(one.in_ for one in steps), sum(one.out for one in steps)
    return msgspec.structs.replace(
        asked,
        in_tokens=prompts / sized,
        out_tokens=answers / sized,
        in_cv=_spread(sum(one.in2 for one in steps), prompts, sized),
        out_cv=_spread(sum(one.out2 for one in steps), answers, sized),
        prefix_hit=min(0.99, sum(one.cached for one in steps) / prompts) if prompts else 0.0,
    )


def _spread(squares: float, total: float, count: int) -> float:
    mean = total / count
    return math.sqrt(max(0.0, squares / count - mean * mean)) / mean if mean else 1.0
