"""Replicas that add nothing are taken out again: a solver has no reason not to place them."""

from opentela.placer.problem import Counts, Group, Problem

_SAME = 1 - 1e-9


def trimmed(problem: Problem, counts: Counts) -> dict[Group, int]:
    """Return *counts* without what serves nothing that is asked for.

    The dearest go first; what may not be stopped yet stays, and so does what is to be kept.
    """
    options = problem.candidates()
    price = {pool.name: pool.usd_h for pool in problem.pools}
    left = {group: count for group, count in counts.items() if count}
    for demand in problem.demands:
        mine = [group for group in left if group.model == demand.model]
        have = sum(options[group].capacity_rps * left[group] for group in mine)
        total = sum(left[group] for group in mine)
        needed = min(demand.rate_rps, have) * _SAME
        mine.sort(key=lambda group: (-price[group.pool] * group.gpus, group))
        for group in mine:
            spare = total - demand.replicas_min
            rate = options[group].capacity_rps
            dropped = min(
                left[group] - problem.locked.get(group, 0), spare, int((have - needed) / rate)
            )
            if dropped > 0:
                left[group] -= dropped
                have -= rate * dropped
                total -= dropped
    return {group: count for group, count in left.items() if count}
