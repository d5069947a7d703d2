"""What no placer can work with, found before it begins; each fault in one line."""

import hashlib
import math
from typing import Final

import msgspec

from opentela.core.errors import ConfigError
from opentela.placer import catalogue
from opentela.placer.live.config import ModelConfig, PlacerConfig
from opentela.placer.problem import GPUS_PER_STAGE
from opentela.placer.shapes import DTYPE_BYTES

RENEWED_SHARE: Final = 0.4
"""Of a lease, within which it is renewed: so that one renewal may be lost."""
_ENDLESS: Final = frozenset({"ttft_s", "tpot_s", "e2e_s"})
"""Fields that may be without end: nothing is promised."""


def fingerprint(config: PlacerConfig) -> str:
    """Return what two placers have in common that would decide alike."""
    parts = (config.models, config.hardware, config.demand, config.plan, config.moves, config.lease)
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()[:16]


def check(config: PlacerConfig) -> None:
    """Raise `ConfigError` for the first thing in *config* that makes no sense."""
    for name in ("demand", "plan", "moves", "lease"):
        _check_finite(name, getattr(config, name))
    lease = config.lease
    _require(
        lease.renew_s <= lease.lease_s * RENEWED_SHARE,
        f"lease.renew_s = {lease.renew_s:g} leaves no time to renew a lease of {lease.lease_s:g} s",
        "make it a third of lease.lease_s",
    )
    demand = config.demand
    _require(
        demand.fast_s <= demand.window_s,
        f"demand.fast_s = {demand.fast_s:g} is longer than demand.window_s = {demand.window_s:g}",
        "make it shorter",
    )
    known = ", ".join(sorted(catalogue.gpus()))
    for name, gpu in config.hardware.items():
        _require(
            gpu in catalogue.gpus(),
            f"hardware: {name} is said to be {gpu}, which the catalogue does not know",
            f"give one of {known}",
        )
    _check_names(config)
    for model in config.models:
        _check_model(model)


def _check_names(config: PlacerConfig) -> None:
    taken: dict[str, str] = {}
    for model in config.models:
        _require(
            taken.get(model.name) != model.name,
            f"models: {model.name} is listed twice",
            "list it once",
        )
        for name in (model.name, *model.aliases):
            other = taken.setdefault(name, model.name)
            _require(
                other == model.name,
                f"models: {name} stands for {other} and for {model.name}",
                "give each name to one model",
            )


def _check_model(model: ModelConfig) -> None:
    where = f"models: {model.name}"
    _check_finite(where, model)
    odd = next((size for size in model.tp if size not in GPUS_PER_STAGE), None)
    _require(
        odd is None,
        f"models: tp of {model.name} holds {odd}",
        "give powers of two up to 64: they divide the GPUs of an agent",
    )
    for field in ("w_dtype", "kv_dtype"):
        said = getattr(model, field)
        _require(
            said in DTYPE_BYTES or (field == "w_dtype" and not said),
            f"{where}: {field} = {said} is unknown",
            "give one of " + ", ".join(sorted(DTYPE_BYTES)),
        )
    _require(
        model.engine in catalogue.engines(),
        f"{where}: engine = {model.engine} is unknown to the simulator",
        "give one of " + ", ".join(sorted(catalogue.engines())),
    )


def _check_finite(where: str, part: msgspec.Struct) -> None:
    for field in part.__struct_fields__:
        value = getattr(part, field)
        if isinstance(value, float) and field not in _ENDLESS:
            _require(math.isfinite(value), f"{where}: {field} = {value:g} is no amount", "give one")


def _require(holds: bool, fault: str, remedy: str) -> None:  # noqa: FBT001  # reads as a sentence
    if not holds:
        raise ConfigError(fault, remedy=remedy)
