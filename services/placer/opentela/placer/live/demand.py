"""What is asked of each model, over a window that slides in steps."""

import math
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from opentela.placer.lengths import Sums
from opentela.placer.live.config import DemandConfig
from opentela.placer.live.lateness import Lateness
from opentela.placer.live.levels import Levels, Rate
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

AGAIN_S: Final = 1 / UNKNOWN_RPS
"""Who is turned away again within this is no further demand."""


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
        levels: Rates at which requests came, each with the requests a second that are expected to
            come at it: half of them as in the window, half as in the long memory.
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
    levels: tuple[Rate, ...] = ()


class _Step:
    """Sums over one part of the window."""

    __slots__ = ("answered", "refused", "sizes")

    def __init__(self) -> None:
        self.answered = self.refused = 0
        self.sizes = Sums()

    def add(self, record: UsageRecord, *, is_refused: bool) -> None:
        self.answered += not is_refused
        self.refused += is_refused
        if _is_sized(record):
            self.sizes.add(record.tokens_in, record.tokens_cached, record.tokens_out)


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
        self._steps: dict[str, dict[int, _Step]] = {}
        self._lateness = Lateness()
        self._turned: dict[str, int] = {}
        self._began_at = now
        self._asked_at: dict[str, float] = {}
        self._refused_since: dict[str, float] = {}
        self._levels: dict[str, Levels] = {}

    def add(self, now: float, records: Iterable[UsageRecord], wall: float = 0.0) -> None:
        """Take note of requests that have ended; *wall* is Unix seconds."""
        for record in records:
            model = self._names.get(record.model)
            if model is not None:
                late_s = self._lateness.of(now, wall, record.router, record.at_ms)
                self._add(now, now - late_s, model, record)

    def _add(self, now: float, at: float, model: str, record: UsageRecord) -> None:
        """Take note of one that ended *at* some instant up to *now*."""
        self._asked_at[model] = max(at, self._asked_at.get(model, at))
        # What an engine says is not there, as a path, was asked of one that serves.
        is_refused = record.status in _TURNED_AWAY and not record.session
        number = math.floor(at / self._step_s)
        if number > self._last_gone(now):
            step = self._steps.setdefault(model, {}).setdefault(number, _Step())
            step.add(record, is_refused=is_refused)
        is_new = not is_refused or self._is_first(at, model)
        if is_refused:
            self._refused_since.setdefault(model, at)
        elif at >= self._refused_since.get(model, at):
            self._refused_since.pop(model, None)
        if is_new:
            self._count(at, model)

    def _is_first(self, at: float, model: str) -> bool:
        """Return whether nobody was turned away before in the same seconds: those are repeated."""
        turn = math.floor(at / max(self._step_s, AGAIN_S))
        before, self._turned[model] = self._turned.get(model), turn
        return before is None or turn > before

    def _count(self, at: float, model: str) -> None:
        """Remember that *model* was asked for once more."""
        if model not in self._levels:
            config = self._config
            self._levels[model] = Levels(at, config.window_s, config.base_s)
        self._levels[model].add(at, 1.0)

    def of(self, now: float, model: str) -> Asked:
        """Return what was asked of *model*."""
        steps = self._within(now, model)
        if not steps:
            # Whoever waited has given up; who asks next waits anew.
            self._refused_since.pop(model, None)
            levels = self._rates(now, model, is_asked=False)
            return Asked(model=model, expected_rps=_total(levels), levels=levels)
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
        levels = self._rates(now, model, is_asked=True)
        return _sized(
            Asked(
                model=model,
                rate_rps=rate,
                refused_rps=refused,
                expected_rps=_total(levels),
                cv=self._cv(now, steps),
                waits_s=now - self._refused_since.get(model, now),
                levels=levels,
            ),
            steps.values(),
        )

    def _rates(self, now: float, model: str, *, is_asked: bool) -> tuple[Rate, ...]:
        levels = self._levels.get(model)
        if levels is None:
            return ()
        listened_s = max(now - self._began_at, self._step_s)
        recent = list(levels.recent(now, listened_s)) if is_asked else []
        if not self._config.base_s:
            return tuple(recent)
        both = [*recent, *levels.past(now, listened_s)]
        return tuple(one._replace(weight=one.weight / 2) for one in both)

    def is_asked(self, now: float, model: str) -> bool:
        """Return whether any request for *model* ended within the window."""
        return bool(self._within(now, model))

    def has_learnt(self, now: float) -> bool:
        """Return whether it has listened for long enough to know who does not ask."""
        return now - self._began_at >= self._config.learn_s

    def quiet_s(self, now: float, model: str) -> float:
        """Return for how long nobody has asked for *model*, as far as it has listened."""
        return now - self._asked_at.get(model, self._began_at)

    def _within(self, now: float, model: str) -> dict[int, _Step]:
        """Return the steps of the window, by number."""
        steps = self._steps.get(model, {})
        gone = self._last_gone(now)
        for number in [one for one in steps if one <= gone]:
            del steps[number]
        return steps

    def _last_gone(self, now: float) -> int:
        """Return the number of the last step that has left the window."""
        return math.floor((now - self._config.window_s) / self._step_s)

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


def _total(levels: Iterable[Rate]) -> float:
    return math.fsum(one.weight for one in levels)


def _is_sized(record: UsageRecord) -> bool:
    """Return whether the engine counted tokens, and as only an engine can."""
    is_answer = 0 < record.tokens_out <= TOKENS_MAX
    return is_answer and 0 <= record.tokens_cached <= record.tokens_in <= TOKENS_MAX


def _sized(asked: Asked, steps: Iterable[_Step]) -> Asked:
    sizes = Sums()
    for one in steps:
        sizes.merge(one.sizes)
    means = sizes.means()
    if means is None:
        return asked
    return msgspec.structs.replace(
        asked,
        in_tokens=means.in_len,
        out_tokens=means.out_len,
        in_cv=means.in_cv,
        out_cv=means.out_cv,
        prefix_hit=means.prefix_hit,
    )
