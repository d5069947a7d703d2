"""The published comparison of placements on 24 A100 and 32 GH200, with three models.

Its inputs are facts of the system that published it; see `data/published_placement.json`.
"""

from importlib import resources

import msgspec

from opentela.placer.problem import Demand, Group, Option, Pool, Problem


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One model of the comparison.

    Attributes:
        one_replica_s: By GPU type: seconds that one replica takes for all requests.
    """

    model: str
    tp: int
    rate_rps: float
    weights_gb: float
    in_mean: float
    out_mean: float
    one_replica_s: dict[str, float]


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """One placement of the comparison.

    Attributes:
        replicas: By model and pool.
        a100_share: Share of a model's requests that its router sent to A100s.
        published_rps: By model; None where nothing was published.
    """

    name: str
    replicas: dict[str, dict[str, int]]
    a100_share: dict[str, float]
    published_rps: dict[str, float] | None


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """The whole comparison."""

    source: str
    note: str
    duration_s: float
    pools: tuple[Pool, ...]
    models: tuple[Model, ...]
    placements: tuple[Placement, ...]

    def problem(self) -> Problem:
        """Return the comparison as a problem; capacities are requests over seconds."""
        return Problem(
            pools=self.pools,
            demands=tuple(Demand(model=one.model, rate_rps=one.rate_rps) for one in self.models),
            options=tuple(
                Option(
                    model=one.model,
                    gpu=gpu,
                    tp=one.tp,
                    capacity_rps=one.rate_rps * self.duration_s / seconds,
                )
                for one in self.models
                for gpu, seconds in one.one_replica_s.items()
            ),
        )

    def weights_bytes(self) -> dict[str, float]:
        """Return what the weights of each model take."""
        return {one.model: one.weights_gb * 1e9 for one in self.models}

    def counts(self, placement: Placement) -> dict[Group, int]:
        """Return *placement* as counts of groups."""
        tp = {one.model: one.tp for one in self.models}
        return {
            Group(model, pool, tp[model]): count
            for model, pools in placement.replicas.items()
            for pool, count in pools.items()
        }

    def shares(self, placement: Placement) -> dict[Group, float]:
        """Return which share of its model's requests *placement*'s own router sent each group."""
        shares = {}
        for group in self.counts(placement):
            to_a100 = placement.a100_share.get(group.model, 0.0)
            is_a100 = group.pool == "a100"
            alone = len(placement.replicas[group.model]) == 1
            shares[group] = 1.0 if alone else to_a100 if is_a100 else 1 - to_a100
        return shares


def published() -> Published:
    """Return the comparison."""
    file = resources.files("opentela.placer") / "data" / "published_placement.json"
    return msgspec.json.decode(file.read_bytes(), type=Published)
