"""The books of a loan, which both ends keep: what is done on it, and what is known of that.

The router counts; the session knows what it was last told, and whether that is the last word. A
loan on which nothing more may begin still binds the session until the router has said so, and that
nothing runs: between two accounts something may have begun.
"""

from typing import Final

import msgspec

from opentela.wire.frames import FailKind
from opentela.wire.loans import Account

ENDED: Final = "ended"
"""How a request ended whose answer came whole; others by the kind of their failure."""
STALE_S: Final = 3.0
"""A router tells of what runs twice a second: older word is no evidence about the engine."""
REST_S: Final = 5.0
"""After a failure of the engine's connection requests take the channel, for the session knows
first whether its engine lives, and whose port that is now."""

_NO_CONNECTION: Final = frozenset((FailKind.ENGINE_UNREACHABLE, FailKind.ENGINE_LOST))


class Borrowed:
    """The router's book.

    Attributes:
        number: Of the loan.
        streams_max: Requests at once.
        received: Bytes that came from the engine.
        is_closed: Nothing more may begin.
    """

    def __init__(self, number: int, streams_max: int) -> None:
        self.number = number
        self.streams_max = streams_max
        self.received = 0
        self.is_closed = False
        self.running = 0
        self._begun = 0
        self._ended: dict[str, int] = {}
        self._rests_until = float("-inf")
        self._told: Account | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing runs, or will."""
        return self.is_closed and not self.running

    @property
    def has_news(self) -> bool:
        """Whether something runs, or is not told yet."""
        return self.running > 0 or self._told != self.account()

    def may_begin(self, now: float) -> bool:
        """Return whether a request may be begun now, rather than sent over the channel."""
        return not self.is_closed and self.running < self.streams_max and now >= self._rests_until

    def begin(self) -> None:
        """Count a request that begins."""
        self._begun += 1
        self.running += 1

    def end(self, now: float, outcome: str) -> None:
        """Count its end."""
        self.running -= 1
        self._ended[outcome] = self._ended.get(outcome, 0) + 1
        if outcome in _NO_CONNECTION:
            self._rests_until = now + REST_S

    def account(self) -> Account:
        """Return the state of the book."""
        return Account(self.number, self._begun, self._ended.copy(), self.received, self.is_closed)

    def told(self, account: Account) -> None:
        """Note what the session was told."""
        self._told = account


class Lent:
    """The session's book of one loan.

    Attributes:
        number: Of the loan.
        is_recalled: The router was asked to begin nothing more, or cannot be asked.
    """

    def __init__(self, number: int, now: float) -> None:
        self.number = number
        self.is_recalled = False
        self._heard_at = now
        self._last = Account(number, 0, {}, 0)

    @property
    def running(self) -> int:
        """Return the requests that run, as far as is known; one at least if some may have begun."""
        account = self._last
        known = max(0, account.begun - sum(account.ended.values()))
        return known or int(self.is_recalled and not account.is_closed)

    @property
    def is_over(self) -> bool:
        """Whether nothing runs, or will."""
        return self._last.is_closed and not self.running

    def is_stale(self, now: float, limit_s: float = STALE_S) -> bool:
        """Return whether nobody has told of what runs for longer than *limit_s*."""
        return self.running > 0 and now > self._heard_at + limit_s

    def take(self, now: float, account: Account) -> Account:
        """Take an account; return what is new in it, nothing of one that comes late."""
        self._heard_at = now
        last = self._last
        if account.is_closed and account.begun < last.begun:
            # The last word was lost, and the router has forgotten the loan since: nothing runs.
            self._last = msgspec.structs.replace(
                last, begun=sum(last.ended.values()), is_closed=True
            )
            return Account(self.number, 0, {}, 0, is_closed=True)
        if _age(account) < _age(last) or account.received < last.received:
            return Account(self.number, 0, {}, 0)
        self._last = account
        ended = {
            how: count - last.ended.get(how, 0)
            for how, count in account.ended.items()
            if count > last.ended.get(how, 0)
        }
        return Account(
            self.number,
            account.begun - last.begun,
            ended,
            account.received - last.received,
            account.is_closed,
        )


def _age(account: Account) -> tuple[bool, int, int]:
    """Return what only grows while a loan lasts."""
    return account.is_closed, account.begun, sum(account.ended.values())
