"""CP-SAT: constraint programming with clauses learnt. Quick where everything is a small integer."""

import math
from typing import Final

import numpy as np
from ortools.sat.python import cp_model

from opentela.placer.solve.highs import Highs
from opentela.placer.solve.milp import Answer, Floats, Limits, Milp, Verdict

SCALE: Final = 1_000_000
"""Coefficients become integers by this."""

_TOLERANCE: Final = 1e-7
"""By how much a row with fractions may be missed, as with other solvers: a sum of rounded numbers
that should just reach a limit must not fail for the rounding."""

_COLUMN_MAX: Final = 10**9
"""Bound of columns that have none: CP-SAT needs one."""

_STATUS: Final = {
    cp_model.OPTIMAL: Verdict.OPTIMAL,
    cp_model.FEASIBLE: Verdict.FEASIBLE,
    cp_model.INFEASIBLE: Verdict.INFEASIBLE,
}


class CpSat:
    """Solves with CP-SAT on one worker; continuous columns are cut into millionths."""

    name = "cp-sat"

    def solve(self, milp: Milp, limits: Limits, hint: Floats | None = None) -> Answer:
        """Return the best point found, starting from *hint* if it is one."""
        model, columns, unit, scale = _modelled(milp)
        if hint is not None:
            for column, grain, value in zip(columns, unit, hint, strict=True):
                model.add_hint(column, round(value / grain))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.linearization_level = 2
        solver.parameters.random_seed = 0
        solver.parameters.max_time_in_seconds = max(limits.time_s, 0.01)
        solver.parameters.relative_gap_limit = limits.gap
        status = solver.solve(model)
        verdict = _STATUS.get(status, Verdict.UNKNOWN)
        if verdict in {Verdict.INFEASIBLE, Verdict.UNKNOWN}:
            bound = math.inf if verdict is Verdict.INFEASIBLE else -math.inf
            return Answer(verdict, None, math.inf, bound, solver.wall_time)
        x = np.array([solver.value(column) for column in columns], dtype=np.float64) * unit
        value = float(milp.cost @ x)
        bound = solver.best_objective_bound / scale if milp.cost.any() else value
        return Answer(verdict, x, value, min(bound, value), solver.wall_time)

    def relax(self, milp: Milp, limits: Limits) -> Answer:
        """Return the optimum when no column must be an integer; HiGHS is better at that."""
        return Highs().relax(milp, limits)


def _modelled(milp: Milp) -> tuple[cp_model.CpModel, list[cp_model.IntVar], Floats, float]:
    """Return the model, its columns, the grain of each, and what the cost was scaled by."""
    model = cp_model.CpModel()
    unit = np.where(milp.integer, 1.0, 1.0 / SCALE)
    columns = [
        model.new_int_var(round(max(low, -_COLUMN_MAX) / grain), _bounded(up, grain), "")
        for low, up, grain in zip(milp.lower, milp.upper, unit, strict=True)
    ]
    rows = milp.rows
    for row in range(len(rows.lower)):
        _add_row(model, milp, columns, unit, row)
    scale = 1.0
    if milp.cost.any():
        scaled = milp.cost * unit
        # The greatest coefficient keeps six digits or more, however small the costs are.
        scale = SCALE / float(np.abs(scaled[scaled != 0]).max()) * 1000
        model.minimize(_sum(columns, np.round(scaled * scale)))
    return model, columns, unit, scale


def _add_row(
    model: cp_model.CpModel, milp: Milp, columns: list[cp_model.IntVar], unit: Floats, row: int
) -> None:
    at = slice(milp.rows.start[row], milp.rows.start[row + 1])
    index, value = milp.rows.column[at], milp.rows.value[at]
    grains = value * unit[index]
    is_whole = bool(np.all(milp.integer[index]) and np.all(value == np.round(value)))
    scale = 1.0 if is_whole else SCALE / float(np.abs(grains).max()) * 1000
    scaled = grains * scale
    chosen = [columns[i] for i in index]
    lower, upper = milp.rows.lower[row], milp.rows.upper[row]
    slack = 0.0 if is_whole else _TOLERANCE * scale
    weights = np.round(scaled)
    if math.isfinite(lower):
        model.add(_sum(chosen, weights) >= math.ceil(lower * scale - slack))
    if math.isfinite(upper):
        model.add(_sum(chosen, weights) <= math.floor(upper * scale + slack))


def _sum(columns: list[cp_model.IntVar], weights: Floats) -> cp_model.LinearExprT:
    return cp_model.LinearExpr.weighted_sum(columns, [int(weight) for weight in weights])


def _bounded(upper: float, grain: float) -> int:
    return round(min(upper, _COLUMN_MAX * grain) / grain)
