"""The greatest share that every model can be served, found by asking for one share after another.

As one program it is hopeless when GPUs are scarce: the relaxation gives each model a sliver of the
largest replica. Asked for a given share, capacities are clipped at what that share needs, and each
question is answered, mostly with a proof, in a fraction of a second.
"""

import math
from typing import Final

import msgspec
import numpy as np

from opentela.placer.problem import Counts, Demand, Group, InfeasibleError, Problem, served
from opentela.placer.solve.cover import most_served
from opentela.placer.solve.effort import Effort
from opentela.placer.solve.formulation import Columns, columns
from opentela.placer.solve.milp import Milp, RowsBuilder, Verdict
from opentela.placer.solve.result import Objective, Solved, gap

_LEAST: Final = 1e-6
"""Shares below are none: a model then has no replica at all."""

_RELAXED_GAP: Final = 1.002
"""How exactly the relaxation's share is found; the proof above it starts there."""

_STEP: Final = 1 + 1e-5
"""To prove that a share is the best, this much more is asked for."""

_CLOSE: Final = 1.02
"""Bound over value from which on the search asks for a little more instead of halving."""

_ANY: Final = 1.0
"""The gap at which a question is answered: with the first point."""

_PER_GPU_USD_H: Final = 1e-3
"""What a GPU costs in a question beside its price, so that it costs something if it has none."""

_FIRST: Final = 0.87
"""Share of what the relaxation allows that is asked for first: whole replicas mostly reach it."""

_SHARE_OF_TIME: Final = 0.2
"""Share of the time left that one question may take; without an answer the next asks for less."""

_SHARE_OF_PROOF: Final = 0.08
"""The same for a question that is asked for a proof: those that can be had are quick."""

_APART: Final = 1.005
"""How near the bound comes to a share that was not answered."""

_POLISH: Final = 0.25
"""Share of the time that is kept for serving more of the models that are not the worst off."""


