"""What must be true of a history under churn, given who died when; and what it cost.

Knows nothing of how the faults were made. Instants are of the machine's monotonic clock.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec
from tests.e2e.history import Exchange

SLACK_S: Final = 0.5
"""Between the instant that is noted of a death and the death."""


class Death(msgspec.Struct, frozen=True):
    """A session that was ended without a word.

    Attributes:
        at: Noted just before.
        kind: What was done.
    """

    session: str
    at: float
    kind: str


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What a history cost.

    Attributes:
        broken: Streams that ended with an error event.
        retried: Requests that were asked at more than one session.
        more: Attempts beyond the first of each request: work that was done again, or might have.
        slowest_s: The longest request.
    """

    unary: int
    streams: int
    broken: int
    retried: int
    more: int
    slowest_s: float


def check_churn(history: Sequence[Exchange], deaths: Sequence[Death]) -> list[str]:
    """Return every violation.

    - A request that was not promised a stream succeeds.
    - A stream that was promised and broke says so by an error event, and its own session died
      while it ran: nobody else's death breaks it, and no orderly end does.
    """
    died: defaultdict[str, list[float]] = defaultdict(list)
    for death in deaths:
        died[death.session].append(death.at)
    found = []
    for exchange in history:
        if exchange.claims_success:
            continue
        if not exchange.had_begun:
            found.append(f"a request failed that nothing was promised to: {exchange.describe()}")
        elif not exchange.error or exchange.cut:
            found.append(f"a stream broke without a word: {exchange.describe()}")
        elif not any(
            exchange.started_at - SLACK_S <= at <= exchange.ended_at
            for at in died[exchange.session]
        ):
            found.append(f"a stream broke whose session lived: {exchange.describe()}")
    return found


def cost(history: Sequence[Exchange]) -> Cost:
    """Return what *history* cost."""
    return Cost(
        unary=sum(not one.stream for one in history),
        streams=sum(one.stream for one in history),
        broken=sum(one.had_begun and not one.claims_success for one in history),
        retried=sum(one.attempts > 1 for one in history),
        more=sum(max(0, one.attempts - 1) for one in history),
        slowest_s=max((one.took_s for one in history), default=0.0),
    )
