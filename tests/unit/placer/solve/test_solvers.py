"""Both solvers take the same programs and say the same."""

import math

import numpy as np
import pytest

from opentela.core.errors import UsageError
from opentela.placer.solve.cpsat import CpSat
from opentela.placer.solve.effort import Effort
from opentela.placer.solve.highs import Highs
from opentela.placer.solve.milp import Limits, Milp, RowsBuilder, Solver, Verdict
from opentela.placer.solve.run import SOLVERS, named

EXACT = Limits(time_s=20.0, gap=0.0)


@pytest.fixture(params=sorted(SOLVERS))
def solver(request: pytest.FixtureRequest) -> Solver:
    return named(request.param)


def _milp(*, upper: float = 10.0, needed: float = 7.5, integer: bool = True) -> Milp:
    """Minimise 3x + 2y with 2x + y ≥ needed and y ≤ 2."""
    rows = RowsBuilder()
    rows.add([0, 1], [2.0, 1.0], lower=needed)
    rows.add([1], [1.0], upper=2.0)
    whole = np.array([integer, False])
    return Milp(np.array([3.0, 2.0]), np.zeros(2), np.array([upper, 10.0]), whole, rows.rows())


def test_the_optimum_is_found_and_proven(solver: Solver) -> None:
    """x = 3 and y = 1.5 costs 12; x = 4 costs as much."""
    answer = solver.solve(_milp(), EXACT)
    assert answer.verdict is Verdict.OPTIMAL
    assert answer.value == pytest.approx(12.0, abs=1e-5)
    assert answer.bound == pytest.approx(12.0, abs=1e-5)
    assert answer.x is not None
    assert 2 * answer.x[0] + answer.x[1] >= 7.5 - 1e-9


def test_what_cannot_be_is_proven(solver: Solver) -> None:
    """At most 2·2 + 2 can be had."""
    answer = solver.solve(_milp(upper=2.0), EXACT)
    assert answer.verdict is Verdict.INFEASIBLE
    assert answer.x is None
    assert math.isinf(answer.bound)


def test_a_hint_does_no_harm(solver: Solver) -> None:
    """Neither a good one nor one that is no solution."""
    for hint in (np.array([4.0, 0.0]), np.array([0.0, 0.0])):
        answer = solver.solve(_milp(), EXACT, hint)
        assert answer.value == pytest.approx(12.0, abs=1e-5)


def test_the_relaxation_costs_less(solver: Solver) -> None:
    """x = 3.75 costs 11.25; nothing that must be whole costs less."""
    answer = solver.relax(_milp(), EXACT)
    assert answer.value == pytest.approx(11.25, abs=1e-6)
    assert answer.bound == answer.value


def test_without_a_cost_any_point_will_do(solver: Solver) -> None:
    """Its bound is its value."""
    answer = solver.solve(_milp()._replace(cost=np.zeros(2)), EXACT)
    assert answer.verdict is Verdict.OPTIMAL
    assert answer.value == answer.bound == 0.0


def test_effort_adds_up_and_runs_out() -> None:
    """Programs and seconds are counted; what is left is what a solver gets."""
    effort = Effort(named("highs"), Limits(time_s=5.0, gap=0.1))
    effort.solve(_milp(), time_s=1.0, gap=0.0)
    effort.relax(_milp())
    assert effort.programs == 2
    assert effort.left_s == pytest.approx(5.0 - effort.took_s)
    effort.took_s = 9.0
    assert effort.left_s == 0.0


def test_solvers_go_by_their_names() -> None:
    """What is asked for is what is made."""
    assert isinstance(named("highs"), Highs)
    assert isinstance(named("cp-sat"), CpSat)
    assert (Highs.name, CpSat.name) == ("highs", "cp-sat")


def test_an_unknown_solver_is_named() -> None:
    """And so are those that there are."""
    with pytest.raises(UsageError) as raised:
        named("simplex")
    assert raised.value.line() == "solver 'simplex' is unknown; give highs or cp-sat"
