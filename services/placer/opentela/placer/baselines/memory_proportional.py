"""GPUs by how much memory a model needs times how much is asked of it.

This is what one does without a model of performance.
"""

from collections.abc import Mapping

from opentela.placer.baselines.room import Room
from opentela.placer.problem import Group, Problem


def memory_proportional(problem: Problem, weights_bytes: Mapping[str, float]) -> dict[Group, int]:
    """Return a placement that gives each model GPUs in proportion to weights times requests.

    Every model runs in its smallest shape. The largest models choose first and take the fastest
    GPUs; shares are rounded to whole replicas, and what is left goes to whom rounding cost most.

    Args:
        problem: What is asked and what there is.
        weights_bytes: What the weights of each model take.
    """
    room = Room(problem)
    smallest = {model: _smallest(groups) for model, groups in room.by_model.items() if groups}
    claims = {
        demand.model: weights_bytes[demand.model] * demand.rate_rps
        for demand in problem.demands
        if demand.model in smallest
    }
    total = sum(claims.values())
    gpus = sum(pool.gpus for pool in problem.pools)
    entitled = {model: gpus * claim / total for model, claim in claims.items()} if total else {}
    given = dict.fromkeys(entitled, 0)
    for model in sorted(entitled, key=lambda one: (-weights_bytes[one], one)):
        wanted = round(entitled[model] / smallest[model][0].gpus)
        while given[model] < wanted * smallest[model][0].gpus and (
            group := room.take(smallest[model])
        ):
            given[model] += group.gpus
    _hand_out_rest(room, smallest, entitled, given)
    return room.counts


def _hand_out_rest(
    room: Room,
    smallest: Mapping[str, list[Group]],
    entitled: Mapping[str, float],
    given: dict[str, int],
) -> None:
    """Give what is left to the model that has least of what it is entitled to, one by one."""
    open_ones = set(entitled)
    while open_ones:
        model = min(sorted(open_ones), key=lambda one: given[one] / max(entitled[one], 1e-12))
        group = room.take(smallest[model])
        if group is None:
            open_ones.discard(model)
        else:
            given[model] += group.gpus


def _smallest(groups: list[Group]) -> list[Group]:
    """Return those of *groups* with the fewest GPUs; there is at least one."""
    least = min(group.gpus for group in groups)
    return [group for group in groups if group.gpus == least]
