"""Policies by name: those of this project and those of any other installed one."""

from importlib.metadata import entry_points
from typing import Final

from opentela.core.errors import ConfigError
from opentela.core.rng import Rng
from opentela.router.policies.base import Policy

GROUP: Final = "opentela.policies"


def policy(name: str, rng: Rng) -> Policy:
    """Return a policy that draws from *rng*.

    Raises:
        ConfigError: No installed distribution has one of that *name*.
    """
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in found:
        raise ConfigError(
            f"policy = {name!r} is not installed", remedy=f"known: {', '.join(sorted(found))}"
        )
    made: Policy = found[name].load()(rng)
    return made
