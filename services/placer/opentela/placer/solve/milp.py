"""A mixed-integer linear program as arrays, and what a solver said of it.

It is always minimised. Both solvers take it as it is.
"""

import enum
import math
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


class Rows(NamedTuple):
    """Rows of a sparse matrix, one after the other, and the interval that each must be in."""

    start: Ints
    column: Ints
    value: Floats
    lower: Floats
    upper: Floats


class Milp(NamedTuple):
    """Minimise `cost · x` over bounded columns, some of them integers, and rows."""

    cost: Floats
    lower: Floats
    upper: Floats
    integer: Bools
    rows: Rows


class RowsBuilder:
    """Collects rows."""

    def __init__(self) -> None:
        self._start = [0]
        self._index: list[int] = []
        self._value: list[float] = []
        self._lower: list[float] = []
        self._upper: list[float] = []

    def add(
        self,
        index: list[int],
        value: list[float],
        *,
        lower: float = -math.inf,
        upper: float = math.inf,
    ) -> None:
        """Add `lower ≤ value · x[index] ≤ upper`."""
        self._index += index
        self._value += value
        self._start.append(len(self._index))
        self._lower.append(lower)
        self._upper.append(upper)

    def rows(self) -> Rows:
        """Return what was collected."""
        return Rows(
            np.array(self._start, dtype=np.int32),
            np.array(self._index, dtype=np.int32),
            np.array(self._value, dtype=np.float64),
            np.array(self._lower, dtype=np.float64),
            np.array(self._upper, dtype=np.float64),
        )


class Verdict(enum.StrEnum):
    """What a solver is sure of."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


class Answer(NamedTuple):
    """What a solver found.

    Attributes:
        x: The best point, if there is one.
        value: Its cost; infinite without a point.
        bound: No point costs less.
        took_s: Time that the solver says it took.
    """

    verdict: Verdict
    x: Floats | None
    value: float
    bound: float
    took_s: float


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """When a solver may stop.

    Attributes:
        time_s: Seconds it may work.
        gap: Share of the value that may lie between it and the bound.
    """

    time_s: float = 10.0
    gap: float = 0.005


class Solver(Protocol):
    """Solves one program. One thread, so that equal input gives equal output."""

    name: str

    def solve(self, milp: Milp, limits: Limits, hint: Floats | None = None) -> Answer:
        """Return the best point found, starting from *hint* if it is one."""

    def relax(self, milp: Milp, limits: Limits) -> Answer:
        """Return the optimum when no column must be an integer."""
