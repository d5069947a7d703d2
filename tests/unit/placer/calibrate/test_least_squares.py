"""Robust least squares."""

import numpy as np
import pytest

from opentela.placer.calibrate.least_squares import huber_cost, huber_weights, minimise
from opentela.placer.shapes import Floats

X = np.linspace(0.1, 5, 60)


def test_it_finds_the_parameters_that_made_the_data() -> None:
    """A curve of two parameters, started far off."""
    truth = np.log(3 * X / (1 + X / 2))

    def residuals(x: Floats) -> Floats:
        return np.asarray(np.log(np.exp(x[0]) * X / (1 + X / np.exp(x[1]))) - truth)

    assert np.exp(minimise(residuals, [0.0, 0.0])) == pytest.approx([3, 2], rel=1e-3)


def test_outliers_count_little() -> None:
    """One value that is wrong by far moves the line hardly."""
    truth = 2 * X
    truth[7] += 100

    def residuals(x: Floats) -> Floats:
        return np.asarray(x[0] * X - truth)

    assert minimise(residuals, [0.0], turn=0.1)[0] == pytest.approx(2, rel=0.01)


def test_it_stops_where_nothing_gets_better() -> None:
    """A parameter that changes nothing is left alone."""
    assert minimise(lambda _: np.ones(3), [1.0, 2.0]).tolist() == [1.0, 2.0]


def test_cost_grows_like_a_line_beyond_the_turn() -> None:
    """And weights fall off accordingly."""
    assert huber_cost(np.array([0.1]), 1.0) == pytest.approx(0.005)
    assert huber_cost(np.array([3.0]), 1.0) == pytest.approx(2.5)
    assert huber_weights(np.array([0.5, 4.0]), 1.0).tolist() == [1.0, 0.25]
