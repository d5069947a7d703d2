"""Draws the distributions of the registry's measurements, as SVG."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure as Drawing
from tests.bench import report
from tests.bench.registry_fanout import MOST, TARGET_95_MS, TARGET_ALL_MS, Spread

SAMPLES: Final = report.OUTPUT / "registry-samples"
"""What stages measured one by one, so that one plot can show several of them."""
_INCHES: Final = (9.0, 9.0)
_PALE: Final = 0.3
_EVERY: Final = 100
"""Points of a curve, at least; a plot of every sample is large and shows no more."""


def keep(name: str, spreads: Sequence[Spread], folder: Path = SAMPLES) -> None:
    """Keep what a stage measured for the plots."""
    folder.mkdir(parents=True, exist_ok=True)
    samples = {spread.name: spread.pooled_ms for spread in spreads}
    (folder / f"propagation-{name}.json").write_text(json.dumps(samples))


def propagation(folder: Path, samples: Path = SAMPLES) -> Path:
    """Draw which share of members had an offer after how long, and return the file."""
    kept = sorted(samples.glob("propagation-*.json"), reverse=True)
    drawing = Drawing(figsize=_INCHES, layout="constrained")
    rows = drawing.subplots(len(kept), sharex=True, squeeze=False)
    for axes, file in zip(rows[:, 0], kept, strict=True):
        for name, values in json.loads(file.read_text()).items():
            chosen = values[:: max(1, len(values) // _EVERY)] + values[-1:]
            shares = [100 * (index + 1) / len(chosen) for index in range(len(chosen))]
            style = ":" if name.startswith("control") else "--" if "churn" in name else "-"
            axes.plot(chosen, shares, style, label=name, linewidth=1.2)
        for limit in (TARGET_95_MS, TARGET_ALL_MS):
            axes.axvline(limit, color="black", alpha=_PALE, linewidth=0.8)
        axes.axhline(MOST, color="black", alpha=_PALE, linewidth=0.8)
        axes.set_xscale("log")
        axes.set_ylabel("% of offers at members")
        axes.set_ylim(0, 101)
        axes.legend(fontsize="small", loc="lower right")
    rows[-1, 0].set_xlabel("milliseconds from the owner's change (targets: 95 % at 25, all at 100)")
    return _written(drawing, folder / "registry-propagation.svg")


def _written(drawing: Drawing, file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "opentela", "svg.fonttype": "none"}):
        drawing.savefig(file, metadata={"Date": None})
    return file
