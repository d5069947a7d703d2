"""Some seeds that one worker runs.

Apart from the command, whose own module the processes of a pool cannot import.
"""

from typing import NamedTuple

from opentela.testing.sim.campaign.rows import Row
from opentela.testing.sim.campaign.settings import SETTINGS
from opentela.testing.sim.campaign.trial import Trial


class Batch(NamedTuple):
    """Seeds of one setting."""

    setting: str
    seeds: tuple[int, ...]


def rows(batch: Batch) -> list[Row]:
    """Run every seed; return what came of each."""
    return [Trial(SETTINGS[batch.setting], seed).row() for seed in batch.seeds]
