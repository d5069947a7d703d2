"""A problem as columns and rows.

A column counts replicas of one group. What runs already and what would have to be started are two
columns where starting costs something, because a replica that is still loading serves nobody.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from opentela.placer.problem import Counts, Demand, Group, Option, Pool, Problem
from opentela.placer.solve.milp import Floats, RowsBuilder

_SAME: Final = 1 - 1e-9
"""Capacities that differ by less are equal."""


class Column(NamedTuple):
    """Some replicas of one group: those that are kept, or those that are started.

    Attributes:
        capacity_rps: What one serves on average until the horizon.
        start_usd_h: What starting one costs, spread over the hours until the horizon.
    """

    group: Group
    capacity_rps: float
    usd_h: float
    start_usd_h: float
    lower: int
    upper: int
    is_kept: bool = False


class Columns:
    """The columns of a problem by model, and how they fill its pools."""

    def __init__(self, problem: Problem, columns: list[Column]) -> None:
        self.problem = problem
        self.all = columns
        self.by_model: dict[str, list[int]] = {demand.model: [] for demand in problem.demands}
        for index, column in enumerate(columns):
            self.by_model[column.group.model].append(index)

    def __len__(self) -> int:
        return len(self.all)

    def add_limits(self, rows: RowsBuilder) -> None:
        """Add that everything fits into nodes, and that it can be paid.

        Stages of one pool divide one another in size, so that replicas fit into nodes exactly if,
        for each size, there are blocks enough of it: the greater go first and leave no holes.
        """
        for pool in self.problem.pools:
            here = [i for i, column in enumerate(self.all) if column.group.pool == pool.name]
            for size, available in _blocks(pool, [self.all[i].group for i in here]):
                chosen = [i for i in here if self.all[i].group.tp >= size]
                rows.add(
                    chosen, [_stages(self.all[i].group, size) for i in chosen], upper=available
                )
        if math.isfinite(self.problem.usd_h_max):
            every = list(range(len(self.all)))
            rows.add(every, [one.usd_h for one in self.all], upper=self.problem.usd_h_max)

    def add_cover(self, rows: RowsBuilder, demand: Demand, share: float) -> None:
        """Add that *share* of *demand* is served.

        More than the whole of it does not help: clipping at the demand is what makes the relaxation
        tight when one replica is more than a model needs.
        """
        index = self.by_model[demand.model]
        if demand.rate_rps > 0 and share > 0:
            wanted = demand.rate_rps * share
            values = [min(1.0, self.all[i].capacity_rps / wanted) for i in index]
            rows.add(index, values, lower=1.0)
        if demand.replicas_min > 0:
            rows.add(index, [1.0] * len(index), lower=float(demand.replicas_min))

    def bounds(self) -> tuple[Floats, Floats]:
        """Return how many replicas each column counts at least and at most."""
        return (
            np.array([column.lower for column in self.all], dtype=np.float64),
            np.array([column.upper for column in self.all], dtype=np.float64),
        )

    def costs(self) -> Floats:
        """Return the price of an hour of each column, starting included."""
        return np.array([one.usd_h + one.start_usd_h for one in self.all], dtype=np.float64)

    def counts(self, x: Floats) -> dict[Group, int]:
        """Return the placement that *x* stands for."""
        found: dict[Group, int] = {}
        for column, value in zip(self.all, x[: len(self.all)], strict=True):
            if value > 0:
                found[column.group] = found.get(column.group, 0) + round(value)
        return found

    def point(self, counts: Counts) -> Floats:
        """Return *counts* as a point; what has no column is left out."""
        left = dict(counts)
        x = np.zeros(len(self.all), dtype=np.float64)
        # Kept ones come before started ones of the same group.
        for index, column in enumerate(self.all):
            taken = min(column.upper, left.get(column.group, 0))
            x[index] = taken
            if taken:
                left[column.group] -= taken
        return x

    def worth(self, x: Floats) -> dict[str, float]:
        """Return the share of each model's demand that *x* serves until the horizon, at most 1."""
        shares = {}
        for demand in self.problem.demands:
            have = math.fsum(self.all[i].capacity_rps * x[i] for i in self.by_model[demand.model])
            shares[demand.model] = min(1.0, have / demand.rate_rps) if demand.rate_rps else 1.0
        return shares


def columns(problem: Problem, share: float = 1.0, *, prune: bool = True) -> Columns:
    """Return the columns that can be of use when *share* of each demand is to be served."""
    pools = {pool.name: pool for pool in problem.pools}
    demands = {demand.model: demand for demand in problem.demands}
    candidates = problem.candidates()
    kept = (
        _without_dominated(candidates, demands, share) if prune else dict.fromkeys(candidates, True)
    )
    made: list[Column] = []
    for group, option in candidates.items():
        if kept[group] or problem.running.get(group):
            made += _columns(problem, pools[group.pool], group, option)
    return Columns(problem, made)


def _columns(problem: Problem, pool: Pool, group: Group, option: Option) -> Iterator[Column]:
    usd_h = group.gpus * pool.usd_h
    most = pool.nodes * (pool.gpus_per_node // group.tp) // group.pp
    running = problem.running.get(group, 0)
    late = min(1.0, (option.load_s + problem.drain_s) / problem.horizon_s)
    if running:
        locked = min(problem.locked.get(group, 0), running)
        yield Column(group, option.capacity_rps, usd_h, 0.0, locked, running, is_kept=True)
    yield Column(
        group, option.capacity_rps * (1 - late), usd_h, usd_h * late, 0, max(0, most - running)
    )


def _without_dominated(
    candidates: Mapping[Group, Option], demands: Mapping[str, Demand], share: float
) -> dict[Group, bool]:
    """Return which groups are worth a column.

    One is not when copies of a smaller one in the same pool fit in its GPUs and serve as much of
    what is asked.
    """
    siblings: dict[tuple[str, str], list[tuple[Group, Option]]] = {}
    for group, option in candidates.items():
        siblings.setdefault((group.model, group.pool), []).append((group, option))
    kept = {}
    for (model, _), family in siblings.items():
        wanted = demands[model].rate_rps * share
        better: list[tuple[Group, float]] = []
        for group, option in sorted(family, key=_size):
            useful = min(option.capacity_rps, wanted)
            kept[group] = not any(_dominates(one, of, group, useful, wanted) for one, of in better)
            if kept[group]:
                better.append((group, option.capacity_rps))
    return kept


def _dominates(
    smaller: Group, capacity_rps: float, group: Group, useful: float, wanted: float
) -> bool:
    copies = group.gpus // smaller.gpus
    fits = smaller.tp <= group.tp and copies >= 1
    return fits and min(copies * capacity_rps, wanted) >= useful * _SAME


def _size(one: tuple[Group, Option]) -> tuple[int, int, float]:
    group, option = one
    return group.gpus, group.tp, -option.capacity_rps


def _blocks(pool: Pool, groups: list[Group]) -> Iterator[tuple[int, int]]:
    """Yield each size of stage that limits, and how many blocks of it the pool has."""
    last = None
    for size in sorted({group.tp for group in groups} | {1}):
        available = pool.nodes * (pool.gpus_per_node // size)
        # Where sizes divide the node without rest, counting single GPUs says it all.
        if last is None or available * size < last:
            yield size, available
            last = available * size


def _stages(group: Group, size: int) -> float:
    return float(group.pp * (group.tp // size))
