"""What is to be placed, and where: pools of GPUs, demands, replica shapes with capacities.

The solver knows nothing of models or GPUs but what stands here, so that capacities may come from
the simulator, from measurements or from a table.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from opentela.core.errors import UsageError

GPUS_PER_STAGE: Final = (1, 2, 4, 8, 16, 32, 64)
"""Sizes of tensor parallelism: each divides the next, so that counting GPUs is enough to know
whether replicas fit into nodes."""


class InfeasibleError(UsageError):
    """The demands cannot be placed on the inventory, for the reasons that are named."""

    def __init__(self, reasons: Iterable[str], *, remedy: str = "") -> None:
        self.reasons = tuple(reasons)
        super().__init__("; ".join(self.reasons), remedy=remedy)


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes of one shape at one site.

    Attributes:
        gpu: The type of its GPUs, a name that options use too.
        usd_h: Price of one GPU for an hour.
    """

    name: str
    gpu: str
    nodes: int
    gpus_per_node: int
    site: str = ""
    usd_h: float = 1.0

    @property
    def gpus(self) -> int:
        """How many GPUs there are in all."""
        return self.nodes * self.gpus_per_node


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of one model.

    Attributes:
        rate_rps: Requests a second to have capacity for, headroom included.
        weight: What a served request is worth beside those of other models.
        replicas_min: Replicas to keep even if fewer would do.
        sites: Where it may run; empty for everywhere.
    """

    model: str
    rate_rps: float
    weight: float = 1.0
    replicas_min: int = 0
    sites: tuple[str, ...] = ()


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One replica shape of one model on one type of GPU, and what it can do.

    Attributes:
        tp: GPUs of one stage; they share a node.
        pp: Stages; each may be on another node of the pool.
        capacity_rps: Requests a second that it serves as promised.
        latency_s: Mean time of a request by utilisation: pairs that rise in both.
        load_s: From the decision to the first request: weights and the engine's start.
    """

    model: str
    gpu: str
    tp: int = 1
    pp: int = 1
    capacity_rps: float
    latency_s: tuple[tuple[float, float], ...] = ()
    load_s: float = 0.0

    @property
    def gpus(self) -> int:
        """How many GPUs one replica holds."""
        return self.tp * self.pp


class Group(NamedTuple):
    """Replicas that are alike: of one model, in one pool, divided alike."""

    model: str
    pool: str
    tp: int
    pp: int = 1

    @property
    def gpus(self) -> int:
        """How many GPUs one of them holds."""
        return self.tp * self.pp

    def label(self) -> str:
        """Return how it is divided, as people write it."""
        return f"TP{self.tp}" + (f"·PP{self.pp}" if self.pp > 1 else "")


Counts = Mapping[Group, int]
"""A placement: how many replicas there are of each group."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a placement is decided by.

    Attributes:
        running: What runs now.
        locked: Of that, what may not be stopped yet, because it was started a short while ago.
        horizon_s: How long the placement is expected to hold; what is started late serves less.
            Infinite: starting costs nothing.
        drain_s: From the decision to stop a replica to its GPUs being free.
        usd_h_max: The greatest price of an hour of everything that runs.
    """

    pools: tuple[Pool, ...]
    demands: tuple[Demand, ...]
    options: tuple[Option, ...]
    running: dict[Group, int] = {}
    locked: dict[Group, int] = {}
    horizon_s: float = math.inf
    drain_s: float = 0.0
    usd_h_max: float = math.inf

    def candidates(self) -> dict[Group, Option]:
        """Return every group that may be placed, with its option; order is that of the input."""
        places: dict[str, list[Pool]] = {}
        for pool in self.pools:
            places.setdefault(pool.gpu, []).append(pool)
        sites = {demand.model: demand.sites for demand in self.demands}
        return {
            Group(option.model, pool.name, option.tp, option.pp): option
            for option in self.options
            if option.model in sites and option.capacity_rps > 0
            for pool in places.get(option.gpu, ())
            if option.tp <= pool.gpus_per_node and option.gpus <= pool.gpus
            if not sites[option.model] or pool.site in sites[option.model]
        }


