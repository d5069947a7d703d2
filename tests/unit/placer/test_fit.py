"""How effects add up to factors."""

import numpy as np
import pytest
from tests.unit.placer.parts import shape

from opentela.placer.fit import COMPONENTS, OPERATORS, Fit, levels_of, shipped


def _fit(effects: dict[str, dict[str, float]]) -> Fit:
    curves = shipped().operators["h100-80g-sxm"]
    return Fit(
        operators={"h100-80g-sxm": curves}, donors={"Hopper": "h100-80g-sxm"}, effects=effects
    )


def test_levels_add_up_and_unknown_ones_add_nothing() -> None:
    """An engine that was never measured is as its family is."""
    fit = _fit({"memory": {"all": 0.5, "gpu=h100-80g-sxm": 0.25, "engine=other": 9.0}})
    factors = dict(zip(COMPONENTS, fit.factors(shape()), strict=True))
    assert factors["memory"] == pytest.approx(np.exp(0.75))
    assert factors["compute"] == 1.0


def test_levels_go_from_all_to_one() -> None:
    """The widest comes first; the last names everything."""
    levels = levels_of(shape(w_dtype="fp8"))
    assert levels[0] == "all"
    assert levels[-1] == "all of them=vllm,h100-80g-sxm,llama-3.1-8b,fp8"


def test_a_gpu_without_timings_borrows_those_of_its_architecture() -> None:
    """Efficiency is a matter of the architecture, speed one of the data sheet."""
    fit = _fit({})
    assert fit.curves(shape(gpu="h100-94g-nvl").gpu) is fit.curves(shape().gpu)


def test_the_shipped_fit_is_whole() -> None:
    """Every curve has its parameters, every architecture its donor, every effect its component."""
    fit = shipped()
    for curves in fit.operators.values():
        assert {len(values) == len(OPERATORS[name]) for name, values in curves.items()} == {True}
    assert set(fit.donors.values()) <= set(fit.operators)
    assert set(fit.effects) <= set(COMPONENTS)
