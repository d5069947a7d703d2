"""What holds for four sessions holds for many more.

`make sim SCENARIO=both-sides-of-1000-serve-through-a-partition N=1` shows it for a thousand.
"""

from opentela.testing.sim.named import partition_of
from opentela.testing.sim.run import Run

AGREED_S = 5.0


def test_a_partition_of_a_mesh_of_128_heals_in_seconds() -> None:
    """Views are equal everywhere less than five seconds after the healing."""
    assert Run(partition_of(128), 1).result().converged_s < AGREED_S