class MaxMin:
    """One search: a placement that is as good as `low`, and a proof that none exceeds `high`."""

    def __init__(self, problem: Problem, effort: Effort, hint: Counts | None) -> None:
        self.problem = problem
        self.effort = effort
        self.demands = [one for one in problem.demands if one.rate_rps > 0 or one.replicas_min]
        self.low, self.high = -1.0, 1.0
        self.counts: dict[Group, int] = {}
        if hint is not None:
            self._take(dict(hint))

    def run(self) -> Solved:
        """Return the best placement found and its bound.

        Raises:
            InfeasibleError: What must be kept does not fit.
        """
        self.high = self._relaxed()
        search = self.high
        keep_s = _POLISH * self.effort.limits.time_s
        if self.high >= 1:
            self._ask(1.0)
        while self._is_open(search) and self.effort.left_s > keep_s:
            share = self._next(search)
            verdict = self._ask(share)
            if verdict is Verdict.INFEASIBLE:
                self.high = search = share
            elif self.low < share:
                # No answer: it may be possible, but where to look is below. What is proven may
                # still come down to here.
                self._tighten(share, keep_s)
                search = share
            else:
                search = max(search, self.low)
        if self.low < 0:
            self._nothing()
        polished = self._polished()
        return Solved(
            objective=Objective.MAX_MIN,
            counts=polished,
            value=max(self.low, 0.0),
            bound=self.high,
            verdict=self._verdict(),
            solver=self.effort.solver.name,
            programs=self.effort.programs,
            took_s=self.effort.took_s,
        )

    def _tighten(self, below: float, keep_s: float) -> None:
        """Bring the bound down towards *below*, as far as proofs are quick."""
        while (
            self._is_open(self.high) and self.high / below > _APART and self.effort.left_s > keep_s
        ):
            share = math.sqrt(below * self.high)
            if self._ask(share, _SHARE_OF_PROOF) is Verdict.INFEASIBLE:
                self.high = share
            else:
                below = max(share, self.low)

    def _is_open(self, search: float) -> bool:
        apart = gap(Objective.MAX_MIN, max(self.low, 0.0), search)
        return search > _LEAST and apart > max(self.effort.limits.gap, _STEP - 1)

    def _verdict(self) -> Verdict:
        apart = gap(Objective.MAX_MIN, max(self.low, 0.0), self.high)
        within = self.high <= _LEAST or apart <= max(self.effort.limits.gap, _STEP - 1)
        return Verdict.OPTIMAL if within else Verdict.FEASIBLE

    def _next(self, search: float) -> float:
        """Return the share to ask for next."""
        if self.low <= 0:
            return max(search * _FIRST, _LEAST)
        if search / self.low < _CLOSE and self.effort.limits.gap < _CLOSE - 1:
            return min(1.0, self.low * max(_STEP, 1 + self.effort.limits.gap / 2))
        return math.sqrt(self.low * search)

    def _ask(self, share: float, part: float = _SHARE_OF_TIME) -> Verdict:
        cols, milp = self._program(share)
        hint = cols.point(self.counts) if self.counts else None
        time_s = max(0.05, self.effort.left_s * part)
        answer = self.effort.solve(milp, hint, time_s=time_s, gap=_ANY)
        if answer.x is not None:
            self._take(cols.counts(answer.x), cols.worth(answer.x))
        return answer.verdict

    def _take(self, counts: dict[Group, int], shares: dict[str, float] | None = None) -> None:
        shares = served(self.problem, counts) if shares is None else shares
        value = min((shares[demand.model] for demand in self.demands), default=1.0)
        if value > self.low:
            self.low, self.counts = value, counts

    def _program(self, share: float) -> tuple[Columns, Milp]:
        cols = columns(self.problem, share)
        rows = RowsBuilder()
        cols.add_limits(rows)
        for demand in self.demands:
            cols.add_cover(rows, demand, share)
        lower, upper = cols.bounds()
        integer = np.ones(len(cols), dtype=np.bool_)
        # Any point will do; to look for a cheap one leads there much sooner than to look for any.
        cost = cols.costs() + _PER_GPU_USD_H * np.array([one.group.gpus for one in cols.all])
        return cols, Milp(cost, lower, upper, integer, rows.rows())

    def _relaxed(self) -> float:
        """Return a share that even fractions of replicas cannot exceed."""
        if self._can_relaxed(1.0):
            return 1.0
        low, high = _LEAST, 1.0
        if not self._can_relaxed(low):
            return low
        while high / low > _RELAXED_GAP:
            middle = math.sqrt(low * high)
            if self._can_relaxed(middle):
                low = middle
            else:
                high = middle
        return high

    def _can_relaxed(self, share: float) -> bool:
        _, milp = self._program(share)
        return self.effort.relax(milp).verdict is not Verdict.INFEASIBLE

    def _nothing(self) -> None:
        """Take what must be kept; raise if even that does not fit."""
        answer = self._ask(0.0)
        if answer is Verdict.INFEASIBLE:
            raise InfeasibleError(["what must be kept does not fit into the inventory"])

    def _polished(self) -> dict[Group, int]:
        """Return a placement that serves the worst off as well, and the others as it can."""
        if self.effort.left_s <= 0:
            return self.counts
        # A hair less, so that rounding does not forbid what was found.
        floor = max(self.low, 0.0) * (1 - 1e-9)
        better = most_served(self._fairly(), self.effort, hint=self.counts, floor=floor)
        shares = columns(self.problem, prune=False)
        value = shares.worth(shares.point(better.counts))
        worst = min((value[demand.model] for demand in self.demands), default=1.0)
        return better.counts if worst >= floor else self.counts

    def _fairly(self) -> Problem:
        """Return the problem with every model worth the same, however much is asked of it."""
        demands = tuple(_fair(demand) for demand in self.problem.demands)
        return msgspec.structs.replace(self.problem, demands=demands)


def _fair(demand: Demand) -> Demand:
    rate = demand.rate_rps
    return msgspec.structs.replace(demand, weight=demand.weight / rate if rate else 0.0)


def max_min(problem: Problem, effort: Effort, hint: Counts | None = None) -> Solved:
    """Return the placement whose worst served model is served best.

    Raises:
        InfeasibleError: What must be kept does not fit.
    """
    return MaxMin(problem, effort, hint).run()
