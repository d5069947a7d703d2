"""What is known to happen in the field comes out right."""

import pytest

from opentela.testing.sim.catalogue import NAMED
from opentela.testing.sim.run import Run, Scenario

SEEDS = range(2)


@pytest.mark.parametrize("scenario", NAMED.values(), ids=NAMED.keys())
def test_scenario_comes_out_right(scenario: Scenario) -> None:
    """Under more than one seed, so that no luck with the order of messages is needed."""
    for seed in SEEDS:
        Run(scenario, seed).result()
