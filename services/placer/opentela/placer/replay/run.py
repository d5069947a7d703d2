"""One trace under several policies and several sizes of inventory."""

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from opentela.placer.baselines.memory_proportional import memory_proportional
from opentela.placer.headroom import with_headroom
from opentela.placer.live.config import PlacerConfig
from opentela.placer.options import Wanted
from opentela.placer.problem import (
    Counts,
    Demand,
    Group,
    InfeasibleError,
    Option,
    Pool,
    Problem,
)
from opentela.placer.replay.controller import Controller, Policy, initial
from opentela.placer.replay.first import first, work
from opentela.placer.replay.fleet import Change, Known
from opentela.placer.replay.live import Live, Stage
from opentela.placer.replay.outcome import Outcome, outcome
from opentela.placer.replay.trace import Trace
from opentela.placer.solve.milp import Limits
from opentela.placer.solve.result import Objective
from opentela.placer.solve.run import solve

_FIRST: Limits = Limits(time_s=10.0, gap=0.01)
_EPOCH: Limits = Limits(time_s=1.0, gap=0.03)
_LIVE: PlacerConfig = PlacerConfig(access="")


class Way(enum.StrEnum):
    """A way to place.

    `static`: solved once for what the past asked and for growth, then left alone.
    `memory-proportional`: likewise, by weights times requests.
    `dynamic`: solved again and again for what was asked lately; spare GPUs are given back.
    `live`: begins as `static` does; what `otela placer` does is done, with its settings.
    `dynamic-kept`: begins as `static` does and uses every GPU; spare replicas stay until others
    need their GPUs.
    """

    STATIC = "static"
    MEMORY = "memory-proportional"
    DYNAMIC = "dynamic"
    KEPT = "dynamic-kept"
    LIVE = "live"

    @property
    def is_dynamic(self) -> bool:
        """Whether anything moves."""
        return self in {Way.DYNAMIC, Way.KEPT, Way.LIVE}


