"""Which replica shapes may be started on agents, and what each of them can do."""

from collections.abc import Iterable, Mapping

import msgspec

from opentela.placer import catalogue
from opentela.placer.live.config import PlacerConfig
from opentela.placer.live.demand import Asked
from opentela.placer.live.hardware import gpu_of
from opentela.placer.live.pools import PoolSeen
from opentela.placer.load_cost import measured
from opentela.placer.options import Wanted, enumerate_options
from opentela.placer.problem import Group, Option, Pool


class Candidates:
    """The shapes of all models that may be placed.

    Args:
        config: Of the placer.
        specs: The models that the simulator knows, by name.
    """

    def __init__(self, config: PlacerConfig, specs: Mapping[str, Wanted]) -> None:
        self._config = config
        self._models = {model.name: model for model in config.models}
        self._specs = specs

    def of(
        self, pools: Iterable[PoolSeen], asked: Mapping[str, Asked], notes: list[str]
    ) -> dict[Group, Option]:
        """Return every shape that may be started in *pools* for what is *asked*.

        A model that cannot be served as promised is served all the same, and one whose requests
        are longer than anything can hold as if they were those that the configuration expects.
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
        return found

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
        if simulated:
            seen = Pool(name=pool.name, gpu=gpu, nodes=pool.agents, gpus_per_node=pool.gpus)
            made = enumerate_options(
                simulated, (seen,), catalogue.gpus(), measured(), keeps_promises=keeps_promises
            )
            found += [msgspec.structs.replace(one, gpu=pool.name) for one in made.options]
        return found


def _loaded(spec: Wanted, asked: Asked | None) -> Wanted:
    """Return the model with the lengths that were seen lately."""
    load = spec.workload
    if asked is not None:
        load = msgspec.structs.replace(
            load,
            rate_rps=asked.rate_rps,
            in_len=max(1.0, asked.in_tokens) if asked.out_tokens else load.in_len,
            out_len=asked.out_tokens or load.out_len,
            in_cv=asked.in_cv,
            out_cv=asked.out_cv,
            prefix_hit=asked.prefix_hit,
            burstiness_cv=asked.cv,
        )
    # A replica stays within one agent, and so do its stages.
    return spec._replace(workload=load, pp=(1,))
