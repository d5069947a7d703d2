"""What replicas were seen to do, and what that says of what is believed of them.

A simulator may be wrong, and an agent may say that it has other GPUs than it has. Usage tells: a
replica that breaks its promises serves as much as it can, whatever is believed; one that keeps them
does at least what it serves.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from opentela.placer.live.config import ModelConfig
from opentela.placer.problem import Group
from opentela.wire.usage import UsageRecord

MINUTES: Final = 5
"""So long is looked back at."""
MINUTE_S: Final = 60.0
ENOUGH: Final = 30
"""Requests that say something about a replica; fewer may all have been long ones."""
LEAST: Final = 0.25
MOST: Final = 2.0
"""Bounds of what was seen over what is believed. Who breaks promises with less than that is not at
the end of its strength: something else is wrong."""
_KEPT: Final = 0.9
_BROKEN: Final = 0.5


class Seen(NamedTuple):
    """What one replica of a group did on average.

    Attributes:
        rate_rps: Requests a second that it answered.
        kept: Share of them that were answered as promised.
    """

    rate_rps: float
    kept: float


class Experience:
    """Counts what groups of replicas answer."""

    def __init__(self) -> None:
        self._minutes: dict[Group, deque[tuple[int, int, int]]] = {}

    def add(self, at: float, group: Group, record: UsageRecord, model: ModelConfig) -> None:
        """Count one request that a replica of *group* answered *at* an instant."""
        minutes = self._minutes.setdefault(group, deque(maxlen=MINUTES + 1))
        minute = int(at // MINUTE_S)
        if not minutes or minutes[-1][0] < minute:
            minutes.append((minute, 0, 0))
        if minutes[-1][0] == minute:
            _, answered, kept = minutes.pop()
            minutes.append((minute, answered + 1, kept + _is_kept(record, model)))

    def seen(self, now: float, replicas: Mapping[Group, int]) -> dict[Group, Seen]:
        """Return what one replica of each group did, as far as enough is known.

        Args:
            now: The minute that it is in has not ended, and does not count.
            replicas: That served all the time; groups that are not among them are forgotten.
        """
        last = int(now // MINUTE_S) - 1
        found: dict[Group, Seen] = {}
        for group in list(self._minutes):
            if group not in replicas:
                del self._minutes[group]
                continue
            whole = [one for one in self._minutes[group] if last - MINUTES < one[0] <= last]
            answered = sum(count for _, count, _ in whole)
            if answered >= ENOUGH * replicas[group]:
                rate = answered / (MINUTES * MINUTE_S) / replicas[group]
                found[group] = Seen(rate, sum(kept for *_, kept in whole) / answered)
        return found


def ratio(before: float, believed_rps: float, seen: Seen) -> float:
    """Return what a replica does over what is *believed*, after it was *seen*.

    Args:
        before: The same until now; 1 if nothing was seen yet.
        believed_rps: What it does as the simulator has it.
        seen: What it did.
    """
    told = min(MOST, seen.rate_rps / believed_rps)
    if seen.kept < _BROKEN:
        return told if told >= LEAST else before
    return max(before, told) if seen.kept >= _KEPT else before


def _is_kept(record: UsageRecord, model: ModelConfig) -> bool:
    """Return whether the request was answered as promised, as far as its record tells."""
    if record.outcome != "ok" or record.duration_s > model.e2e_s:
        return False
    if record.ttft_s < 0:
        return True
    tokens = max(record.tokens_out - 1, 1)
    return (
        record.ttft_s <= model.ttft_s
        and (record.duration_s - record.ttft_s) / tokens <= model.tpot_s
    )
