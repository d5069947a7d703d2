"""From the files that people write to the problem that is solved."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from opentela.core.errors import ConfigError, UsageError
from opentela.placer import catalogue, hf_config
from opentela.placer.files import (
    CapacityEntry,
    DemandEntry,
    DemandFile,
    InventoryFile,
    ServedEntry,
)
from opentela.placer.headroom import with_headroom
from opentela.placer.load_cost import measured
from opentela.placer.options import Wanted, enumerate_options
from opentela.placer.problem import Demand, Group, Option, Pool, Problem
from opentela.placer.shapes import DTYPE_BYTES, Model, ReplicaShape, Slo, Workload
from opentela.placer.simulate import memory
from opentela.placer.solve.result import Objective

ReadJson = Callable[[str], Mapping[str, Any]]
"""Returns what stands in a JSON file that a demand names."""


class Assembled(NamedTuple):
    """A problem, and what is known beside it.

    Attributes:
        notes: By model: why it has no shape.
        weights_bytes: By model, for baselines; only those that are estimated.
    """

    problem: Problem
    notes: dict[str, str]
    weights_bytes: dict[str, float]


def assemble(
    demands: DemandFile,
    inventory: InventoryFile,
    objective: Objective,
    read_json: ReadJson,
    *,
    horizon_s: float,
    drain_s: float,
) -> Assembled:
    """Return the problem that the two files describe.

    Raises:
        ConfigError: A name in them is unknown.
    """
    gauged = catalogue.models()
    table = [_option(entry) for entry in demands.capacity]
    known = {entry.model for entry in demands.capacity}
    _check_capacities(demands, inventory)
    wanted = [_wanted(entry, read_json) for entry in demands.demand if entry.label not in known]
    pools = tuple(_pool(inventory, index) for index in range(len(inventory.pool)))
    made = enumerate_options(
        wanted,
        pools,
        catalogue.gpus(),
        measured(),
        keeps_promises=objective is not Objective.SERVED,
        with_latency=objective is Objective.LATENCY,
    )
    problem = Problem(
        pools=pools,
        demands=tuple(_demand(entry, demands.absorb_s) for entry in demands.demand),
        options=(*table, *made.options),
        running={
            Group(one.model, one.pool, one.tp, one.pp): one.count for one in inventory.running
        },
        locked={
            Group(one.model, one.pool, one.tp, one.pp): one.locked for one in inventory.running
        },
        horizon_s=horizon_s if inventory.running else float("inf"),
        drain_s=drain_s,
        usd_h_max=inventory.usd_h_max,
    )
    listed = (one for one in demands.demand if one.label in known)
    sized = [*wanted, *(_wanted(one, read_json) for one in listed if one.model in gauged)]
    return Assembled(problem, made.notes, {one.name: _weights(one, pools) for one in sized})


def _wanted(entry: DemandEntry, read_json: ReadJson) -> Wanted:
    try:
        return wanted_of(entry, read_json)
    except UsageError as error:
        raise ConfigError(f"demand {entry.label}: {error}", remedy=error.remedy) from error


def wanted_of(entry: DemandEntry, read_json: ReadJson) -> Wanted:
    """Return one demand as the simulator sees it.

    Raises:
        ConfigError: It is unknown how it is to be run.
        UsageError: The model is not in the catalogue, or its `config.json` is none.
    """
    model, w_dtype = _model(entry, read_json)
    entry = msgspec.structs.replace(entry, w_dtype=w_dtype)
    check_run(entry)
    workload = Workload(
        rate_rps=entry.rate_rps,
        in_len=entry.in_tokens,
        out_len=entry.out_tokens,
        in_cv=entry.in_cv,
        out_cv=entry.out_cv,
        prefix_hit=entry.prefix_hit,
        burstiness_cv=entry.cv,
    )
    return Wanted(
        entry.label,
        model,
        workload,
        Slo(ttft_s=entry.ttft_s, tpot_s=entry.tpot_s, e2e_s=entry.e2e_s),
        entry.w_dtype,
        entry.kv_dtype,
        entry.engine,
        entry.tp,
        entry.pp,
    )


def check_run(entry: DemandEntry | ServedEntry) -> None:
    """Raise `ConfigError` if it is unknown how *entry* is to be run."""
    for field, value, known in (
        ("w_dtype", entry.w_dtype, DTYPE_BYTES),
        ("kv_dtype", entry.kv_dtype, DTYPE_BYTES),
        ("engine", entry.engine, catalogue.engines()),
    ):
        if value not in known:
            raise ConfigError(
                f"{field} = {value} is unknown", remedy="give one of " + ", ".join(known)
            )


def _model(entry: DemandEntry, read_json: ReadJson) -> tuple[Model, str]:
    """Return the model, and how its weights are stored."""
    if not entry.config:
        return catalogue.model(entry.model), entry.w_dtype or "bf16"
    try:
        config = read_json(entry.config)
        return (
            hf_config.model(config, id=entry.model),
            entry.w_dtype or hf_config.stored_as(config),
        )
    except UsageError as error:
        raise UsageError(f"config {entry.config}: {error}", remedy=error.remedy) from error


def _check_capacities(demands: DemandFile, inventory: InventoryFile) -> None:
    labels = {entry.label for entry in demands.demand}
    kinds = {pool.gpu for pool in inventory.pool}
    for entry in demands.capacity:
        if entry.model not in labels:
            raise ConfigError(
                f"capacity of {entry.model}: no [[demand]] has that name",
                remedy="name a demand: " + ", ".join(sorted(labels)),
            )
    tabled = {entry.gpu for entry in demands.capacity}
    unknown = sorted(kinds - tabled - set(catalogue.gpus()))
    if unknown:
        raise ConfigError(
            f"pool with gpu = {unknown[0]}: it is not in the catalogue",
            remedy="give its [[capacity]], or one of " + ", ".join(sorted(catalogue.gpus())),
        )


def _pool(inventory: InventoryFile, index: int) -> Pool:
    entry = inventory.pool[index]
    listed = catalogue.gpus().get(entry.gpu)
    usd_h = entry.usd_h
    if usd_h is None:
        usd_h = listed.price_usd_h if listed and listed.price_usd_h > 0 else 1.0
    return Pool(
        name=entry.name,
        gpu=entry.gpu,
        nodes=entry.nodes,
        gpus_per_node=entry.gpus_per_node,
        site=entry.site,
        usd_h=usd_h,
    )


def _demand(entry: DemandEntry, absorb_s: float) -> Demand:
    return Demand(
        model=entry.label,
        rate_rps=with_headroom(entry.rate_rps, cv=entry.cv, absorb_s=absorb_s),
        weight=entry.weight,
        replicas_min=entry.replicas_min,
        sites=entry.sites,
    )


def _option(entry: CapacityEntry) -> Option:
    latency = ((0.0, entry.latency_s),) if entry.latency_s else ()
    return Option(
        model=entry.model,
        gpu=entry.gpu,
        tp=entry.tp,
        pp=entry.pp,
        capacity_rps=entry.capacity_rps,
        latency_s=latency,
        load_s=entry.load_s,
    )


def _weights(one: Wanted, pools: tuple[Pool, ...]) -> float:
    """Return what the weights of a model take on one GPU, whichever it is."""
    gpus = catalogue.gpus()
    # Weights are as large on any GPU; a pool that the catalogue does not know says nothing else.
    fallback = next(iter(gpus.values()))
    gpu = next((gpus[pool.gpu] for pool in pools if pool.gpu in gpus), fallback)
    return memory.weight_bytes(ReplicaShape(model=one.model, gpu=gpu, w_dtype=one.w_dtype))
