"""Numbers that are given on a command line."""

import math
from typing import Any

import click


class Amount(click.FloatRange):
    """A number within bounds: none that is no number, and none without end unless that is meant.

    Args:
        least: It is this or more.
        most: It is this or less.
        endless: Whether infinity is one, as in a promise of nothing.
    """

    name = "amount"

    def __init__(self, least: float, most: float | None = None, *, endless: bool = False) -> None:
        super().__init__(least, most)
        self._endless = endless

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number that *value* says."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number) or (math.isinf(number) and not self._endless):
            self.fail(f"{value} is no amount; give a finite number", param, ctx)
        return number
