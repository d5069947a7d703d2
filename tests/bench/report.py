"""Figures of a benchmark: printed as a table, kept as JSON."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.table import Table

OUTPUT: Final = Path("build/bench")


class Figure(NamedTuple):
    """One measured number beside what it should be.

    Attributes:
        target: Such as `< 1.42`; empty when the figure is for information.
        holds: Whether the target is met; None without a target.
        baseline: What the same was elsewhere, and where; empty when unknown.
    """

    name: str
    value: float
    unit: str
    target: str = ""
    holds: bool | None = None
    baseline: str = ""

    @classmethod
    def below(
        cls, name: str, value: float, unit: str, limit: float, baseline: str = ""
    ) -> "Figure":
        """Return a figure that must be below *limit*."""
        return cls(name, value, unit, f"< {limit:g}", value < limit, baseline)


def load_before() -> Figure:
    """Return how busy the machine was with other work, for who reads the figures later."""
    return Figure(
        "load of the machine before", os.getloadavg()[0], "", baseline="idle is below 0.5"
    )


def write(area: str, figures: Sequence[Figure], command: str, folder: Path = OUTPUT) -> Path:
    """Write the figures of *area* as JSON and return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{area}.json"
    rows: list[dict[str, Any]] = [
        {**figure._asdict(), "value": round(figure.value, 4), "command": command}
        for figure in figures
    ]
    file.write_text(json.dumps(rows, indent=1) + "\n")
    return file


def show(title: str, figures: Sequence[Figure]) -> None:
    """Print the figures as a table."""
    table = Table(title=title, title_justify="left")
    for column in ("figure", "value", "unit", "target", "holds", "baseline"):
        table.add_column(column, justify="right" if column == "value" else "left")
    words = {True: "yes", False: "NO", None: ""}
    for figure in figures:
        name, value, unit, target, holds, baseline = figure
        table.add_row(name, f"{value:.3f}", unit, target, words[holds], baseline)
    Console(width=140).print(table)
