"""What many rows amount to."""

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from opentela.testing.sim.campaign.rows import Row

RULE_OF_THREE: Final = 3.0
"""Of an event that did not happen in n trials: with 95 % confidence its share is below 3/n."""

UNDISTURBED: Final = ("calm", "clocks")


class Found(NamedTuple):
    """How one kind of death was found.

    Attributes:
        times: Seconds until the last view left the dead out, in order.
        never: Deaths that some view had not noticed when the trial ended.
    """

    times: Sequence[float]
    never: int

    def quantile(self, share: float) -> float:
        """Return the time within which *share* of all was found; infinite if that did not come."""
        whole = len(self.times) + self.never
        if not whole:
            return math.nan
        place = min(whole - 1, math.ceil(share * whole) - 1)
        return self.times[place] if place < len(self.times) else math.inf


class Sum(NamedTuple):
    """What the rows of one setting, or of one cell of it, amount to.

    Attributes:
        removed: Members removed for good although they lived.
        out_others: Members left out for a while that nothing had befallen.
        others: ... of so many.
        out_victims: Members left out for a while that were harmed.
        victims: ... of so many.
        lost: Living members still left out by somebody at the end.
        broken: Trials in which something else went wrong.
    """

    trials: int
    removed: int
    out_others: int
    others: int
    out_victims: int
    victims: int
    lost: int
    broken: int

    @property
    def removed_below(self) -> float:
        """The share of trials with a wrong removal, at most, with 95 % confidence."""
        return RULE_OF_THREE / self.trials if self.trials and not self.removed else math.nan


def summed(rows: Collection[Row], members: int) -> Sum:
    """Return what *rows* amount to, of trials with so many members."""
    return Sum(
        trials=len(rows),
        removed=sum(row.removed for row in rows),
        out_others=sum(row.out_others for row in rows),
        others=sum(members - row.victims for row in rows),
        out_victims=sum(row.out_victims for row in rows),
        victims=sum(row.victims for row in rows),
        lost=sum(row.lost for row in rows),
        broken=sum(bool(row.broken) for row in rows),
    )


def undisturbed(rows: Iterable[Row]) -> list[Row]:
    """Return the trials in which nothing befalls views, links, or who is going to die.

    Others may stand still, and clocks be wrong: of that a death is found no sooner and no later.
    """
    return [row for row in rows if row.cell in UNDISTURBED or row.cell.startswith("stopped ")]


def found(rows: Iterable[Row], how: str) -> Found:
    """Return how deaths of one kind were found."""
    times = [death.last_s for row in rows for death in row.deaths if death.how == how]
    return Found(sorted(time for time in times if time >= 0), sum(time < 0 for time in times))


def removals(rows: Iterable[Row]) -> list[float]:
    """Return, in order, after how long the dead were removed for good, where that was seen."""
    return sorted(death.removed_s for row in rows for death in row.deaths if death.removed_s >= 0)
