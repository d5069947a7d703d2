"""Leaving out whole groups."""

import pytest
from tests.unit.placer.calibrate.measurements import bare, points

from opentela.placer.calibrate import crossval
from opentela.placer.fit import Fit

TIMED = frozenset({"a100-80g-sxm", "h100-80g-sxm"})


def test_residuals_stand_beside_what_was_measured() -> None:
    """The truth has none; three values a point."""
    own = points(bare())
    found = crossval.residuals(own, bare())
    assert len(found) == 3 * len(own)
    assert max(abs(one.error) for one in found) < 1e-9
    assert {one.metric for one in found} == {"ttft", "tpot", "e2e"}


@pytest.mark.parametrize("by", ["gpu", "model"])
def test_every_point_is_said_without_its_own_group(by: str) -> None:
    """One fit a part, told as it goes."""
    base = bare()
    truth = Fit(operators=base.operators, donors=base.donors, effects={"memory": {"all": 0.2}})
    told: list[str] = []
    found = crossval.left_out(points(truth), by, base, TIMED, told.append)
    assert len({one.point.id for one in found}) == len(points(truth))
    assert len(told) == len({point.group(by) for point in points(truth)})
    errors = sorted(abs(one.error) for one in found)
    assert errors[len(errors) // 2] < 0.1


def test_one_step_leaves_a_curve_out_as_a_fit_to_the_others_does() -> None:
    """What is peculiar about it is not known, though the fit to all knows."""
    base = bare()
    odd = "all of them=vllm-0.5,h100-80g-sxm,qwen2-7b,bf16"
    effects = {"memory": {"all": 0.2}, "whole": {odd: 0.15}}
    own = points(Fit(operators=base.operators, donors=base.donors, effects=effects))
    found = crossval.each_left_out(own, "curve", base, TIMED)
    assert len(found) == 3 * len(own)
    curve = next(p.group("curve") for p in own if "h100-80g-sxm qwen2-7b" in p.group("curve"))
    rest = [point for point in own if point.group("curve") != curve]
    held = [point for point in own if point.group("curve") == curve]
    step = [one.said for one in found if one.point in held]
    anew = [one.said for one in crossval.residuals(held, crossval.fitted(rest, base, TIMED))]
    every = [one.said for one in crossval.residuals(held, crossval.fitted(own, base, TIMED))]
    assert step == pytest.approx(anew, rel=0.03)
    assert max(abs(a / b - 1) for a, b in zip(every, anew, strict=True)) > 0.06


def test_a_gpu_left_out_loses_its_own_curves_too() -> None:
    """Unless others borrow them: then it has what they have."""
    base = bare()
    lent = set(base.donors.values())
    own = next(gpu for gpu in base.operators if gpu in lent)
    assert own in crossval.without(base, frozenset({own})).operators
    alone = Fit(
        operators=base.operators | {"x": base.operators[own]}, donors=base.donors, effects={}
    )
    assert "x" not in crossval.without(alone, frozenset({"x"})).operators