class Setting(NamedTuple):
    """Everything that a run needs beside the way to place.

    Attributes:
        past: What placements may learn from.
        future: What is judged.
        wanted: Each model of the trace as the simulator sees it.
        models: What is known of each.
        options: Every replica shape that keeps the promises.
        every_option: The same, promises or not.
    """

    past: Trace
    future: Trace
    wanted: tuple[Wanted, ...]
    models: tuple[Known, ...]
    pools: tuple[Pool, ...]
    options: tuple[Option, ...]
    every_option: tuple[Option, ...]
    weights_bytes: dict[str, float]
    until_s: float


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What one way to place came to with one inventory."""

    way: Way
    size: float
    gpus: int
    cool_down_s: float
    load_factor: float
    outcome: Outcome


Progress = Callable[[float], None]


def run(
    setting: Setting,
    way: Way,
    policy: Policy,
    *,
    size: float = 1.0,
    load_factor: float = 1.0,
    live: PlacerConfig = _LIVE,
    progress: Progress = lambda _: None,
) -> Run:
    """Return what *way* comes to.

    Args:
        setting: Trace, models and inventory.
        way: How to place.
        policy: Of the dynamic way; burstiness and time to absorb it are for all.
        size: Multiplies the nodes of every pool.
        load_factor: Multiplies the time to load.
        live: Settings of the placer, for `live`; its models are those of the trace.
        progress: Told the share that is done.
    """
    problem = _problem(setting, policy, size, load_factor)
    now = _begin(setting.future)
    begun = _first(setting, problem, way, policy)
    changes = initial(begun, now)
    if way is Way.LIVE:
        made = _stage(setting, problem, load_factor, policy.drain_s)
        changes += _live(setting, Live(made, live, begun, _begin(setting.past)), progress)
    elif way.is_dynamic:
        asked = msgspec.structs.replace(policy, keeps_spare=way is Way.KEPT)
        changes += _controlled(setting, problem, asked, begun, progress)
    kinds = {pool.name: pool.gpu for pool in problem.pools}
    told = outcome(setting.future, setting.models, changes, kinds, setting.until_s)
    return Run(
        way=way,
        size=size,
        gpus=sum(pool.gpus for pool in problem.pools),
        cool_down_s=live.plan.cool_down_s if way is Way.LIVE else policy.cool_down_s,
        load_factor=load_factor,
        outcome=told,
    )


def _problem(setting: Setting, policy: Policy, size: float, load_factor: float) -> Problem:
    """Return the placement problem of what the past asked."""
    past = setting.past
    span = max(past.duration_s - float(past.requests.arrival_s[0]), 1.0)
    counts = np.bincount(past.model, weights=work(past, setting.models), minlength=len(past.models))
    return Problem(
        pools=tuple(
            msgspec.structs.replace(pool, nodes=max(1, round(pool.nodes * size)))
            for pool in setting.pools
        ),
        demands=tuple(
            Demand(
                model=one.name,
                rate_rps=with_headroom(
                    float(counts[i]) / span, cv=policy.cv, absorb_s=policy.absorb_s
                ),
            )
            for i, one in enumerate(setting.models)
        ),
        options=tuple(
            msgspec.structs.replace(option, load_s=option.load_s * load_factor)
            for option in setting.options
        ),
    )


def _first(setting: Setting, problem: Problem, way: Way, policy: Policy) -> dict[Group, int]:
    if way is Way.MEMORY:
        return memory_proportional(problem, setting.weights_bytes)
    if way is Way.LIVE:
        # A replica stays within one agent, and so do its stages.
        options = tuple(option for option in problem.options if option.pp == 1)
        problem = msgspec.structs.replace(problem, options=options)
    if way in {Way.STATIC, Way.KEPT, Way.LIVE}:
        return first(problem, setting.past, setting.models, policy.absorb_s)
    return _place(problem, _FIRST)


def _place(problem: Problem, limits: Limits) -> dict[Group, int]:
    """Return the cheapest placement that meets every demand, or what serves most if none does."""
    try:
        return solve(problem, Objective.COST, limits=limits).counts
    except InfeasibleError:
        # The fairest would have each of many models load in turn, and serve little between.
        return solve(problem, Objective.SERVED, limits=limits).counts


def _controlled(
    setting: Setting, problem: Problem, policy: Policy, first: Counts, progress: Progress
) -> list[Change]:
    """Return what the controller does over the trace, tick by tick."""
    future = setting.future
    arrival = future.requests.arrival_s
    begin = float(arrival[0])
    ticks = int(np.ceil((setting.until_s - begin) / policy.tick_s)) + 1
    tick = np.minimum(((arrival - begin) / policy.tick_s).astype(np.int64), ticks - 1)
    seen = np.zeros((ticks, len(setting.models)))
    np.add.at(seen, (tick, future.model), work(future, setting.models))
    controller = Controller(problem, policy, lambda asked: _place(asked, _EPOCH), first, begin)
    changes: list[Change] = []
    for index in range(ticks):
        changes += controller.step(begin + (index + 1) * policy.tick_s, seen[index])
        progress((index + 1) / ticks)
    return changes


def _stage(setting: Setting, problem: Problem, load_factor: float, drain_s: float) -> Stage:
    every = msgspec.structs.replace(problem, options=setting.every_option)
    return Stage(
        wanted=setting.wanted,
        models=setting.models,
        pools=problem.pools,
        load_s={group: one.load_s * load_factor for group, one in every.candidates().items()},
        load_factor=load_factor,
        drain_s=drain_s,
    )


def _live(setting: Setting, placer: Live, progress: Progress) -> list[Change]:
    """Return what a placer does over the trace that has heard of all that was asked before."""
    placer.hear(setting.past, work(setting.past, setting.models))
    sizes = work(setting.future, setting.models)
    return placer.run(setting.future, sizes, setting.until_s, progress)


def _begin(trace: Trace) -> float:
    return float(trace.requests.arrival_s[0])


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Dynamic placement against another, where one of the two figures is equal.

    Attributes:
        at: What is equal: GPU-hours, or the share of requests served as promised.
    """

    way: Way
    against: Way
    gpu_hours: float
    dynamic_slo: float
    other_slo: float
    dynamic_p99_s: float
    other_p99_s: float


def at_equal_hours(runs: Sequence[Run], against: Way) -> list[Comparison]:
    """Return, for each dynamic run, what *against* comes to with as many GPU-hours.

    Between two sizes that were run the figures are interpolated; beyond them nothing is said.
    """
    others = sorted(
        (one.outcome for one in runs if one.way is against), key=lambda one: one.gpu_hours
    )
    hours = np.array([one.gpu_hours for one in others])
    made = []
    for one in runs:
        own = one.outcome
        if one.way.is_dynamic and len(hours) and hours[0] <= own.gpu_hours <= hours[-1]:
            slo = np.interp(own.gpu_hours, hours, [other.slo_attained for other in others])
            p99 = np.interp(own.gpu_hours, hours, [_finite(other.p99_s) for other in others])
            made.append(
                Comparison(
                    way=one.way,
                    against=against,
                    gpu_hours=own.gpu_hours,
                    dynamic_slo=own.slo_attained,
                    other_slo=float(slo),
                    dynamic_p99_s=own.p99_s,
                    other_p99_s=float(p99),
                )
            )
    return made


def hours_for_equal_slo(runs: Sequence[Run], against: Way) -> list[tuple[float, float, float]]:
    """Return (share as promised, GPU-hours of dynamic, of *against*) where both reach it."""
    frontier = sorted(
        (o.outcome.slo_attained, o.outcome.gpu_hours) for o in runs if o.way is against
    )
    made = []
    for one in runs:
        if one.way is Way.DYNAMIC:
            enough = [hours for slo, hours in frontier if slo >= one.outcome.slo_attained]
            least = min(enough, default=float("inf"))
            made.append((one.outcome.slo_attained, one.outcome.gpu_hours, least))
    return made


def _finite(value: float) -> float:
    return value if np.isfinite(value) else 1e9
