"""`python -m tests.sim.plots`: campaigns as pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import matplotlib as mpl
from matplotlib import pyplot as plt

from opentela.testing.sim.campaign import store
from opentela.testing.sim.campaign.ground import MEMBERS
from opentela.testing.sim.campaign.harms import DEATHS
from opentela.testing.sim.campaign.rows import Row
from opentela.testing.sim.campaign.settings import PRODUCT, SETTINGS
from opentela.testing.sim.campaign.statistics import found, summed, undisturbed

mpl.use("Agg")
Rows = Sequence[Row]
_STYLES: Final = {"killed": "-", "link lost": "--", "half-open": ":"}
_STOPPED: Final = (1, 4, 8, 16, 32)
_DPI: Final = 110


def _axes(width: float = 8.0, height: float = 4.5) -> tuple[Any, Any]:
    mpl.rcParams["svg.hashsalt"] = "opentela"
    figure, axes = plt.subplots(figsize=(width, height), layout="constrained")
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix == ".svg" else None
    figure.savefig(path, dpi=_DPI, metadata=metadata)


def detection(campaigns: Mapping[str, Rows], path: Path) -> None:
    """Draw how soon true deaths are out of every view when nothing befalls views or links."""
    figure, axes = _axes()
    for number, (name, rows) in enumerate(campaigns.items()):
        calm = undisturbed(rows)
        for how in DEATHS:
            of = found(calm, how)
            whole = len(of.times) + of.never
            shares = [100 * (place + 1) / whole for place in range(len(of.times))]
            label = f"{name}: {how}"
            axes.step(of.times, shares, _STYLES[how], color=f"C{number}", where="post", label=label)
    axes.set_xscale("log")
    axes.set_xticks([0.25, 0.5, 1, 2, 5, 10, 20], [".25", ".5", "1", "2", "5", "10", "20"])
    axes.set_xlabel("seconds from the death until no view uses the member")
    axes.set_ylabel("% of deaths")
    axes.set_ylim(0, 101)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    _save(figure, path)


def trade(campaigns: Mapping[str, Rows], path: Path) -> None:
    """Draw what soon finding costs: who is left out for having stood still for a few seconds."""
    figure, axes = _axes(7.0, 4.5)
    for number, (name, rows) in enumerate(campaigns.items()):
        calm = undisturbed(rows)
        times = [found(calm, how).quantile(0.99) for how in ("killed", "half-open")]
        sum_ = summed([row for row in rows if row.cell == "stopped 4 s"], MEMBERS)
        if not sum_.victims:
            continue
        share = 100 * sum_.out_victims / sum_.victims
        marker = "o" if name in PRODUCT else "s"
        axes.plot(times, [share, share], "-", color=f"C{number}", alpha=0.4)
        axes.plot(times[:1], [share], marker, color=f"C{number}", label=f"{name}")
        axes.plot(times[1:], [share], marker, color=f"C{number}", fillstyle="none")
    axes.set_xlabel("p99 of detection [s]; filled: killed, hollow: silent link")
    axes.set_ylabel("% of members left out\nthat stood still for 4 s")
    axes.set_xlim(left=0)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    _save(figure, path)


def stopped(campaigns: Mapping[str, Rows], path: Path) -> None:
    """Draw who is taken for dead for having stood still, by how long."""
    figure, axes = _axes(8.0, 4.0)
    names = list(campaigns)
    width = 0.8 / len(names)
    for number, (name, rows) in enumerate(campaigns.items()):
        shares = []
        for seconds in _STOPPED:
            here = [row for row in rows if row.cell == f"stopped {seconds} s"]
            sum_ = summed(here, MEMBERS)
            shares.append(100 * sum_.out_victims / sum_.victims if sum_.victims else 0.0)
        places = [place + width * (number - (len(names) - 1) / 2) for place in range(len(_STOPPED))]
        axes.bar(places, shares, width, label=name)
    axes.set_xticks(range(len(_STOPPED)), [f"{seconds} s" for seconds in _STOPPED])
    axes.set_xlabel("1 to 32 of 128 members stand still for")
    axes.set_ylabel("% of them left out meanwhile")
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    _save(figure, path)


DRAWN: Final = {"times": detection, "trade": trade, "stopped": stopped}


@click.command()
@click.option("--rows", type=click.Path(path_type=Path), default=Path("build/campaign"))
@click.option("--out", type=click.Path(path_type=Path), default=Path("docs/images"))
@click.option("--format", "suffix", type=click.Choice(["svg", "png"]), default="svg")
def main(rows: Path, out: Path, suffix: str) -> None:
    """Draw what a campaign has found."""
    campaigns = store.read_all(rows, SETTINGS)
    for name, draw in DRAWN.items():
        path = out / f"failure-detection-{name}.{suffix}"
        draw(campaigns, path)
        click.echo(path)


if __name__ == "__main__":
    main()
