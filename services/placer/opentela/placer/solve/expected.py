"""Where demand is not known but likely: the greatest share of what may be asked is served."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from opentela.placer.problem import Group, InfeasibleError, Problem
from opentela.placer.solve.effort import Effort
from opentela.placer.solve.formulation import Columns, columns
from opentela.placer.solve.milp import Floats, Milp, RowsBuilder, Verdict
from opentela.placer.solve.trim import trimmed

_THRIFT: Final = 1e-3
"""Share of all requests that the whole inventory must be worth, so that of equals the cheap wins
and a GPU that serves nobody stays free."""


class Level(NamedTuple):
    """A rate that may be asked of a model.

    Attributes:
        rate_rps: Requests a second to have capacity for.
        requests: How many requests are expected to come at that rate, of whatever unit.
    """

    rate_rps: float
    requests: float


def most_expected(
    problem: Problem, levels: Mapping[str, Sequence[Level]], effort: Effort
) -> dict[Group, int]:
    """Return the placement that serves the greatest share of the requests that are expected.

    What a model's replicas can do counts at each of its levels, so that more is worth ever less:
    the GPUs that are left go to whoever would most probably miss them.

    Args:
        problem: Its demands are met in any case.
        levels: By model.
        effort: What may be spent.

    Raises:
        InfeasibleError: The demands do not fit.
    """
    wide = _at_most(problem, levels)
    cols = columns(wide)
    rows = RowsBuilder()
    cols.add_limits(rows)
    for demand in problem.demands:
        cols.add_cover(rows, demand, 1.0)
    worth = _add_levels(cols, rows, levels)
    count = len(cols)
    price = math.fsum(pool.gpus * pool.usd_h for pool in problem.pools)
    lower, upper = cols.bounds()
    milp = Milp(
        np.concatenate([cols.costs() * (_THRIFT / price if price else 0.0), -worth]),
        np.concatenate([lower, np.zeros(len(worth))]),
        np.concatenate([upper, np.ones(len(worth))]),
        np.arange(count + len(worth)) < count,
        rows.rows(),
    )
    answer = effort.solve(milp)
    if answer.x is None:
        why = "do not fit" if answer.verdict is Verdict.INFEASIBLE else "were not placed in time"
        raise InfeasibleError([f"the demands {why}"])
    return trimmed(wide, cols.counts(answer.x))


def _at_most(problem: Problem, levels: Mapping[str, Sequence[Level]]) -> Problem:
    """Return *problem* with the highest level of each model, up to which capacity is of use."""
    return msgspec.structs.replace(
        problem,
        demands=tuple(
            msgspec.structs.replace(
                demand,
                rate_rps=max((demand.rate_rps, *(one.rate_rps for one in levels[demand.model]))),
            )
            for demand in problem.demands
        ),
    )


def _add_levels(cols: Columns, rows: RowsBuilder, levels: Mapping[str, Sequence[Level]]) -> Floats:
    """Add a column for the share of each level that is served; return what each is worth."""
    worth: list[float] = []
    for demand in cols.problem.demands:
        index = cols.by_model[demand.model]
        for level in levels[demand.model]:
            shares = [min(1.0, cols.all[i].capacity_rps / level.rate_rps) for i in index]
            rows.add([*index, len(cols) + len(worth)], [*shares, -1.0], lower=0.0)
            worth.append(level.requests)
    total = math.fsum(worth)
    return np.array(worth) / total if total else np.zeros(len(worth))
