"""A problem as columns and rows."""

import numpy as np
import pytest
from tests.unit.placer.problems import A100, problem

from opentela.placer.problem import Demand, Group, Option, Pool
from opentela.placer.solve.formulation import columns
from opentela.placer.solve.milp import Milp, RowsBuilder

BIG_A, BIG_H = Group("big", "a", 4), Group("big", "h", 4)
SMALL_A, SMALL_H = Group("small", "a", 1), Group("small", "h", 1)


def _tp(*capacities: tuple[int, float]) -> tuple[Option, ...]:
    return tuple(Option(model="big", gpu="a100", tp=tp, capacity_rps=c) for tp, c in capacities)


@pytest.mark.parametrize(
    ("shapes", "share", "kept"),
    [
        (((1, 1.0), (2, 2.0)), 1.0, [1]),
        (((1, 1.0), (2, 2.1)), 1.0, [1, 2]),
        (((1, 1.0), (2, 2.1), (4, 4.1)), 1.0, [1, 2]),
        (((2, 4.0), (4, 11.0)), 1.0, [2, 4]),
        (((2, 4.0), (4, 11.0)), 0.5, [2]),
    ],
)
def test_shapes_that_smaller_ones_replace_are_left_out(
    shapes: tuple[tuple[int, float], ...], share: float, kept: list[int]
) -> None:
    """Two small ones in its GPUs serve as much of what is asked."""
    one = problem(demands=(Demand(model="big", rate_rps=10.0),), options=_tp(*shapes))
    assert [column.group.tp for column in columns(one, share).all] == kept
    assert len(columns(one, share, prune=False)) == len(shapes)


def test_what_runs_is_kept_or_started_anew_and_late() -> None:
    """A replica that loads for 100 of 400 s serves three quarters of the time."""
    one = problem(running={BIG_A: 1}, locked={BIG_A: 1}, horizon_s=400.0)
    cols = columns(one)
    kept, started = (column for column in cols.all if column.group == BIG_A)
    assert (kept.is_kept, kept.lower, kept.upper, kept.capacity_rps) == (True, 1, 1, 2.0)
    assert (started.is_kept, started.lower, started.upper) == (False, 0, 1)
    assert started.capacity_rps == pytest.approx(1.5)
    assert started.start_usd_h == pytest.approx(8.0 / 4)


def test_points_and_placements_are_one_another() -> None:
    """Kept ones are counted first."""
    one = problem(running={SMALL_A: 2}, horizon_s=500.0)
    cols = columns(one)
    counts = {SMALL_A: 3, BIG_H: 1}
    x = cols.point(counts)
    assert cols.counts(x) == counts
    # Two are there; the third misses a tenth of the time.
    assert cols.worth(x)["small"] == pytest.approx((2 * 4.0 + 4.0 * 0.9) / 20)
    assert cols.worth(x)["big"] == pytest.approx(4.0 * 0.8 / 6)
    idle = columns(problem(demands=(Demand(model="big", rate_rps=0.0),)))
    assert idle.worth(np.zeros(len(idle))) == {"big": 1.0}


def _rows_of(pool: Pool, *tps: int) -> list[tuple[list[float], float]]:
    shapes = tuple((tp, tp**1.1) for tp in tps)
    one = problem(pools=(pool,), demands=(Demand(model="big", rate_rps=1e6),), options=_tp(*shapes))
    rows = RowsBuilder()
    columns(one).add_limits(rows)
    made = rows.rows()
    return [
        (made.value[made.start[i] : made.start[i + 1]].tolist(), float(made.upper[i]))
        for i in range(len(made.upper))
    ]


def test_gpus_are_counted_once_where_sizes_divide_the_node() -> None:
    """One row says it all; a node of six needs one more for blocks of four."""
    assert _rows_of(A100, 1, 2, 4) == [([1.0, 2.0, 4.0], 8.0)]
    six = Pool(name="a", gpu="a100", nodes=3, gpus_per_node=6)
    assert _rows_of(six, 1, 2, 4) == [([1.0, 2.0, 4.0], 18.0), ([1.0], 3.0)]


def test_stages_count_one_by_one() -> None:
    """Two stages of four take two blocks of four."""
    six = Pool(name="a", gpu="a100", nodes=3, gpus_per_node=6)
    deep = (Option(model="big", gpu="a100", tp=4, pp=2, capacity_rps=3.0),)
    rows = RowsBuilder()
    one = problem(pools=(six,), options=deep, usd_h_max=50.0)
    columns(one).add_limits(rows)
    made = rows.rows()
    assert made.value.tolist() == [8.0, 2.0, 8.0]
    assert made.upper.tolist() == [18.0, 3.0, 50.0]


def test_cover_is_clipped_at_what_is_asked() -> None:
    """A replica that is more than enough counts as enough."""
    one = problem(demands=(Demand(model="small", rate_rps=5.0, replicas_min=2),))
    rows = RowsBuilder()
    cols = columns(one)
    cols.add_cover(rows, one.demands[0], 1.0)
    made = rows.rows()
    assert made.value.tolist() == [0.8, 1.0, 1.0, 1.0]
    assert made.lower.tolist() == [1.0, 2.0]
    nothing = RowsBuilder()
    cols.add_cover(nothing, Demand(model="small", rate_rps=0.0), 1.0)
    cols.add_cover(nothing, Demand(model="small", rate_rps=1.0), 0.0)
    assert len(nothing.rows().lower) == 0


def test_a_program_is_its_arrays() -> None:
    """Bounds and costs come in the order of the columns."""
    cols = columns(problem())
    lower, upper = cols.bounds()
    milp = Milp(
        cols.costs(), lower, upper, np.ones(len(cols), dtype=np.bool_), RowsBuilder().rows()
    )
    assert [one.group for one in cols.all] == [BIG_A, BIG_H, SMALL_A, SMALL_H]
    assert milp.upper.tolist() == [2, 2, 8, 8]
    assert milp.cost.tolist() == [8.0, 12.0, 2.0, 3.0]
