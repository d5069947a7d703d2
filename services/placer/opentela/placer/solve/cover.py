"""Objectives that are one program: least cost, most served, least latency."""

import itertools
import math
from typing import Final

import numpy as np

from opentela.placer.problem import Counts, InfeasibleError, Option, Problem
from opentela.placer.solve.effort import Effort
from opentela.placer.solve.formulation import Columns, columns
from opentela.placer.solve.milp import Answer, Floats, Limits, Milp, RowsBuilder, Verdict
from opentela.placer.solve.result import Objective, Solved, gap
from opentela.placer.solve.trim import trimmed

_QUICK: Final = 0.2
"""Gap at which a placement is good enough to start a search from."""

_STEEP: Final = 0.95
"""Utilisation up to which latency is told apart; beyond, replicas count as full."""


def least_cost(problem: Problem, effort: Effort, hint: Counts | None = None) -> Solved:
    """Return the cheapest placement that meets every demand.

    Raises:
        InfeasibleError: There is none; `solve.infeasible` says why in words.
    """
    cols = columns(problem)
    rows = RowsBuilder()
    cols.add_limits(rows)
    for demand in problem.demands:
        cols.add_cover(rows, demand, 1.0)
    lower, upper = cols.bounds()
    milp = Milp(cols.costs(), lower, upper, np.ones(len(cols), dtype=np.bool_), rows.rows())
    answer = effort.solve(milp, None if hint is None else cols.point(hint))
    return _solved(Objective.COST, cols, effort, answer)


def most_served(
    problem: Problem,
    effort: Effort,
    objective: Objective = Objective.SERVED,
    *,
    hint: Counts | None = None,
    floor: float = 0.0,
    time_s: float | None = None,
) -> Solved:
    """Return the placement under which the greatest weighted share of all requests is served.

    Args:
        problem: What is asked, and what each replica does.
        effort: What may be spent.
        objective: What to call it: `SERVED`, or `SLO` if capacities keep promises.
        floor: Every model is served at least this share.
        hint: A placement to start from.
        time_s: Seconds for this one program.
    """
    cols = columns(problem)
    rows = RowsBuilder()
    cols.add_limits(rows)
    count = len(cols)
    worth = np.array([_worth(problem, demand.model) for demand in problem.demands])
    for place, demand in enumerate(problem.demands):
        cols.add_cover(rows, demand, floor)
        index = cols.by_model[demand.model]
        if demand.rate_rps > 0:
            shares = [min(1.0, cols.all[i].capacity_rps / demand.rate_rps) for i in index]
            rows.add([*index, count + place], [*shares, -1.0], lower=0.0)
    lower, upper = cols.bounds()
    shares_max = np.array([1.0 if demand.rate_rps > 0 else 0.0 for demand in problem.demands])
    milp = Milp(
        np.concatenate([np.zeros(count), -worth]),
        np.concatenate([lower, np.zeros(len(worth))]),
        np.concatenate([upper, shares_max]),
        np.arange(count + len(worth)) < count,
        rows.rows(),
    )
    start = None
    if hint is not None:
        x = cols.point(hint)
        start = np.concatenate([x, [cols.worth(x)[demand.model] for demand in problem.demands]])
    answer = effort.solve(milp, start, time_s=time_s)
    return _solved(objective, cols, effort, answer)


def _worth(problem: Problem, model: str) -> float:
    total = math.fsum(demand.rate_rps * demand.weight for demand in problem.demands)
    demand = next(one for one in problem.demands if one.model == model)
    return demand.rate_rps * demand.weight / total if total else 0.0


