"""Draws what the policies made of the simulated fleets, as SVG or PNG."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import matplotlib as mpl
from matplotlib.figure import Figure as Drawing

_INCHES: Final = (10.0, 6.5)
_PANELS: Final = (
    ("p50_s", "latency, median, s", False),
    ("p99_s", "latency, 99th percentile, s", True),
    ("first_p50_s", "time to first token, median, s", False),
    ("hit_ratio", "prompt tokens in a prefix cache", False),
)
_COLOURS: Final = ("#9e9e9e", "#616161", "#1f77b4", "#2ca02c", "#d95f02")
_BAR: Final = 0.16
_SECONDS: Final = (10, 20, 50, 100, 200, 500)


class Measured(Protocol):
    """One policy in one setting."""

    @property
    def setting(self) -> str:
        """What was simulated."""

    @property
    def name(self) -> str:
        """Of the policy."""


def drawn(rows: Sequence[Measured], file: Path) -> None:
    """Draw four panels into *file*: a group of bars a setting, a colour a policy."""
    settings = list(dict.fromkeys(row.setting for row in rows))
    names = list(dict.fromkeys(row.name for row in rows))
    drawing = Drawing(figsize=_INCHES, layout="constrained")
    panels = drawing.subplots(2, 2).flat
    for axes, (field, title, is_log) in zip(panels, _PANELS, strict=True):
        for index, name in enumerate(names):
            values = [getattr(row, field) for row in rows if row.name == name]
            places = [place + (index - (len(names) - 1) / 2) * _BAR for place in range(len(values))]
            axes.bar(places, values, _BAR, label=name, color=_COLOURS[index % len(_COLOURS)])
        axes.set_title(title, fontsize="medium")
        axes.set_xticks(range(len(settings)), [one.replace(", ", "\n") for one in settings])
        if is_log:
            axes.set_yscale("log")
            axes.set_yticks(_SECONDS, [str(second) for second in _SECONDS])
            axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="x", length=0)
    handles, labels = drawing.axes[0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=len(names), frameon=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "opentela", "svg.fonttype": "none"}):
        drawing.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
