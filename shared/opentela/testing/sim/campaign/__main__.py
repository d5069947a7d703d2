"""`python -m opentela.testing.sim.campaign`: run seeds, show one, make tables and plots of all."""

import sys
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

import click
import msgspec

from opentela.testing.sim import diagram
from opentela.testing.sim.campaign import batch, report, store
from opentela.testing.sim.campaign.rows import Row
from opentela.testing.sim.campaign.settings import PRODUCT, SETTINGS
from opentela.testing.sim.campaign.trial import Trial
from opentela.testing.sim.describe import describe
from opentela.testing.sim.run import DIAGRAMS
from opentela.testing.sim.split import Split, spoken
from opentela.testing.world_trace import Trace

_BATCH = 8
"""Seeds a worker runs before their rows are written."""
_OUT = click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("build/campaign")
)
_SETTING = click.option("--setting", type=click.Choice(list(SETTINGS)), default="LAN")


@click.group()
def main() -> None:
    """Statistics of failure detection: many seeds, several settings."""


@main.command()
@_SETTING
@_OUT
@click.option("--seed", type=int, default=0, show_default=True, help="The first seed.")
@click.option("--seeds", type=click.IntRange(1), default=120, show_default=True, help="How many.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True)
def run(setting: str, out: Path, seed: int, seeds: int, workers: int) -> None:
    """Run the seeds that have no row yet; exit 1 if anything broke or somebody living was removed.

    Stopped, it loses some seeds at most; the next call goes on.
    """
    done = store.read(out, setting)
    lacking = [one for one in range(seed, seed + seeds) if one not in done]
    bad = 0
    with click.progressbar(length=len(lacking), label=setting, file=sys.stderr) as bar:
        for rows in _rows(setting, lacking, workers):
            store.append(out, setting, rows)
            bar.update(len(rows))
            bad += sum(_complain(setting, row) for row in rows)
    click.echo(f"{setting}: {len(lacking)} seeds run, {len(done)} before, {bad} bad")
    sys.exit(1 if bad else 0)


def _rows(setting: str, seeds: list[int], workers: int) -> Iterator[list[Row]]:
    starts = range(0, len(seeds), _BATCH)
    batches = [batch.Batch(setting, tuple(seeds[start : start + _BATCH])) for start in starts]
    if workers == 1:
        yield from map(batch.rows, batches)
        return
    with get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(batch.rows, batches)


def _complain(setting: str, row: Row) -> bool:
    is_bad = row.removed or row.lost if setting in PRODUCT else False
    if not (row.broken or is_bad):
        return False
    what = row.broken or f"{row.removed} removed alive, {row.lost} lost"
    click.echo(f"seed {row.seed} ({row.cell} {row.detail}): {what}; replay: {replay(setting, row)}")
    return True


@main.command()
@_OUT
def tables(out: Path) -> None:
    """Print what all rows amount to, as Markdown."""
    campaigns = store.read_all(out, SETTINGS)
    click.echo(f"{report.compared(campaigns)}\n\n{report.wrongly(campaigns)}\n")
    for name, rows in campaigns.items():
        click.echo(f"{name}\n\n{report.by_cell(name, rows)}\n")


@main.command()
@_OUT
@click.argument("document", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def document(out: Path, document: Path) -> None:
    """Rewrite the measured parts of a document from all rows."""
    text = document.read_text(encoding="utf-8")
    campaigns = store.read_all(out, SETTINGS)
    document.write_text(report.rewritten(text, campaigns), encoding="utf-8")


@main.command()
@click.option("--members", type=click.IntRange(3), default=1000, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="The first seed.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="How many.")
def split(members: int, seed: int, seeds: int) -> None:
    """Cut a mesh in two for a minute, let sessions come and go on both sides, and heal it."""
    for one in range(seed, seed + seeds):
        healed = Split(members, one).result()
        click.echo(
            f"{members} members, seed {one}: {healed.born} born and {healed.died} died meanwhile;"
            f" views equal after {healed.equal_s:.2f} s, all routable after {healed.served_s:.2f} s"
        )


@main.command()
@click.option("--members", type=click.IntRange(3), multiple=True, default=(10, 50, 200, 1000))
@click.option("--seconds", type=click.FloatRange(3.0), default=30.0, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
def traffic(members: tuple[int, ...], seconds: float, seed: int) -> None:
    """Count what members, routers and registries say and hear a second, idle and under churn."""
    click.echo(report.traffic_head())
    for count in members:
        for churn in (False, True):
            said = spoken(count, seed, churn=churn, seconds=seconds)
            click.echo(report.traffic_line(count, said, churn=churn))


@main.command()
@_SETTING
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--messages", is_flag=True, help="Print every message too.")
def show(setting: str, seed: int, *, messages: bool) -> None:
    """Run one seed again and print what views thought, and what was done to whom."""
    trace = Trace()
    trial = Trial(SETTINGS[setting], seed, trace=trace)
    row = trial.row()
    for entry in trace.entries:
        if messages or entry.mark in "!.":
            text = describe(entry.subject, entry.payload)
            click.echo(f"{entry.at:10.4f}  {entry.node:<12}  {entry.mark} {text}")
    click.echo(msgspec.json.encode(row).decode())
    if row.broken or trial.wronged:
        # The others were wronged in the same way.
        about = trial.system.called(trial.wronged[0]) if trial.wronged else ""
        title = f"{setting}, seed {seed}, {row.cell} {row.detail}: {row.broken or trial.wronged}"
        path = DIAGRAMS / f"{store.path_of(DIAGRAMS, setting).stem}-{seed}.svg"
        click.echo(f"diagram: {diagram.write(trace.entries, title, path, session=about)}")


def replay(setting: str, row: Row) -> str:
    """Return the one line that runs a seed again and shows what views thought."""
    return f"python -m opentela.testing.sim.campaign show --setting '{setting}' --seed {row.seed}"


if __name__ == "__main__":
    main()
