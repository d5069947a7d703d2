"""Fits the simulator to measurements, and says how well it then does on others.

`refit` does both halves: curves of operators from kernels that were timed alone (`opdb/`), then the
manners of engines and GPUs from replicas that were measured whole (`measured/`).
"""

import importlib.resources
from pathlib import Path

import msgspec

from opentela.core.errors import UsageError
from opentela.placer.calibrate import crossval, operators, points, report
from opentela.placer.calibrate.crossval import Progress, Residual
from opentela.placer.calibrate.points import Point
from opentela.placer.fit import Fit, shipped

__all__ = ["base", "cross_validate", "packaged", "read", "refit", "score", "write"]

TIMED = frozenset(operators.SYSTEMS.values())
"""GPUs whose kernels were timed alone."""


def read(data: Path) -> list[Point]:
    """Return the measurements of whole replicas in *data*, or in its folder `measured`."""
    folder = data / "measured" if (data / "measured").is_dir() else data
    found = points.read(folder)
    if not found:
        raise UsageError(f"{folder}: holds no measurement; give a folder with CSV files of them")
    return found


def base(data: Path) -> Fit:
    """Return the curves of operators with no effect of any engine.

    They are fitted to the timings of kernels in `opdb` of *data*; without such a folder they are
    those that come with the package.
    """
    folder = data / "opdb"
    if folder.is_dir():
        return Fit(operators=operators.fit_all(folder), donors=dict(operators.DONORS), effects={})
    return msgspec.structs.replace(shipped(), effects={})


def packaged() -> Path:
    """Return the folder of measurements that come with the package."""
    return Path(str(importlib.resources.files("opentela.placer"))) / "data"


def refit(data: Path, progress: Progress = lambda _: None) -> tuple[Fit, list[Residual]]:
    """Return the fit to everything in *data*, and what it leaves unexplained."""
    progress("curves of operators")
    curves = base(data)
    measured = read(data)
    progress(f"manners of engines from {len(measured)} measurements")
    fit = crossval.fitted(measured, curves, TIMED)
    return fit, crossval.residuals(measured, fit)


def cross_validate(
    data: Path, by: str = "gpu,engine,model", progress: Progress = lambda _: None
) -> list[Residual]:
    """Return the residuals of all measurements under fits that knew nothing of their groups."""
    return crossval.left_out(read(data), by, base(data), TIMED, progress)


def score(data: Path, fit: Fit) -> list[Residual]:
    """Return what *fit* says to the measurements in *data*."""
    return crossval.residuals(read(data), fit)


def write(fit: Fit, residuals: list[Residual], folder: Path) -> list[Path]:
    """Write `fit.json`, `residuals.csv` and plots into *folder*, and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    report.write_fit(fit, folder / "fit.json")
    report.write_residuals(residuals, folder / "residuals.csv")
    plots = report.write_plots(residuals, folder, "fit")
    return [folder / "fit.json", folder / "residuals.csv", *plots]
