"""Every placement of a small problem, so that a solver's proof can be checked without a solver."""

import itertools
from collections.abc import Iterator
from typing import Final

from opentela.core.errors import UsageError
from opentela.placer.baselines.room import Blocks
from opentela.placer.problem import Group, Pool, Problem, served, usd_h

PLACEMENTS_MAX: Final = 2_000_000
"""More than these take minutes."""


def best_max_min(problem: Problem) -> tuple[float, list[dict[Group, int]]]:
    """Return the greatest share that the worst served model can get, and every placement with it.

    Only placements into which nothing more fits are tried: a replica more never serves less.

    Raises:
        UsageError: There are more than `PLACEMENTS_MAX`.
    """
    best = -1.0
    found: list[dict[Group, int]] = []
    for counts in _placements(problem, only_full=True):
        value = min(served(problem, counts).values(), default=1.0)
        if value > best + 1e-12:
            best, found = value, []
        if value >= best - 1e-12:
            found.append(counts)
    return best, found


def best_cost(problem: Problem) -> float | None:
    """Return the least price of an hour at which every demand is met; None if none does.

    Raises:
        UsageError: There are more than `PLACEMENTS_MAX` placements.
    """
    prices = [
        usd_h(problem, counts)
        for counts in _placements(problem, only_full=False)
        if min(served(problem, counts).values(), default=1.0) >= 1 - 1e-9
    ]
    return min(prices, default=None)


def _placements(problem: Problem, *, only_full: bool) -> Iterator[dict[Group, int]]:
    groups = list(problem.candidates())
    fillings = []
    total = 1
    for pool in problem.pools:
        here = [group for group in groups if group.pool == pool.name]
        fillings.append(list(_fillings(pool, here, only_full=only_full)))
        total *= len(fillings[-1])
        if total > PLACEMENTS_MAX:
            raise UsageError(
                f"there are more than {PLACEMENTS_MAX} placements to try",
                remedy="let the solver do it",
            )
    for chosen in itertools.product(*fillings):
        yield {group: count for filling in chosen for group, count in filling}


def _fillings(
    pool: Pool, groups: list[Group], *, only_full: bool
) -> Iterator[tuple[tuple[Group, int], ...]]:
    """Yield the ways to fill *pool*."""
    if not groups:
        yield ()
        return
    for counts in _vectors(pool, groups):
        blocks = Blocks(pool)
        for group, count in zip(groups, counts, strict=True):
            for _ in range(count):
                blocks.add(group)
        if not only_full or not any(blocks.fits(group) for group in groups):
            pairs = zip(groups, counts, strict=True)
            yield tuple((group, count) for group, count in pairs if count)


def _vectors(pool: Pool, groups: list[Group]) -> Iterator[tuple[int, ...]]:
    """Yield the counts of *groups* that fit into *pool*, each once."""

    def extend(chosen: tuple[int, ...], rest: list[Group]) -> Iterator[tuple[int, ...]]:
        if not rest:
            yield chosen
            return
        blocks = Blocks(pool)
        for group, count in zip(groups, chosen, strict=False):
            for _ in range(count):
                blocks.add(group)
        count = 0
        yield from extend((*chosen, count), rest[1:])
        while blocks.fits(rest[0]):
            blocks.add(rest[0])
            count += 1
            yield from extend((*chosen, count), rest[1:])

    yield from extend((), groups)
