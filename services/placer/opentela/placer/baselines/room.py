"""What is still free while a placement is put together replica by replica."""

from collections.abc import Sequence

from opentela.placer.problem import Counts, Group, Pool, Problem


class Room:
    """Pools that fill up, and the placement that fills them."""

    def __init__(self, problem: Problem) -> None:
        self.options = problem.candidates()
        self.counts: dict[Group, int] = {}
        self.by_model: dict[str, list[Group]] = {demand.model: [] for demand in problem.demands}
        for group in self.options:
            self.by_model[group.model].append(group)
        self._free = {pool.name: Blocks(pool) for pool in problem.pools}

    def fits(self, group: Group) -> bool:
        """Return whether one more replica of *group* has room."""
        return self._free[group.pool].fits(group)

    def add(self, group: Group) -> None:
        """Place one replica of *group*, for which there must be room."""
        self._free[group.pool].add(group)
        self.counts[group] = self.counts.get(group, 0) + 1

    def take(self, groups: Sequence[Group]) -> Group | None:
        """Place one replica of the fastest of *groups* that has room, and return which."""
        fitting = [group for group in groups if self.fits(group)]
        if not fitting:
            return None
        best = max(
            fitting, key=lambda group: (self.options[group].capacity_rps / group.gpus, group)
        )
        self.add(best)
        return best


class Blocks:
    """How many blocks of each size one pool has left.

    Stages are powers of two: what fits by count, size by size, fits into nodes.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._used: dict[int, int] = {}

    def fits(self, group: Group, count: int = 1) -> bool:
        """Return whether so many more replicas of *group* have room."""
        pool = self._pool
        used = {**self._used, group.tp: self._used.get(group.tp, 0) + group.pp * count}
        return all(
            sum(stages * (tp // size) for tp, stages in used.items() if tp >= size)
            <= pool.nodes * (pool.gpus_per_node // size)
            for size in (1, *used)
        )

    def add(self, group: Group, count: int = 1) -> None:
        """Take the room of *count* replicas; give it back if that is negative."""
        self._used[group.tp] = self._used.get(group.tp, 0) + group.pp * count


def filled(problem: Problem, counts: Counts) -> dict[str, Blocks]:
    """Return the pools as *counts* fill them."""
    rooms = {pool.name: Blocks(pool) for pool in problem.pools}
    for group, count in counts.items():
        rooms[group.pool].add(group, count)
    return rooms
