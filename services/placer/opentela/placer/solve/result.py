"""What a solver decided: a placement, its worth, and what no placement can exceed."""

import enum

import msgspec

from opentela.placer.problem import Group
from opentela.placer.solve.milp import Verdict


class Objective(enum.StrEnum):
    """What a placement is to be best at.

    `max_min`: the share of its demand that the worst served model gets, then all others' shares.
    `cost`: the price of an hour while every demand is met.
    `served`: the share of all requests that are served, weighted.
    `slo`: the same under capacities that keep the promised latencies.
    `latency`: the mean time of a request while every demand is met.
    """

    MAX_MIN = "max-min"
    COST = "cost"
    SERVED = "served"
    SLO = "slo"
    LATENCY = "latency"

    @property
    def is_maximised(self) -> bool:
        """Whether more is better."""
        return self in {Objective.MAX_MIN, Objective.SERVED, Objective.SLO}

    @property
    def unit(self) -> str:
        """What the value is counted in."""
        return {Objective.COST: "USD/h", Objective.LATENCY: "s"}.get(self, "share")


class Solved(msgspec.Struct, frozen=True, kw_only=True):
    """A placement and how good it is.

    Attributes:
        value: What it reaches, in the unit of the objective.
        bound: What no placement exceeds (or undercuts, where less is better).
        verdict: `optimal` when the gap is within what was asked for.
        programs: How many programs were solved on the way.
        took_s: Time in solvers.
    """

    objective: Objective
    counts: dict[Group, int]
    value: float
    bound: float
    verdict: Verdict
    solver: str
    programs: int
    took_s: float

    @property
    def gap(self) -> float:
        """Share of the bound (of the value, where less is better) that lies between the two."""
        return gap(self.objective, self.value, self.bound)


def gap(objective: Objective, value: float, bound: float) -> float:
    """Return how far *value* may be from the best, as a share of the greater of both."""
    low, high = (value, bound) if objective.is_maximised else (bound, value)
    return max(0.0, (high - low) / high) if high > 0 else 0.0
