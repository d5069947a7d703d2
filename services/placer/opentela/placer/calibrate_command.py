"""What `otela calibrate` does and prints."""

import sys
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from opentela.placer import calibrate, files
from opentela.placer.calibrate.crossval import Residual
from opentela.placer.calibrate.report import scores
from opentela.placer.progress import steps


def run(data: Path | None, out: Path, by: str | None, *, as_json: bool) -> None:
    """Fit to *data*, write what came of it to *out*, and print how well it does."""
    folder = data or calibrate.packaged()
    files.writable(out)
    with steps("reading") as said:
        fit, residuals = calibrate.refit(folder, said)
        written = calibrate.write(fit, residuals, out)
        judged: list[Residual] = residuals
        if by is not None:
            judged = calibrate.cross_validate(folder, by, progress=said)
    if as_json:
        told = {kind: scores(judged, kind) for kind in ("source", "gpu", "engine")}
        sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
        return
    _show(judged, "left out of the fit" if by else "fitted")
    for path in written:
        sys.stdout.write(f"wrote {path}\n")


def _show(residuals: list[Residual], what: str) -> None:
    for kind in ("source", "gpu", "engine"):
        rows = scores(residuals, kind)
        table = Table(title=f"By {kind} ({what})", title_justify="left", box=None)
        for name in msgspec.structs.fields(type(rows[0])):
            table.add_column(name.name, justify="right")
        for row in rows:
            values = msgspec.structs.astuple(row)
            table.add_row(*(f"{v:.3f}" if isinstance(v, float) else str(v) for v in values))
        Console(highlight=False).print(table)
