"""All scenarios by name."""

from typing import Final

from opentela.testing.sim.named import MEMBERSHIP
from opentela.testing.sim.named_hostile import HOSTILE
from opentela.testing.sim.named_requests import REQUESTS
from opentela.testing.sim.run import Scenario
from opentela.testing.sim.scenarios import SWARM

NAMED: Final[dict[str, Scenario]] = {
    scenario.name: scenario for scenario in (*MEMBERSHIP, *REQUESTS, *HOSTILE)
}
ALL: Final[dict[str, Scenario]] = {SWARM.name: SWARM, **NAMED}
