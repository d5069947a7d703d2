"""Which systems are compared, and with which knobs."""

from typing import Final

from msgspec.structs import replace

from opentela.registry.config import LAN, DetectorConfig, RegistryConfig
from opentela.testing.sim.campaign.product import presets, product
from opentela.testing.sim.campaign.swim_parts import SwimConfig
from opentela.testing.sim.campaign.swim_system import swim
from opentela.testing.sim.campaign.trial import Setting

_EAGER: Final = replace(
    LAN,
    detector=replace(
        LAN.detector, late_beats=1.15, lease_beats=1.4, probe_every_s=0.05, probe_timeout_s=0.1
    ),
)
_PATIENT: Final = replace(
    LAN,
    detector=replace(
        LAN.detector,
        late_beats=1.5,
        lease_beats=5.0,
        probes_min=2,
        probe_every_s=1.0,
        probe_timeout_s=1.0,
    ),
)
PRODUCT: Final[dict[str, RegistryConfig]] = {**presets(), "eager": _EAGER, "patient": _PATIENT}
"""The presets, and one choice beyond them at either end."""
SWIM: Final[dict[str, SwimConfig]] = {
    "Serf LAN": SwimConfig(),
    "SWIM": SwimConfig(lifeguard=False),
}
"""memberlist's defaults, which Serf has too; and the same without what Lifeguard adds."""
SETTINGS: Final[dict[str, Setting]] = {
    **{name: product(registry) for name, registry in PRODUCT.items()},
    **{name: swim(config) for name, config in SWIM.items()},
}


def knobs(name: str) -> str:
    """Return what a setting consists of, on one line."""
    registry = PRODUCT.get(name)
    if registry is None:
        return ""
    detector, base = registry.detector, DetectorConfig()
    told = {
        field: getattr(detector, field)
        for field in detector.__struct_fields__
        if getattr(detector, field) != getattr(base, field)
    }
    return ", ".join(f"{field} {value:g}" for field, value in told.items()) or "the defaults"
