"""How much of what a solver may spend is left, told by the solvers themselves."""

from opentela.placer.solve.milp import Answer, Floats, Limits, Milp, Solver


class Effort:
    """Hands programs to a solver until the time is used up."""

    def __init__(self, solver: Solver, limits: Limits) -> None:
        self.solver = solver
        self.limits = limits
        self.programs = 0
        self.took_s = 0.0

    @property
    def left_s(self) -> float:
        """Seconds left."""
        return max(0.0, self.limits.time_s - self.took_s)

    def solve(
        self,
        milp: Milp,
        hint: Floats | None = None,
        *,
        time_s: float | None = None,
        gap: float | None = None,
    ) -> Answer:
        """Return the answer, within the time left or *time_s* if that is less."""
        return self._spent(self.solver.solve(milp, self._within(time_s, gap), hint))

    def relax(self, milp: Milp) -> Answer:
        """Return the optimum of the relaxation."""
        return self._spent(self.solver.relax(milp, self._within(None, None)))

    def _within(self, time_s: float | None, gap: float | None) -> Limits:
        left_s = self.left_s if time_s is None else min(self.left_s, time_s)
        return Limits(time_s=left_s, gap=self.limits.gap if gap is None else gap)

    def _spent(self, answer: Answer) -> Answer:
        self.programs += 1
        self.took_s += answer.took_s
        return answer
