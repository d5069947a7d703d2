"""Why demands do not fit, in words: which model, which limit."""

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from opentela.placer.problem import Demand, Pool, Problem, gpus, usd_h
from opentela.placer.solve.cover import most_served
from opentela.placer.solve.effort import Effort
from opentela.placer.solve.max_min import max_min
from opentela.placer.solve.milp import Limits, Solver

_NAMED_MAX: Final = 8
"""More reasons than these are not read."""

_TIME_S: Final = 5.0
_WHOLE: Final = 1 - 1e-6
_FULL: Final = 0.98


def reasons(problem: Problem, solver: Solver, notes: Mapping[str, str]) -> list[str]:
    """Return why not every demand of *problem* can be met.

    Models that fail for themselves are named with their own limit; only if there are none it is
    the sum of all that does not fit.

    Args:
        problem: What is asked, and what there is.
        solver: Finds out how much of it can be served.
        notes: By model: what is known of why it has no shape, or none that keeps its promises.
    """
    alone = [text for demand in problem.demands if (text := _alone(problem, demand, solver, notes))]
    if alone:
        rest = len(alone) - _NAMED_MAX
        return alone[:_NAMED_MAX] + ([f"and {rest} models more"] if rest > 0 else [])
    return _together(problem, solver)


def unplaceable(problem: Problem, notes: Mapping[str, str]) -> dict[str, str]:
    """Return the models that no pool can run at all, and why."""
    placed = {group.model for group in problem.candidates()}
    return {
        demand.model: _nowhere(problem, demand, notes)
        for demand in problem.demands
        if demand.model not in placed
    }


def _nowhere(problem: Problem, demand: Demand, notes: Mapping[str, str]) -> str:
    name = demand.model
    reachable = [pool for pool in problem.pools if not demand.sites or pool.site in demand.sites]
    if not reachable:
        known = ", ".join(sorted({pool.site for pool in problem.pools if pool.site})) or "none"
        return f"{name} may run at {', '.join(demand.sites)} only; sites with GPUs: {known}"
    own = [option for option in problem.options if option.model == name]
    if not own or not any(option.capacity_rps > 0 for option in own):
        why = notes.get(name) or "it has no replica shape with a capacity"
        return f"{name} runs on no GPU of {_names(reachable)}: {why}"
    kinds = ", ".join(sorted({option.gpu for option in own}))
    most = max(reachable, key=lambda pool: pool.gpus_per_node)
    least = min(option.gpus for option in own)
    return (
        f"{name} needs {least} GPUs or more of {kinds} in one node;"
        f" {_names(reachable)} offer at most {most.gpus_per_node} {most.gpu}"
    )


def _alone(problem: Problem, demand: Demand, solver: Solver, notes: Mapping[str, str]) -> str:
    """Return why *demand* cannot be met although everything else is left out; empty if it can."""
    if demand.model not in {group.model for group in problem.candidates()}:
        return _nowhere(problem, demand, notes)
    only = msgspec.structs.replace(problem, demands=(demand,), running={}, locked={})
    effort = Effort(solver, Limits(time_s=_TIME_S, gap=1e-4))
    if demand.replicas_min and not _fits_min(only, demand):
        return (
            f"{demand.model}: replicas_min = {demand.replicas_min} do not fit into"
            f" {_places(problem, demand)}"
        )
    solved = most_served(only, effort)
    if demand.rate_rps == 0 or solved.bound >= _WHOLE:
        return ""
    budget = ""
    if math.isfinite(problem.usd_h_max):
        budget = f" for {problem.usd_h_max:g} USD/h"
    return (
        f"{demand.model}: {demand.rate_rps:.3g} requests/s are asked, at most"
        f" {solved.value * demand.rate_rps:.3g} can be served{budget} with all of"
        f" {_places(problem, demand)}"
    )


def _fits_min(problem: Problem, demand: Demand) -> bool:
    room = {
        pool.name: pool.nodes * pool.gpus_per_node
        for pool in problem.pools
        if not demand.sites or pool.site in demand.sites
    }
    least = min(group.gpus for group in problem.candidates())
    return sum(gpus // least for gpus in room.values()) >= demand.replicas_min


def _together(problem: Problem, solver: Solver) -> list[str]:
    effort = Effort(solver, Limits(time_s=_TIME_S, gap=0.01))
    solved = max_min(msgspec.structs.replace(problem, running={}, locked={}), effort)
    held = dict.fromkeys((pool.name for pool in problem.pools), 0)
    for group, count in solved.counts.items():
        held[group.pool] += group.gpus * count
    full = [pool for pool in problem.pools if held[pool.name] >= _FULL * pool.gpus]
    most, had = solved.bound, max(solved.value, 0.0)
    first = "all demands together do not fit: no placement serves more than"
    said = [f"{first} {most:.1%} of each, and {had:.1%} can be had"]
    if math.isfinite(problem.usd_h_max):
        said.append(_without_budget(problem, solver))
    if full:
        said.append(f"full by then: {_names(full)} ({gpus(solved.counts)} GPUs in all)")
    wanting = {
        demand.model: sum(g.gpus * n for g, n in solved.counts.items() if g.model == demand.model)
        for demand in problem.demands
    }
    largest = sorted(wanting, key=lambda model: (-wanting[model], model))[:3]
    said.append("most GPUs go to " + ", ".join(f"{model} ({wanting[model]})" for model in largest))
    return said


def _without_budget(problem: Problem, solver: Solver) -> str:
    free = msgspec.structs.replace(problem, usd_h_max=math.inf, running={}, locked={})
    solved = max_min(free, Effort(solver, Limits(time_s=_TIME_S, gap=0.01)))
    return (
        f"without the limit of {problem.usd_h_max:g} USD/h {max(solved.value, 0.0):.1%} can be had,"
        f" for {usd_h(free, solved.counts):.4g} USD/h"
    )


def _places(problem: Problem, demand: Demand) -> str:
    here = {group.pool for group in problem.candidates() if group.model == demand.model}
    return _names([pool for pool in problem.pools if pool.name in here])


def _names(pools: list[Pool]) -> str:
    shown = [f"{pool.name} ({pool.gpus} {pool.gpu})" for pool in pools]
    rest = len(shown) - _NAMED_MAX
    return ", ".join(shown[:_NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")
