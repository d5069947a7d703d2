"""Random meshes, random harm: every invariant holds under every seed.

Here run the seeds that CI has time for; `make sim N=1000` runs more, `make sim SEED=7` one.
"""

import pytest

from opentela.testing.sim.run import Run
from opentela.testing.sim.scenarios import SWARM

SEEDS = 60
BATCH = 10
"""Seeds a test: a failure names its seed anyway."""


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_invariants_hold_in_the_swarm(first: int) -> None:
    """No harm that the nemeses do breaks what the checkers know."""
    for seed in range(first, first + BATCH):
        assert Run(SWARM, seed).result().ok > 0
