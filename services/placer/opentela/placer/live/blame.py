"""Who is to blame for replicas that did not start: an agent, a model, or both beside each other.

What failed at one place is tried at another first. A model that fails at several agents in a row
fails by itself, and an agent at which several models fail does: either is left alone for a while,
doubled each time, so that a broken one costs ever less of the GPUs that others could have.
"""

import math
from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from opentela.core.ids import SessionId

Key = TypeVar("Key", bound=Hashable)

FAILURES_MAX: Final = 1024
"""Places, models and agents each that are remembered as having failed; the oldest are forgotten."""
PLACES_MAX: Final = 3
"""A model that failed at so many agents, and served at none since, is to blame itself."""
MODELS_MAX: Final = 3
"""An agent at which so many models failed, and none served since, is to blame itself."""
_DOUBLED_MAX: Final = 20


class Failed(NamedTuple):
    """What is not started for now, for people.

    Attributes:
        agent: At which; empty for every one.
        model: Which; empty for every one.
        times: How often that failed in a row.
        wait_s: Until it is tried again; 0 when it may be.
        reason: Why it failed last.
    """

    agent: SessionId
    model: str
    times: int
    wait_s: float
    reason: str


class Blame:
    """What did not start where, and until when it is not tried there again.

    Args:
        backoff_s: For the first failure; doubled with each further one in a row.
        backoff_max_s: At most.
    """

    def __init__(self, backoff_s: float, backoff_max_s: float) -> None:
        self._places: _Waits[tuple[SessionId, str]] = _Waits(backoff_s, backoff_max_s)
        self._models: _Waits[str] = _Waits(backoff_s, backoff_max_s)
        self._agents: _Waits[SessionId] = _Waits(backoff_s, backoff_max_s)

    def failed(
        self, now: float, agent: SessionId, model: str, reason: str, *, was_tried: bool
    ) -> None:
        """Take in that *model* did not start at *agent*; *was_tried* once it had taken the start.

        What was refused or not answered says nothing of other places.
        """
        self._places.failed(now, (agent, model), reason)
        if was_tried:
            self._models.failed(now, model, reason, beside=agent, least=PLACES_MAX)
            self._agents.failed(now, agent, reason, beside=model, least=MODELS_MAX)

    def served(self, agent: SessionId, model: str) -> None:
        """Take in that *model* serves at *agent*: neither is to blame for what failed so far."""
        self._places.forget((agent, model))
        self._models.forget(model)
        self._agents.forget(agent)

    def may_start(self, now: float, agent: SessionId, model: str) -> bool:
        """Return whether *model* may be tried at *agent*."""
        until = max(
            self._places.until((agent, model)),
            self._models.until(model),
            self._agents.until(agent),
        )
        return now >= until

    def count(self, agent: SessionId, model: str) -> int:
        """Return how often *model*, and whatever else, failed at *agent* in a row."""
        return self._places.count((agent, model)) + self._agents.count(agent)

    def told(self, now: float) -> list[Failed]:
        """Return what failed and did not serve since, the longest wait first."""
        nowhere, nothing = SessionId(""), ""
        found = [(key, nothing, one) for key, one in self._agents.items()]
        found += [(nowhere, key, one) for key, one in self._models.items()]
        found += [(agent, model, one) for (agent, model), one in self._places.items()]
        rows = [
            Failed(agent, model, one.count, max(0.0, one.until - now), one.reason)
            for agent, model, one in found
            if one.count
        ]
        return sorted(rows, key=lambda row: (-row.wait_s, row.model, row.agent))


class _Failure:
    """Failures in a row; *beside* holds of how many others they were."""

    def __init__(self) -> None:
        self.count = 0
        self.until = -math.inf
        self.reason = ""
        self.beside: dict[str, None] = {}


class _Waits(Generic[Key]):
    """Failures in a row by key, and until when each is not tried again."""

    def __init__(self, backoff_s: float, backoff_max_s: float) -> None:
        self._backoff_s = backoff_s
        self._backoff_max_s = backoff_max_s
        self._by_key: dict[Key, _Failure] = {}

    def failed(
        self, now: float, key: Key, reason: str, *, beside: str = "", least: int = 1
    ) -> None:
        failure = self._by_key.pop(key, None)
        if failure is None:
            failure = _Failure()
        self._by_key[key] = failure
        while len(self._by_key) > FAILURES_MAX:
            del self._by_key[next(iter(self._by_key))]
        failure.reason = reason
        if len(failure.beside) < FAILURES_MAX:
            failure.beside[beside] = None
        if len(failure.beside) < least:
            return
        delay_s = self._backoff_s * 2.0 ** min(failure.count, _DOUBLED_MAX)
        failure.count += 1
        failure.until = now + min(delay_s, self._backoff_max_s)

    def forget(self, key: Key) -> None:
        self._by_key.pop(key, None)

    def until(self, key: Key) -> float:
        failure = self._by_key.get(key)
        return failure.until if failure else -math.inf

    def count(self, key: Key) -> int:
        failure = self._by_key.get(key)
        return failure.count if failure else 0

    def items(self) -> list[tuple[Key, _Failure]]:
        return list(self._by_key.items())
