"""HiGHS: branch and cut. Quick at proving that something cannot be."""

from typing import Final

import highspy
import numpy as np
from highspy import _core

from opentela.placer.solve.milp import Answer, Floats, Limits, Milp, Verdict

_STATUS: Final = {
    highspy.HighsModelStatus.kOptimal: Verdict.OPTIMAL,
    highspy.HighsModelStatus.kInfeasible: Verdict.INFEASIBLE,
    highspy.HighsModelStatus.kUnboundedOrInfeasible: Verdict.INFEASIBLE,
}
_FEASIBLE: Final = int(highspy.SolutionStatus.kSolutionStatusFeasible)


class Highs:
    """Solves with HiGHS on one thread."""

    name = "highs"

    def solve(self, milp: Milp, limits: Limits, hint: Floats | None = None) -> Answer:
        """Return the best point found, starting from *hint* if it is one."""
        highs = _loaded(milp, limits)
        if hint is not None:
            solution = highspy.HighsSolution()
            solution.col_value = hint.tolist()
            highs.setSolution(solution)
        return _answer(highs, milp, is_integer=bool(milp.integer.any()))

    def relax(self, milp: Milp, limits: Limits) -> Answer:
        """Return the optimum when no column must be an integer."""
        relaxed = milp._replace(integer=np.zeros_like(milp.integer))
        return _answer(_loaded(relaxed, limits), relaxed, is_integer=False)


def _loaded(milp: Milp, limits: Limits) -> _core._Highs:
    # `highspy.Highs` prints a banner while it is made, before it can be told not to.
    highs = _core._Highs()  # noqa: SLF001
    highs.setOptionValue("output_flag", False)  # noqa: FBT003  # that is how it takes options
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("random_seed", 0)
    highs.setOptionValue("time_limit", max(limits.time_s, 0.01))
    highs.setOptionValue("mip_rel_gap", limits.gap)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(milp.cost), len(milp.rows.lower)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = milp.cost, milp.lower, milp.upper
    lp.row_lower_, lp.row_upper_ = milp.rows.lower, milp.rows.upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = milp.rows.start
    lp.a_matrix_.index_ = milp.rows.column
    lp.a_matrix_.value_ = milp.rows.value
    if milp.integer.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(one)] for one in milp.integer]
    highs.passModel(lp)
    return highs


def _answer(highs: _core._Highs, milp: Milp, *, is_integer: bool) -> Answer:
    highs.run()
    info = highs.getInfo()
    took_s = float(highs.getRunTime())
    status = highs.getModelStatus()
    has_point = info.primal_solution_status == _FEASIBLE
    verdict = _STATUS.get(status, Verdict.FEASIBLE if has_point else Verdict.UNKNOWN)
    if verdict is Verdict.INFEASIBLE or not has_point:
        bound = np.inf if verdict is Verdict.INFEASIBLE else -np.inf
        if is_integer and verdict is Verdict.UNKNOWN:
            bound = info.mip_dual_bound
        return Answer(verdict, None, np.inf, float(bound), took_s)
    x = np.array(highs.getSolution().col_value, dtype=np.float64)
    if is_integer:
        x[milp.integer] = np.round(x[milp.integer])
    value = float(info.objective_function_value)
    bound = float(info.mip_dual_bound) if is_integer else value
    return Answer(verdict, x, value, min(bound, value), took_s)
