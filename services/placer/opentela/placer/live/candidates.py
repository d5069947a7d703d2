"""Which replica shapes may be started on agents, and what each of them can do."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from opentela.placer import catalogue
from opentela.placer.live.config import PlacerConfig
from opentela.placer.live.demand import Asked
from opentela.placer.live.experience import Seen, ratio
from opentela.placer.live.hardware import gpu_of
from opentela.placer.live.pools import PoolSeen
from opentela.placer.load_cost import LoadCost, measured
from opentela.placer.options import Wanted, enumerate_options
from opentela.placer.problem import Group, Option, Pool

GRID: Final = 1.1
"""Lengths and spreads are rounded to powers of this, so that shapes are worked out seldom."""
MADE_MAX: Final = 10_000
"""Models in pools whose shapes are remembered; the shapes of one take a few kilobytes."""


class Candidates:
    """The shapes of all models that may be placed.

    Args:
        config: Of the placer.
        specs: The models that the simulator knows, by name.
        load_cost: What starting a replica costs; as measured if not given.
    """

    def __init__(
        self,
        config: PlacerConfig,
        specs: Mapping[str, Wanted],
        load_cost: LoadCost | None = None,
    ) -> None:
        self._config = config
        self._models = {model.name: model for model in config.models}
        self._specs = specs
        self._load_cost = load_cost or measured()
        self._made: dict[tuple[PoolSeen, Wanted, bool], list[Option]] = {}
        self._ratios: dict[tuple[str, str], float] = {}

    def of(
        self,
        pools: Iterable[PoolSeen],
        asked: Mapping[str, Asked],
        notes: list[str],
        seen: Mapping[Group, Seen] = {},
    ) -> dict[Group, Option]:
        """Return every shape that may be started in *pools* for what is *asked*.

        A model that cannot be served as promised is served all the same, and one whose requests
        are longer than anything can hold as if they were those that the configuration expects.
        What replicas were *seen* to do corrects what is believed of others of their kind.
        """
        places = tuple(pools)
        found = self._over(places, asked, dict.fromkeys(self._models), keeps_promises=True)
        for lengths, why in (
            (asked, "keeps its promises nowhere; it is served as fast as it goes"),
            ({}, "was asked for more tokens than fit anywhere; it is planned for shorter ones"),
        ):
            placed = {group.model for group in found}
            lost = {name: None for name in self._specs if name not in placed}
            more = self._over(places, lengths, lost, keeps_promises=False) if lost else {}
            notes += [f"{name} {why}" for name in dict.fromkeys(group.model for group in more)]
            found |= more
        return self._corrected(found, seen)

    def _corrected(
        self, options: dict[Group, Option], seen: Mapping[Group, Seen]
    ) -> dict[Group, Option]:
        """Return *options* with what is known by experience, but where it was measured anyway."""
        for group, what in seen.items():
            if group in options:
                before = self._ratios.get(group[:2], 1.0)
                self._ratios[group[:2]] = ratio(before, options[group].capacity_rps, what)
        pools = {group.pool for group in options}
        self._ratios = {key: n for key, n in self._ratios.items() if key[1] in pools}
        return {
            group: option
            if self._models[group.model].capacity_rps
            else msgspec.structs.replace(
                option, capacity_rps=option.capacity_rps * self._ratios.get(group[:2], 1.0)
            )
            for group, option in options.items()
        }

    def unknown(self, group: Group) -> Option:
        """Return what is said of a shape that is not simulated."""
        model = self._models.get(group.model)
        plan = self._config.plan
        return Option(
            model=group.model,
            gpu=group.pool,
            tp=group.tp,
            pp=group.pp,
            capacity_rps=(model.capacity_rps if model else 0.0) or plan.unknown_rps,
            load_s=(model.load_s if model else 0.0) or plan.unknown_load_s,
        )

    def _over(
        self,
        pools: Iterable[PoolSeen],
        asked: Mapping[str, Asked],
        names: Mapping[str, None],
        *,
        keeps_promises: bool,
    ) -> dict[Group, Option]:
        return {
            Group(option.model, pool.name, option.tp, option.pp): option
            for pool in pools
            for option in self._in(pool, asked, names, keeps_promises=keeps_promises)
        }

    def _in(
        self,
        pool: PoolSeen,
        asked: Mapping[str, Asked],
        names: Mapping[str, None],
        *,
        keeps_promises: bool,
    ) -> list[Option]:
        found: list[Option] = []
        simulated: list[Wanted] = []
        gpu = gpu_of(pool.hardware, self._config.hardware)
        for model in map(self._models.__getitem__, names):
            if model.template not in pool.templates or (
                model.sites and pool.site not in model.sites
            ):
                continue
            spec = self._specs.get(model.name)
            if not model.capacity_rps and spec is not None and gpu:
                simulated.append(_loaded(spec, asked.get(model.name)))
                continue
            sizes = [tp for tp in model.tp or (1,) if tp <= pool.gpus]
            found += [self.unknown(Group(model.name, pool.name, tp)) for tp in sizes]
        if len(self._made) + len(simulated) > MADE_MAX:
            self._made.clear()
        new = [one for one in simulated if (pool, one, keeps_promises) not in self._made]
        if new:
            self._make(pool, gpu, new, keeps_promises=keeps_promises)
        for one in simulated:
            found += self._made[pool, one, keeps_promises]
        return found

    def _make(
        self, pool: PoolSeen, gpu: str, wanted: Sequence[Wanted], *, keeps_promises: bool
    ) -> None:
        """Work out the shapes of *wanted* in *pool* and remember them."""
        seen = Pool(name=pool.name, gpu=gpu, nodes=pool.agents, gpus_per_node=pool.gpus)
        made = enumerate_options(
            wanted, (seen,), catalogue.gpus(), self._load_cost, keeps_promises=keeps_promises
        )
        for one in wanted:
            self._made[pool, one, keeps_promises] = [
                msgspec.structs.replace(option, gpu=pool.name)
                for option in made.options
                if option.model == one.name
            ]


def _rounded(value: float) -> float:
    """Return the power of `GRID` that is nearest to *value*; nothing is so exact."""
    return GRID ** round(math.log(value, GRID)) if value > 0 else 0.0


def _loaded(spec: Wanted, asked: Asked | None) -> Wanted:
    """Return the model with the lengths that were seen lately."""
    load = spec.workload
    if asked is not None:
        load = msgspec.structs.replace(
            load,
            in_len=_rounded(max(1.0, asked.in_tokens) if asked.out_tokens else load.in_len),
            out_len=_rounded(asked.out_tokens or load.out_len),
            in_cv=_rounded(asked.in_cv),
            out_cv=_rounded(asked.out_cv),
            prefix_hit=round(asked.prefix_hit, 1),
            burstiness_cv=_rounded(asked.cv),
        )
    # A replica stays within one agent, and so do its stages.
    return spec._replace(workload=load, pp=(1,))
