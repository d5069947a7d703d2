"""One replica after another to whoever is served worst."""

from opentela.placer.baselines.room import Room
from opentela.placer.problem import Group, Problem


def greedy(problem: Problem) -> dict[Group, int]:
    """Return a placement built by adding, for the worst served model, the replica that helps most.

    Help is counted for each GPU, and more than the demand is no help. Once the worst served model
    has no room left it stays as it is, and the next worst goes on.
    """
    room = Room(problem)
    have = {demand.model: 0.0 for demand in problem.demands}
    wanted = {demand.model: demand.rate_rps for demand in problem.demands}
    open_ones = [demand.model for demand in problem.demands if demand.rate_rps > 0]
    while open_ones:
        model = min(open_ones, key=lambda one: have[one] / wanted[one])
        missing = wanted[model] - have[model]
        fitting = [group for group in room.by_model[model] if room.fits(group)]
        if missing <= 0 or not fitting:
            open_ones.remove(model)
            continue
        best = max(
            fitting,
            key=lambda group: (min(room.options[group].capacity_rps, missing) / group.gpus, group),
        )
        room.add(best)
        have[model] += room.options[best].capacity_rps
    return room.counts
