"""All scenarios by name."""

from typing import Final

from opentela.testing.sim.named import MEMBERSHIP, partition_of
from opentela.testing.sim.named_ends import ENDS
from opentela.testing.sim.named_hostile import HOSTILE
from opentela.testing.sim.named_requests import REQUESTS
from opentela.testing.sim.run import Scenario
from opentela.testing.sim.scenarios import SWARM

NAMED: Final[dict[str, Scenario]] = {
    scenario.name: scenario for scenario in (*MEMBERSHIP, *REQUESTS, *ENDS, *HOSTILE)
}
LARGE: Final[dict[str, Scenario]] = {
    scenario.name: scenario for scenario in (partition_of(128), partition_of(1000))
}
"""Some 5 and 45 s of one core."""
ALL: Final[dict[str, Scenario]] = {SWARM.name: SWARM, **NAMED, **LARGE}
