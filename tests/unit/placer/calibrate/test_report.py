"""What calibration writes."""

import csv
from pathlib import Path

import msgspec
import pytest
from tests.unit.placer.calibrate.measurements import ROWS, bare, points, write

from opentela.core.errors import UsageError
from opentela.placer import calibrate
from opentela.placer.calibrate import crossval, report
from opentela.placer.fit import Fit


def test_a_fit_its_residuals_and_pictures_are_written(tmp_path: Path) -> None:
    """And the fit comes back as it was."""
    fit = bare()
    found = crossval.residuals(points(fit, scatter=0.1), fit)
    files = calibrate.write(fit, found, tmp_path / "out")
    assert [file for file in files if file.stat().st_size == 0] == []
    assert msgspec.json.decode((tmp_path / "out" / "fit.json").read_bytes(), type=Fit) == fit
    with (tmp_path / "out" / "residuals.csv").open() as file:
        assert len(list(csv.reader(file))) == len(found) + 1


def test_scores_are_quantiles_of_the_size_of_errors() -> None:
    """By group and metric."""
    truth = bare()
    slower = Fit(operators=truth.operators, donors=truth.donors, effects={"whole": {"all": 0.1}})
    found = report.scores(crossval.residuals(points(truth), slower), "gpu")
    tpot = [one for one in found if one.metric == "tpot"]
    assert [one.group for one in tpot] == ["a100-80g-sxm", "h100-80g-sxm"]
    assert tpot[0].median == pytest.approx(0.105, abs=0.002)
    assert tpot[0].bias == pytest.approx(tpot[0].median)


def test_measurements_are_looked_for_where_they_are(tmp_path: Path) -> None:
    """The folder itself, or `measured` in it; none is an error with a remedy."""
    with pytest.raises(UsageError, match="holds no measurement"):
        calibrate.read(tmp_path)
    write(tmp_path / "measured")
    assert len(calibrate.read(tmp_path)) == 4
    assert len(calibrate.score(tmp_path / "measured", bare())) == len(ROWS) - 1


def test_what_comes_with_the_package_is_enough_to_fit_again() -> None:
    """Measurements that may be passed on, and curves where there are no timings of kernels."""
    points = calibrate.read(calibrate.packaged())
    assert len(points) > 3000
    assert {point.source for point in points} >= {"argonne", "aic_silicon", "trtllm_docs"}
    assert calibrate.base(calibrate.packaged()).effects == {}
