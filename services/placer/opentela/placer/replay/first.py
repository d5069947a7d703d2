"""The placement that a replay begins with: for what the past asked, and for growth."""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from opentela.placer.problem import Group, InfeasibleError, Problem
from opentela.placer.replay.fleet import Known
from opentela.placer.replay.trace import Trace
from opentela.placer.shapes import Floats
from opentela.placer.solve.effort import Effort
from opentela.placer.solve.expected import Level, levels, most_expected
from opentela.placer.solve.milp import Limits
from opentela.placer.solve.run import named

WINDOW_S: Final = 60.0
"""Parts of the past for which it is counted what was asked: as long as people wait."""
UNSURE: Final = 0.5
"""Of a mean model's requests, so many count for each model besides its own: who was asked seldom
may be asked often, which is more than the other way round."""
_UNSEEN_RPS: Final = 0.05
"""Level of a model that nobody has asked for yet."""
_LIMITS: Final = Limits(time_s=10.0, gap=0.001)


def first(
    problem: Problem, past: Trace, models: Sequence[Known], absorb_s: float
) -> dict[Group, int]:
    """Return the placement that serves most of what may come after *past*.

    Every demand is met if that can be; else each model has a replica, if that can be.

    Args:
        problem: What is demanded on average.
        past: What was asked.
        models: What is known of each of its models.
        absorb_s: A burst is to be worked off within this.
    """
    found = _levels(past, models, absorb_s)
    asked_for = {one.name: mine for one, mine in zip(models, found, strict=True)}
    for asked in (problem, _one_each(problem), _nothing(problem)):
        try:
            return most_expected(asked, asked_for, Effort(named("highs"), _LIMITS))
        except InfeasibleError:
            continue
    return {}


def work(trace: Trace, models: Sequence[Known]) -> Floats:
    """Return what each request takes, in mean requests of its model."""
    requests = trace.requests
    fresh = (requests.in_tokens - requests.prefix_hit_tokens).astype(np.float64)
    share = np.array([one.prompt_share for one in models])[trace.model]
    prompt = fresh / np.array([one.in_mean for one in models])[trace.model]
    answer = requests.out_tokens / np.array([one.out_mean for one in models])[trace.model]
    made: Floats = share * prompt + (1 - share) * answer
    return made


def _levels(past: Trace, models: Sequence[Known], absorb_s: float) -> list[list[Level]]:
    """Return at which rates each model's requests came, and may come."""
    arrival = past.requests.arrival_s
    window = ((arrival - arrival[0]) / WINDOW_S).astype(np.int64)
    sizes = work(past, models)
    extra = UNSURE * len(arrival) / len(models)
    found = []
    for index in range(len(models)):
        mine = past.model == index
        asked = np.bincount(window[mine])
        rates = np.bincount(window[mine], weights=sizes[mine]) / WINDOW_S
        came = [(rate, n) for rate, n in zip(rates.tolist(), asked.tolist(), strict=True) if n]
        rough = levels(came, absorb_s) or [Level(_UNSEEN_RPS, 1.0)]
        sure = 1 + extra / max(float(asked.sum()), 1.0)
        found.append([one._replace(requests=one.requests * sure) for one in rough])
    return found


def _one_each(problem: Problem) -> Problem:
    return msgspec.structs.replace(
        problem,
        demands=tuple(
            msgspec.structs.replace(one, rate_rps=0.0, replicas_min=1) for one in problem.demands
        ),
    )


def _nothing(problem: Problem) -> Problem:
    return msgspec.structs.replace(
        problem,
        demands=tuple(
            msgspec.structs.replace(one, rate_rps=0.0, replicas_min=0) for one in problem.demands
        ),
    )
