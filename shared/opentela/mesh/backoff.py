"""How long to wait before the next dial."""

from typing import Final

from opentela.core.rng import Rng

BACKOFF_FIRST_S: Final = 0.2
BACKOFF_MAX_S: Final = 2.0
"""Between two rounds over the servers: at most this is added to the recovery of a server, and a
thousand clients spread their handshakes over it."""
_DOUBLINGS_MAX: Final = 16


def backoff_s(attempt: int, rng: Rng) -> float:
    """Return the pause before dial number *attempt*, counted from 0; spread so that none gang up.

    It doubles from `BACKOFF_FIRST_S` to `BACKOFF_MAX_S`; what is drawn lies in its upper half, but
    the first, after which a server that only restarted is back, starts from 0.
    """
    ceiling = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(attempt, _DOUBLINGS_MAX))
    floor = ceiling / 2 if attempt else 0.0
    return floor + rng.random() * (ceiling - floor)