def least_latency(problem: Problem, effort: Effort, hint: Counts | None = None) -> Solved:
    """Return the placement with the least mean time of a request that meets every demand.

    The time that a group takes together, requests a second times seconds, is convex in the rate it
    is given and in its size, and homogeneous: a few tangents describe it exactly at their corners.

    Raises:
        InfeasibleError: There is none.
    """
    if hint is None:
        quick = Effort(effort.solver, Limits(time_s=effort.left_s / 4, gap=_QUICK))
        hint = least_cost(problem, quick).counts
        effort.programs, effort.took_s = quick.programs, quick.took_s
    cols = columns(problem, prune=False)
    count = len(cols)
    lines = [tangents(problem.candidates()[one.group], one.capacity_rps) for one in cols.all]
    rows = RowsBuilder()
    cols.add_limits(rows)
    for at, column in enumerate(cols.all):
        flow, time = count + at, 2 * count + at
        rows.add([flow, at], [1.0, -column.capacity_rps], upper=0.0)
        for slope, offset in lines[at]:
            # time ≥ slope · flow - offset · replicas
            rows.add([time, flow, at], [1.0, -slope, offset], lower=0.0)
    for demand in problem.demands:
        cols.add_cover(rows, demand, 1.0)
        flows = [count + i for i in cols.by_model[demand.model]]
        rows.add(flows, [1.0] * len(flows), lower=demand.rate_rps)
    lower, upper = cols.bounds()
    total = max(math.fsum(demand.rate_rps for demand in problem.demands), 1e-9)
    milp = Milp(
        np.concatenate([np.zeros(2 * count), np.full(count, 1.0 / total)]),
        np.concatenate([lower, np.zeros(2 * count)]),
        np.concatenate([upper, np.full(2 * count, math.inf)]),
        np.arange(3 * count) < count,
        rows.rows(),
    )
    start = _spread(cols, cols.point(hint), lines)
    answer = effort.solve(milp, start)
    if answer.x is None and answer.verdict is Verdict.UNKNOWN:
        answer = answer._replace(x=start, value=float(milp.cost @ start))
    return _solved(Objective.LATENCY, cols, effort, answer)


def _spread(cols: Columns, x: Floats, lines: list[list[tuple[float, float]]]) -> Floats:
    """Return *x* with the requests of each model spread over its replicas by capacity."""
    capacity = np.array([column.capacity_rps for column in cols.all]) * x
    flow = np.zeros(len(cols), dtype=np.float64)
    for demand in cols.problem.demands:
        index = cols.by_model[demand.model]
        flow[index] = demand.rate_rps * capacity[index] / max(float(capacity[index].sum()), 1e-12)
    time = [
        max(slope * flow[at] - offset * x[at] for slope, offset in lines[at])
        for at in range(len(cols))
    ]
    return np.concatenate([x, flow, np.array(time, dtype=np.float64)])


def tangents(option: Option, capacity_rps: float) -> list[tuple[float, float]]:
    """Return lines `slope · rate - offset` below the time that one replica's requests take."""
    points = [(u, s) for u, s in option.latency_s if u <= _STEEP and math.isfinite(s)]
    if not points:
        return [(1.0, 0.0)]
    corners = [(0.0, 0.0)] + [(u * capacity_rps, u * capacity_rps * s) for u, s in points if u > 0]
    lines = [(points[0][1], 0.0)]
    for (x0, y0), (x1, y1) in itertools.pairwise(corners):
        slope = (y1 - y0) / (x1 - x0)
        lines.append((slope, slope * x1 - y1))
    return lines


def _solved(objective: Objective, cols: Columns, effort: Effort, answer: Answer) -> Solved:
    if answer.verdict is Verdict.INFEASIBLE:
        raise InfeasibleError(["the demands do not fit into the inventory"])
    if answer.x is None:
        counts, value = dict(cols.problem.running), _nothing(objective)
    else:
        counts, value = cols.counts(answer.x), answer.value
        # Replicas beyond the demand are what makes answers quick.
        if objective is not Objective.LATENCY:
            counts = trimmed(cols.problem, counts)
    bound = answer.bound
    if objective.is_maximised:
        value, bound = (0.0 if answer.x is None else -value), min(1.0, -bound)
    within = gap(objective, value, bound) <= effort.limits.gap + 1e-9
    return Solved(
        objective=objective,
        counts=counts,
        value=value,
        bound=bound,
        verdict=Verdict.OPTIMAL if within and answer.x is not None else answer.verdict,
        solver=effort.solver.name,
        programs=effort.programs,
        took_s=effort.took_s,
    )


def _nothing(objective: Objective) -> float:
    return 0.0 if objective.is_maximised else math.inf
