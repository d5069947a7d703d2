"""What may be asked until the horizon, and how much of it a placement would serve."""

import math
from collections.abc import Collection, Iterable, Mapping

from opentela.placer.live.config import ModelConfig, PlanConfig
from opentela.placer.live.demand import Asked
from opentela.placer.problem import Group, Problem, served
from opentela.placer.solve import expected
from opentela.placer.solve.expected import Level


class Outlook:
    """Judges placements by what is to be expected.

    Args:
        problem: What is demanded, runs, and may be started.
        asked: Of each model.
        idle: Models for which nothing need be kept.
        models: What the operator says of them, by name.
        plan: The operator's wishes.

    Attributes:
        levels: By model, what may be asked and how much of it is to be expected.
    """

    def __init__(
        self,
        problem: Problem,
        asked: Iterable[Asked],
        idle: Collection[str],
        models: Mapping[str, ModelConfig],
        plan: PlanConfig,
    ) -> None:
        self._problem = problem
        self._is_fair = plan.scarce == "fair"
        self.levels: dict[str, list[Level]] = {one.model: [] for one in problem.demands}
        for one in asked:
            if one.model in self.levels and one.model not in idle:
                weight = models[one.model].weight
                self.levels[one.model] = [
                    level._replace(requests=level.requests * weight)
                    for level in expected.levels(_rates(one), plan.absorb_s)
                ]

    def share(self, counts: Mapping[Group, int]) -> float:
        """Return the share of all that is to be expected which *counts* serve."""
        if not self._is_fair:
            return expected.expected(self._problem, self.levels, counts)
        shares = served(self._problem, counts)
        worth = {d.model: d.rate_rps * d.weight for d in self._problem.demands}
        total = math.fsum(worth.values())
        return math.fsum(shares[m] * worth[m] for m in worth) / total if total else 1.0


def _rates(asked: Asked) -> tuple[tuple[float, float], ...]:
    """Return the rates that are known of a model, each with what is to be expected at it."""
    if asked.levels or not asked.rate_rps:
        return asked.levels
    return ((asked.rate_rps, asked.expected_rps or asked.rate_rps),)