def check(problem: Problem) -> None:
    """Raise `UsageError` naming the first thing in *problem* that makes no sense."""
    _check_names("pool", [pool.name for pool in problem.pools])
    _check_names("demand for model", [demand.model for demand in problem.demands])
    for pool in problem.pools:
        _require(pool.nodes >= 0, f"pool {pool.name}: nodes = {pool.nodes}", "0 or more")
        _require(
            pool.gpus_per_node >= 1,
            f"pool {pool.name}: gpus_per_node = {pool.gpus_per_node}",
            "≥ 1",
        )
        _require(_is_amount(pool.usd_h), f"pool {pool.name}: usd_h = {pool.usd_h:g}", "a price ≥ 0")
    for demand in problem.demands:
        where = f"demand for {demand.model}: "
        _require(_is_amount(demand.rate_rps), f"{where}rate_rps = {demand.rate_rps:g}", "≥ 0")
        _require(_is_amount(demand.weight), f"{where}weight = {demand.weight:g}", "≥ 0")
    for option in problem.options:
        where = f"{option.model} on {option.gpu}: "
        _require(option.tp in GPUS_PER_STAGE, f"{where}tp = {option.tp}", "a power of two")
        _require(option.pp >= 1, f"{where}pp = {option.pp}", "1 or more")
        _require(
            _is_amount(option.capacity_rps), f"{where}capacity_rps = {option.capacity_rps:g}", "≥ 0"
        )
    _check_running(problem)


def _check_running(problem: Problem) -> None:
    known = problem.candidates()
    models = {demand.model for demand in problem.demands}
    pools = dict.fromkeys(pool.name for pool in problem.pools)
    for group, count in problem.running.items():
        _require(count >= 0, f"{group.model} in {group.pool}: {count} run", "0 or more")
        _require(
            group.model in models,
            f"{group.model} runs in {group.pool}, and no demand is called so",
            "its demand, of 0 requests a second if there is none",
        )
        _require(
            group.pool in pools,
            f"{group.model} runs in {group.pool}, and no pool is called so",
            "one of " + ", ".join(pools),
        )
        _require(
            group in known,
            f"{group.model} runs in {group.pool} as {group.label()}, which is no known shape there",
            "its capacity, or what runs without it",
        )
    for group, count in problem.locked.items():
        _require(
            0 <= count <= problem.running.get(group, 0),
            f"{group.model} in {group.pool}: {count} are locked",
            "at most as many as run",
        )


def usd_h(problem: Problem, counts: Counts) -> float:
    """Return the price of an hour of *counts*."""
    price = {pool.name: pool.usd_h for pool in problem.pools}
    return math.fsum(price[group.pool] * group.gpus * count for group, count in counts.items())


def gpus(counts: Counts) -> int:
    """Return how many GPUs *counts* hold."""
    return sum(group.gpus * count for group, count in counts.items())


def capacity(problem: Problem, counts: Counts) -> dict[str, float]:
    """Return requests a second that *counts* serve together, by demanded model."""
    options = problem.candidates()
    total = dict.fromkeys((demand.model for demand in problem.demands), 0.0)
    for group, count in counts.items():
        if group.model in total:
            total[group.model] += options[group].capacity_rps * count
    return total


def served(problem: Problem, counts: Counts) -> dict[str, float]:
    """Return the share of each model's demand that *counts* have capacity for, at most 1."""
    have = capacity(problem, counts)
    return {
        demand.model: min(1.0, have[demand.model] / demand.rate_rps) if demand.rate_rps else 1.0
        for demand in problem.demands
    }


def is_within(problem: Problem, counts: Counts) -> bool:
    """Return whether *counts* fit into the pools, node by node, and are all allowed."""
    allowed = problem.candidates()
    if any(group not in allowed or count < 0 for group, count in counts.items()):
        return False
    return all(
        needed <= available for pool in problem.pools for needed, available in _stages(pool, counts)
    )


def _stages(pool: Pool, counts: Counts) -> Iterable[tuple[int, int]]:
    """Yield, for each size of stage, how many blocks of it are needed and there."""
    here = [(group, count) for group, count in counts.items() if group.pool == pool.name]
    for size in sorted({group.tp for group, _ in here} | {1}):
        blocks = sum(
            group.pp * (group.tp // size) * count for group, count in here if group.tp >= size
        )
        yield blocks, pool.nodes * (pool.gpus_per_node // size)


def _check_names(what: str, names: list[str]) -> None:
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
    for name, count in seen.items():
        _require(count == 1, f"{what} {name} is named {count} times", "each name once")


def _is_amount(value: float) -> bool:
    return math.isfinite(value) and value >= 0


def _require(holds: bool, fault: str, remedy: str) -> None:  # noqa: FBT001  # reads as a sentence
    if not holds:
        raise UsageError(f"{fault} is wrong" if "=" in fault else fault, remedy=f"give {remedy}")
