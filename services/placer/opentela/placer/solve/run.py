"""Chooses how to solve for an objective, and with what."""

import importlib
from typing import Final

from opentela.core.errors import UsageError
from opentela.placer.problem import Counts, Problem, check
from opentela.placer.solve import cover, max_min
from opentela.placer.solve.effort import Effort
from opentela.placer.solve.milp import Limits, Solver
from opentela.placer.solve.result import Objective, Solved

SOLVERS: Final = {"highs": "Highs", "cp-sat": "CpSat"}


def solve(
    problem: Problem,
    objective: Objective,
    *,
    limits: Limits | None = None,
    hint: Counts | None = None,
    solver: str = "highs",
) -> Solved:
    """Return the best placement found for *objective* and the bound that none exceeds.

    Args:
        problem: What is asked, and what each replica does.
        objective: What to be best at.
        limits: Time and gap.
        hint: A placement to start from; what runs already if it is not given.
        solver: `highs` or `cp-sat`.

    Raises:
        UsageError: The problem makes no sense, or cannot be met: `InfeasibleError`.
    """
    check(problem)
    effort = Effort(named(solver), limits or Limits())
    start = hint or problem.running or None
    match objective:
        case Objective.MAX_MIN:
            return max_min.max_min(problem, effort, start)
        case Objective.COST:
            return cover.least_cost(problem, effort, start)
        case Objective.LATENCY:
            return cover.least_latency(problem, effort)
        case Objective.SERVED | Objective.SLO:
            return cover.most_served(problem, effort, objective, hint=start)


def named(solver: str) -> Solver:
    """Return the solver of that name; it is imported now, because that takes a while."""
    if solver not in SOLVERS:
        raise UsageError(f"solver {solver!r} is unknown", remedy="give " + " or ".join(SOLVERS))
    module = importlib.import_module(f"opentela.placer.solve.{solver.replace('-', '')}")
    made: Solver = getattr(module, SOLVERS[solver])()
    return made
