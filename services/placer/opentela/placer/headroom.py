"""How much more than the mean a bursty demand needs."""

import math
from typing import Final

SURE: Final = 1.645
"""Standard deviations that 95 of 100 windows stay below."""


def with_headroom(rate_rps: float, *, cv: float, absorb_s: float, sure: float = SURE) -> float:
    """Return the rate to have capacity for, so that bursts are worked off in time.

    In a window of `absorb_s` a renewal stream of this rate brings `rate · absorb_s` requests with a
    standard deviation of `cv · √(rate · absorb_s)`. What comes within a window, bar `sure` standard
    deviations, can be served within it. Small demands need relatively more.

    Args:
        rate_rps: Mean requests a second.
        cv: Coefficient of variation of the gaps between arrivals: 1 is Poisson, 0 is a clock.
        absorb_s: How long a request may wait.
        sure: Standard deviations to be sure by.
    """
    if rate_rps <= 0:
        return 0.0
    return rate_rps + sure * cv * math.sqrt(rate_rps / absorb_s)
