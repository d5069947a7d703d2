"""What clients saw, one line a request, and what must be true of it.

The client writes the history, the checker reads it, and neither knows the faults that the test
made: a history is right or wrong whatever happened. Instants are of the machine's monotonic
clock, so that histories and faults of different processes can be compared.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

_LISTED_MAX: Final = 12


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request from its beginning to its only end.

    Attributes:
        status: Of the HTTP answer; 0 when there was none.
        text: All content that arrived, joined.
        finish: Every `finish_reason` that was told.
        is_done: Whether `[DONE]` arrived.
        error: Of an error object or an error event: its code or type; empty when there was none.
        cut: Why HTTP itself did not end well; empty when it did.
        session: Who answered, as the router says.
        attempts: How many sessions were tried, as the router says.
    """

    number: int
    stream: bool
    started_at: float
    ended_at: float
    first_at: float = 0.0
    status: int = 0
    text: str = ""
    finish: tuple[str, ...] = ()
    is_done: bool = False
    error: str = ""
    cut: str = ""
    session: str = ""
    attempts: int = 0

    @property
    def took_s(self) -> float:
        """Seconds from sending to the end."""
        return self.ended_at - self.started_at

    @property
    def claims_success(self) -> bool:
        """Whether the client would believe that it has a whole answer."""
        told = self.status == 200 and not self.error and not self.cut and bool(self.finish)
        return told and (self.is_done or not self.stream)

    @property
    def had_begun(self) -> bool:
        """Whether the client was promised a stream: after that no other session can be tried."""
        return self.stream and self.status == 200

    def describe(self) -> str:
        """Return one line for a report."""
        kind = "stream" if self.stream else "unary"
        return (
            f"#{self.number} {kind} at {self.started_at:.2f} took {self.took_s:.2f} s: status"
            f" {self.status}, text {self.text[-24:]!r}, finish {self.finish}, done {self.is_done},"
            f" error {self.error!r}, cut {self.cut!r}, session {self.session},"
            f" attempts {self.attempts}"
        )


Expected = Callable[[Exchange], str]
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Exchange)


def to_line(exchange: Exchange) -> bytes:
    """Return the line of a history file."""
    return _ENCODER.encode(exchange) + b"\n"


def read(file: Path) -> list[Exchange]:
    """Return the exchanges that have ended so far; a line half written is left for later."""
    if not file.exists():
        return []
    whole, _, _ = file.read_bytes().rpartition(b"\n")
    return [_DECODER.decode(line) for line in whole.splitlines()]


def failed(history: Iterable[Exchange]) -> list[Exchange]:
    """Return the exchanges in which a client got no whole answer."""
    return [exchange for exchange in history if not exchange.claims_success]


def check(history: Sequence[Exchange], *, expected: Expected, longest_s: float) -> list[str]:
    """Return every violation of what holds whatever failed.

    - Each request ends exactly once, and within *longest_s*.
    - A unary request succeeds: somebody else can always be asked.
    - A stream that was promised either succeeds or ends with an error event; never both, never
      neither. One that was not promised succeeds, like a unary request.
    - What claims success has exactly the expected text; what failed has a beginning of it.
    """
    found = [
        f"{rule}: {exchange.describe()}"
        for exchange in history
        for rule in _broken_rules(exchange, expected(exchange), longest_s)
    ]
    numbers = [exchange.number for exchange in history]
    if len(set(numbers)) != len(numbers):
        found.append("a request ended twice")
    return found


def report(violations: Sequence[str]) -> str:
    """Return the violations for an assertion's message, the first few in full."""
    more = len(violations) - _LISTED_MAX
    lines = [*violations[:_LISTED_MAX], *([f"and {more} more"] if more > 0 else [])]
    return "\n".join(lines)


def _broken_rules(exchange: Exchange, whole: str, longest_s: float) -> list[str]:
    rules = {
        "took too long": exchange.took_s > longest_s,
        "failed although nothing had begun": not (exchange.had_begun or exchange.claims_success),
        "was cut without a word": exchange.had_begun and bool(exchange.cut),
        "ended neither well nor with an error": exchange.had_begun
        and not exchange.cut
        and not exchange.error
        and not exchange.claims_success,
        "claims success after an error": bool(exchange.error)
        and (exchange.is_done or bool(exchange.finish)),
        "claims success with another text": exchange.claims_success and exchange.text != whole,
        "has text that nobody wrote": not whole.startswith(exchange.text),
    }
    return [rule for rule, is_broken in rules.items() if is_broken]
