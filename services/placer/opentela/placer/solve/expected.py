"""Where demand is not known but likely: the greatest share of what may be asked is served."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from opentela.placer.headroom import with_headroom
from opentela.placer.problem import Counts, Group, InfeasibleError, Problem
from opentela.placer.solve.effort import Effort
from opentela.placer.solve.formulation import Columns, columns
from opentela.placer.solve.milp import Floats, Milp, RowsBuilder, Verdict
from opentela.placer.solve.trim import trimmed

_THRIFT: Final = 1e-3
"""Share of all requests that the whole inventory must be worth, so that of equals the cheap wins
and a GPU that serves nobody stays free."""

GROWTH: Final = ((1.0, 0.5), (2.0, 0.25), (4.0, 0.25))
"""What may be asked over what was, and how probable that is."""
_STEP: Final = 2.0
"""Levels are rounded up to powers of this."""


class Level(NamedTuple):
    """A rate that may be asked of a model.

    Attributes:
        rate_rps: Requests a second to have capacity for.
        requests: How many requests are expected to come at that rate, of whatever unit.
    """

    rate_rps: float
    requests: float


def levels(rates: Iterable[tuple[float, float]], absorb_s: float) -> list[Level]:
    """Return what may be asked of a model, in rising order.

    Args:
        rates: At which requests came for a minute or so, each with how many that were.
        absorb_s: A burst is to be worked off within this.
    """
    counts: dict[int, float] = {}
    for rate_rps, requests in rates:
        wanted = with_headroom(rate_rps, cv=1.0, absorb_s=absorb_s)
        for factor, chance in GROWTH:
            step = math.ceil(math.log(wanted * factor, _STEP))
            counts[step] = counts.get(step, 0.0) + requests * chance
    return [Level(_STEP**step, requests) for step, requests in sorted(counts.items())]


def expected(problem: Problem, levels: Mapping[str, Sequence[Level]], counts: Counts) -> float:
    """Return the share of the requests that are expected which *counts* serve until the horizon.

    What does not run yet serves only from when it is loaded.
    """
    have: dict[str, float] = {}
    options = problem.candidates()
    for group, n in counts.items():
        option = options.get(group)
        if option is not None:
            late = min(1.0, (option.load_s + problem.drain_s) / problem.horizon_s)
            new = max(0, n - problem.running.get(group, 0))
            rate = option.capacity_rps * (n - new * late)
            have[group.model] = have.get(group.model, 0.0) + rate
    served = asked = 0.0
    for model, mine in levels.items():
        for level in mine:
            asked += level.requests
            served += level.requests * min(1.0, have.get(model, 0.0) / level.rate_rps)
    return served / asked if asked else 1.0


def most_expected(
    problem: Problem,
    levels: Mapping[str, Sequence[Level]],
    effort: Effort,
    *,
    start_share: float = 0.0,
    stays: bool = False,
) -> dict[Group, int]:
    """Return the placement that serves the greatest share of the requests that are expected.

    What a model's replicas can do counts at each of its levels, so that more is worth ever less:
    the GPUs that are left go to whoever would most probably miss them.

    Args:
        problem: Its demands are met in any case.
        levels: By model.
        effort: What may be spent.
        start_share: Share of all requests that one more replica of a model that runs must be worth.
        stays: Whether a model that runs keeps something of what it has, or goes altogether: so that
            it need not be gone while it loads elsewhere.

    Raises:
        InfeasibleError: The demands do not fit.
    """
    wide = _at_most(problem, levels)
    cols = columns(wide)
    rows = RowsBuilder()
    cols.add_limits(rows)
    for demand in problem.demands:
        cols.add_cover(rows, demand, 1.0)
    if stays:
        _add_stays(cols, rows)
    worth = _add_levels(cols, rows, levels)
    count = len(cols)
    price = math.fsum(pool.gpus * pool.usd_h for pool in problem.pools)
    lower, upper = cols.bounds()
    milp = Milp(
        np.concatenate([_costs(cols, _THRIFT / price if price else 0.0, start_share), -worth]),
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


def _costs(cols: Columns, thrift: float, start_share: float) -> Floats:
    """Return what each column must be worth.

    What runs already costs nothing to keep, and what nothing runs of nothing to start.
    """
    runs = {one.group.model for one in cols.all if one.is_kept}
    is_free = np.array([one.is_kept for one in cols.all], dtype=np.bool_)
    if runs:
        more = np.array([one.group.model in runs for one in cols.all], dtype=np.bool_)
        return np.where(is_free, 0.0, cols.costs() * thrift * more + start_share * more)
    return cols.costs() * thrift


def _add_stays(cols: Columns, rows: RowsBuilder) -> None:
    """Add that a model of which nothing is kept gets nothing new."""
    for index in cols.by_model.values():
        if any(cols.all[i].is_kept for i in index):
            most = float(sum(cols.all[i].upper for i in index if not cols.all[i].is_kept))
            rows.add(index, [most if cols.all[i].is_kept else -1.0 for i in index], lower=0.0)


def _at_most(problem: Problem, levels: Mapping[str, Sequence[Level]]) -> Problem:
    """Return *problem* with the highest level of each model, up to which capacity is of use."""
    return msgspec.structs.replace(
        problem,
        demands=tuple(
            msgspec.structs.replace(
                demand,
                rate_rps=max(
                    (demand.rate_rps, *(one.rate_rps for one in levels.get(demand.model, ())))
                ),
            )
            for demand in problem.demands
        ),
    )


def _add_levels(cols: Columns, rows: RowsBuilder, levels: Mapping[str, Sequence[Level]]) -> Floats:
    """Add a column for the share of each level that is served; return what each is worth."""
    worth: list[float] = []
    for demand in cols.problem.demands:
        index = cols.by_model[demand.model]
        for level in levels.get(demand.model, ()):
            shares = [min(1.0, cols.all[i].capacity_rps / level.rate_rps) for i in index]
            rows.add([*index, len(cols) + len(worth)], [*shares, -1.0], lower=0.0)
            worth.append(level.requests)
    total = math.fsum(worth)
    return np.array(worth) / total if total else np.zeros(len(worth))
