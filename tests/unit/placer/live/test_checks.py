"""What no placer can work with is refused before it begins, in one line with a remedy."""

import math
from typing import Any

import msgspec
import pytest
from tests.unit.placer.live import parts

from opentela.core.errors import ConfigError
from opentela.placer.live.checks import check, fingerprint
from opentela.placer.live.config import (
    DemandConfig,
    LeaseConfig,
    ModelConfig,
    MoveConfig,
    PlacerConfig,
    PlanConfig,
)

PARTS: dict[str, Any] = {
    "demand": DemandConfig,
    "plan": PlanConfig,
    "moves": MoveConfig,
    "lease": LeaseConfig,
}


def floats(part: msgspec.Struct) -> list[str]:
    """Return the fields of *part* that are amounts."""
    return [name for name in part.__struct_fields__ if isinstance(getattr(part, name), float)]


def fault(config: PlacerConfig) -> str:
    """Return what is said of *config*."""
    with pytest.raises(ConfigError) as caught:
        check(config)
    assert caught.value.remedy
    return str(caught.value)


def test_what_is_given_by_default_is_sound() -> None:
    """Promises may be without end: they are none then."""
    check(PlacerConfig(access="a", models=(ModelConfig(name="a", ttft_s=math.inf),)))


@pytest.mark.parametrize(
    ("part", "field"), [(part, field) for part, form in PARTS.items() for field in floats(form())]
)
def test_an_amount_without_end_is_none(part: str, field: str) -> None:
    """TOML knows infinity; a window or a lease of it would never come to anything."""
    changed = PARTS[part](**{field: math.inf})
    assert fault(parts.config("a", **{part: changed})).startswith(f"{part}: {field} = inf")


@pytest.mark.parametrize(
    "field", sorted({*floats(ModelConfig(name="a"))} - {"ttft_s", "tpot_s", "e2e_s"})
)
def test_an_amount_of_a_model_has_an_end(field: str) -> None:
    """The solver would refuse it at every turn, for all models."""
    given: dict[str, Any] = {field: math.inf}
    model = ModelConfig(name="a", **given)
    assert f"models: a: {field} = inf" in fault(parts.config(models=(model,)))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"w_dtype": "bf61"}, "w_dtype = bf61"),
        ({"kv_dtype": "fp9"}, "kv_dtype = fp9"),
        ({"engine": "vlm"}, "engine = vlm"),
        ({"tp": (1, 3)}, "tp of a holds 3"),
        ({"tp": (128,)}, "tp of a holds 128"),
    ],
)
def test_a_word_that_nobody_knows_is_named(changes: dict[str, Any], said: str) -> None:
    """Before it is planned with."""
    assert said in fault(parts.config(models=(ModelConfig(name="a", **changes),)))


def test_a_name_stands_for_one_model() -> None:
    """Else nobody could say for which of them a request was."""
    pair = (ModelConfig(name="a", aliases=("c",)), ModelConfig(name="b", aliases=("c",)))
    assert "c stands for a and for b" in fault(parts.config(models=pair))
    assert "a is listed twice" in fault(parts.config("a", "b", "a"))


def test_times_that_contradict_each_other_are_refused() -> None:
    """A lease must be renewed before it ends; a rise be seen within the window."""
    assert "lease.renew_s" in fault(parts.config("a", lease=LeaseConfig(renew_s=2.0)))
    assert "demand.fast_s" in fault(parts.config("a", demand=DemandConfig(window_s=9.0)))


def test_a_gpu_that_the_catalogue_does_not_know_is_refused() -> None:
    """Everything at agents that have it would fit nowhere, and nobody be told why."""
    assert "h1OO" in fault(parts.config("a", hardware={"NVIDIA H100": "h1OO"}))


def test_placers_that_would_decide_alike_have_the_same_fingerprint() -> None:
    """Whatever their own access files, pages and logs are."""
    one = parts.config("a", "b")
    alike = msgspec.structs.replace(one, access="other.toml", dry_run=True)
    assert fingerprint(one) == fingerprint(alike)
    others = (
        parts.config("a"),
        msgspec.structs.replace(one, plan=msgspec.structs.replace(one.plan, gain_min=0.5)),
        msgspec.structs.replace(one, hardware={"x": "h100-80g-sxm"}),
    )
    assert len({fingerprint(other) for other in (one, *others)}) == 4
