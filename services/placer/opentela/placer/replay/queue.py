"""Requests through a server whose speed changes: when each begins and ends, all at once in arrays.

The replicas of one model behind a router that sends each request to the least loaded are, to a good
approximation, one server with their speeds added. Requests begin in order of arrival. In time that
is stretched by the speed, the recursion of Lindley gives every start by one running maximum.
"""

from typing import NamedTuple

import numpy as np

from opentela.placer.shapes import Floats


class Speed(NamedTuple):
    """Work done per second, constant between instants.

    Attributes:
        at_s: When it changes; the first is when the trace begins, and they rise.
        value: Speed from each instant on; the last holds for ever.
    """

    at_s: Floats
    value: Floats

    def done_by(self, instants: Floats) -> Floats:
        """Return the work that can have been done by each instant."""
        total = self._totals()
        index = np.clip(np.searchsorted(self.at_s, instants, side="right") - 1, 0, None)
        return total[index] + (instants - self.at_s[index]) * self.value[index]

    def when(self, work: Floats) -> Floats:
        """Return when each amount of work can have been done; infinite if never.

        An amount that is reached just as the server stops is done by then; a little more is done
        only once the server has started again.
        """
        total = self._totals()
        index = np.clip(np.searchsorted(total, work, side="left") - 1, 0, None)
        with np.errstate(divide="ignore", invalid="ignore"):
            at = self.at_s[index] + (work - total[index]) / self.value[index]
        return np.where(np.isnan(at), self.at_s[index], at)

    def _totals(self) -> Floats:
        return np.concatenate([[0.0], np.cumsum(np.diff(self.at_s) * self.value[:-1])])


class Served(NamedTuple):
    """When each request began and ended; infinite if never."""

    began_s: Floats
    done_s: Floats


def drain(arrival_s: Floats, work: Floats, speed: Speed) -> Served:
    """Return when requests begin and end that are served one after another.

    Args:
        arrival_s: In rising order, none before the speed begins.
        work: What each takes, in the unit of the speed times seconds.
        speed: Of the server.
    """
    before = np.cumsum(work) - work
    # In stretched time a request begins when it has come and the one before it is done.
    begins = before + np.maximum.accumulate(speed.done_by(arrival_s) - before)
    began = np.maximum(speed.when(begins), arrival_s)
    # Where the server stands still, what arrives then begins when it runs again.
    ended = speed.when(begins + work)
    stands = (speed.value[np.searchsorted(speed.at_s, began, side="right") - 1]) <= 0
    resumed = speed.when(np.nextafter(begins, np.inf) + 1e-9)
    return Served(np.where(stands, np.minimum(resumed, ended), began), ended)
