"""How fast each session works, as this router's own requests show it.

A request's work is what its engine had to compute: tokens of the answer, and tokens of the prompt
at a fraction of that, since a prompt is worked on at once. Its speed is the work by the time that
it took, queue and all: an engine that others load is slower, and is asked less for it.

Until a session has shown enough, what its hardware promises counts, scaled by what the others of
the model have kept of such promises.
"""

import math
from typing import Final

from opentela.core.ids import SessionId
from opentela.router.directory import Candidate
from opentela.router.outcomes import Result
from opentela.router.policies.base import Observed
from opentela.router.policies.hardware import prior

PROMPT_TOKENS_AS_ONE: Final = 64
"""Prompt tokens that cost about as much as one of the answer: arithmetic against bandwidth."""
PRIOR_WEIGHS: Final = 8.0
"""Requests whose word counts as much as the hardware's: lengths of answers differ tenfold."""
RECENT: Final = 0.05
"""Weight of the last request among all before: some twenty count, so that a session whose GPU is
throttled or whose neighbours changed is known for it within seconds under load."""
SESSIONS_MAX: Final = 10_000
"""Sessions, each with each of its models, that are remembered; the longest known go first."""
MODELS_MAX: Final = 1_000
DURATION_MIN_S: Final = 1e-4


class _Learnt:
    """What one session has shown."""

    __slots__ = ("count", "promised", "speed")

    def __init__(self, promised: float) -> None:
        self.promised = promised
        self.count = 0.0
        self.speed = 0.0


class Speeds:
    """Learns from requests that ended; says what to expect of a session.

    Attributes:
        lessons: Requests learnt from: whoever keeps what follows from speeds looks again by it.
    """

    def __init__(self) -> None:
        self.lessons = 0
        self._learnt: dict[tuple[str, SessionId], _Learnt] = {}
        # A model's work a second by unit of what was promised: the logarithm, so that one session
        # far off does not count for all.
        self._kept: dict[str, float] = {}

    def learn(self, model: str, candidate: Candidate, observed: Observed) -> None:
        """Take note of a request; one that failed or told no tokens teaches nothing."""
        work = observed.tokens_out + (
            (observed.tokens_in - observed.tokens_cached) / PROMPT_TOKENS_AS_ONE
        )
        if observed.result is not Result.ANSWERED or work <= 0:
            return
        self.lessons += 1
        speed = work / max(observed.duration_s, DURATION_MIN_S)
        key = (model, candidate.session)
        learnt = self._learnt.get(key)
        if learnt is None:
            learnt = self._learnt[key] = _Learnt(_promised(candidate))
            if len(self._learnt) > SESSIONS_MAX:
                del self._learnt[next(iter(self._learnt))]
        learnt.count += 1
        learnt.speed += (speed - learnt.speed) * max(RECENT, 1 / learnt.count)
        ratio = math.log(speed / learnt.promised)
        kept = self._kept.get(model)
        if kept is not None:
            self._kept[model] = kept + (ratio - kept) * RECENT
            return
        self._kept[model] = ratio
        if len(self._kept) > MODELS_MAX:
            del self._kept[next(iter(self._kept))]

    def of(self, model: str, candidate: Candidate) -> float:
        """Return the work a second to expect; comparable within one model only."""
        promised = _promised(candidate) * math.exp(self._kept.get(model, 0.0))
        learnt = self._learnt.get((model, candidate.session))
        if learnt is None:
            return promised
        return (learnt.count * learnt.speed + PRIOR_WEIGHS * promised) / (
            learnt.count + PRIOR_WEIGHS
        )


def _promised(candidate: Candidate) -> float:
    return prior(candidate.terms.hardware, candidate.terms.gpus)
