"""Partial pooling of engines and GPUs."""

import numpy as np
import pytest
from tests.unit.placer.calibrate.measurements import bare, points

from opentela.placer.calibrate import hierarchy
from opentela.placer.calibrate.points import measured, predict
from opentela.placer.fit import Fit

TIMED = frozenset({"a100-80g-sxm", "h100-80g-sxm"})
TRUTH = {"memory": {"gpu=a100-80g-sxm": 0.2}, "host": {"engine=vllm-0.5": 0.8}}


def test_what_made_the_measurements_is_found() -> None:
    """Effects of an engine and of a GPU, under scatter."""
    base = bare()
    truth = Fit(operators=base.operators, donors=base.donors, effects=TRUTH)
    data, _ = measured(points(truth, scatter=0.03), base)
    pool, effects = hierarchy.solve(data, TIMED)
    errors = predict(data, pool.factors(effects)) / data.values - 1
    assert np.nanmedian(np.abs(errors)) < 0.04
    before, _ = measured(points(truth), base)
    plain = predict(before, np.ones_like(pool.factors(effects))) / before.values - 1
    assert np.nanmedian(np.abs(plain)) > 0.1


def test_without_surprise_there_is_no_effect() -> None:
    """What operators explain needs no further explanation."""
    base = bare()
    data, _ = measured(points(base), base)
    pool, effects = hierarchy.solve(data, TIMED)
    assert (
        max((abs(v) for levels in pool.named(effects).values() for v in levels.values()), default=0)
        < 0.02
    )


def test_a_group_of_many_counts_like_one_of_few() -> None:
    """Ten times the same measurements do not drown out another group's."""
    base = bare()
    odd = Fit(operators=base.operators, donors=base.donors, effects={"whole": {"all": 0.3}})
    many = [p for p in points(odd) if p.shape.gpu.id == "h100-80g-sxm"] * 10
    few = [p for p in points(base) if p.shape.gpu.id == "a100-80g-sxm"]
    data, _ = measured([*many, *few], base)
    pool, effects = hierarchy.solve(data, TIMED)
    errors = predict(data, pool.factors(effects))[-len(few) :] / data.values[-len(few) :] - 1
    assert np.nanmedian(np.abs(errors)) < 0.08


def test_named_effects_give_the_factors_back() -> None:
    """What is written to a file is what was fitted."""
    base = bare()
    truth = Fit(operators=base.operators, donors=base.donors, effects=TRUTH)
    data, _ = measured(points(truth), base)
    pool, effects = hierarchy.solve(data, TIMED)
    fit = Fit(operators=base.operators, donors=base.donors, effects=pool.named(effects))
    _, factors = measured(data.points, fit)
    assert factors == pytest.approx(pool.factors(effects), rel=0.02)


def test_slopes_are_those_of_the_cost() -> None:
    """The gradient that steps follow, effect by effect, is what nudging each of them shows."""
    base = bare()
    data, _ = measured(points(base, scatter=0.03), base)
    pool = hierarchy.Pool(data, TIMED)
    problem = hierarchy._Problem(data, pool)
    effects = np.linspace(-0.05, 0.05, len(pool.sigmas))
    _, gradient = problem.normal_equations(effects)
    for at in range(0, len(effects), 7):
        nudge = np.zeros(len(effects))
        nudge[at] = 1e-5
        slope = (problem.cost(effects + nudge) - problem.cost(effects - nudge)) / 2e-5
        assert gradient[at] == pytest.approx(slope, rel=0.02, abs=0.02)
