"""What clients asked and got, what routers tried, and what engines really sent.

A history is written while a run goes on and read by the checkers; no machine sees it.
"""

import hashlib
from enum import StrEnum

import msgspec

from opentela.core.ids import SessionId


class Outcome(StrEnum):
    """How a request ended, as its client saw it."""

    OK = "ok"
    ERROR = "error"
    CANCELLED = "cancelled"


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a request, as far as the simulated engine reads it.

    Attributes:
        reads: Into how many reads the answer is cut.
        size: Bytes that the answer has at least.
        padding: Makes the request as large as it is to be.
    """

    model: str
    stream: bool = True
    reads: int = 4
    size: int = 0
    padding: str = ""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try at one session.

    Attributes:
        lifecycle: Of the session in the router's view at that moment, by name; `UNKNOWN` when it
            was not in there.
        suspected: ... and whether that held it for suspected.
        others: Sessions that could have had it and had not had it before.
        may_be_slow: Whether it ended without a word of the session, or because its channel broke.
    """

    at: float
    router: str
    session: SessionId
    lifecycle: str
    suspected: bool
    others: int = 0
    may_be_slow: bool = False


class Request(msgspec.Struct, kw_only=True):
    """One request, from asking to its ends (of which there must be one).

    Attributes:
        received: Bytes of the answer that reached the client, headers aside.
        ends: Every end that was reported, with its time and a reason.
    """

    name: str
    router: str
    ask: Ask
    asked_at: float
    attempts: list[Attempt] = msgspec.field(default_factory=list)
    status: int = 0
    received: bytearray = msgspec.field(default_factory=bytearray)
    ends: list[tuple[float, Outcome, str]] = msgspec.field(default_factory=list)

    @property
    def outcome(self) -> Outcome | None:
        """How it ended, if it did."""
        return self.ends[0][1] if self.ends else None


class History:
    """All requests of a run, by name, and all answers that engines began.

    Attributes:
        sent: Whole answers, by request and session.
    """

    def __init__(self) -> None:
        self.requests: dict[str, Request] = {}
        self.sent: dict[tuple[str, str], bytes] = {}

    def ask(self, request: Request) -> None:
        """Note that a client asks."""
        assert request.name not in self.requests, request.name
        self.requests[request.name] = request

    def router_died(self, at: float, router: str) -> None:
        """Break the connections of all clients of a router: its process is gone."""
        for request in self.requests.values():
            if request.router == router and not request.ends:
                request.ends.append((at, Outcome.ERROR, "the router died"))

    def count(self, outcome: Outcome | None) -> int:
        """Return how many requests ended so; None counts those that did not end."""
        return sum(request.outcome is outcome for request in self.requests.values())


_EVENTS = 3
_FILLER = b"0123456789abcdef" * 64


def answer(request: str, session: SessionId, ask: Ask) -> bytes:
    """Return the whole answer to *request* that nobody but *session* gives."""
    proof = hashlib.blake2b(f"{request}/{session}".encode(), digest_size=12).hexdigest()
    filler = (_FILLER * (ask.size // len(_FILLER) + 1))[: ask.size].decode()
    if not ask.stream:
        return f'{{"id":"{proof}","choices":[{{"message":"{filler}"}}]}}'.encode()
    events = [
        f'data: {{"id":"{proof}","n":{n},"choices":[{{"index":0,"delta":"{filler}",'
        f'"finish_reason":{"null" if n + 1 < _EVENTS else chr(34) + "stop" + chr(34)}}}]}}\n\n'
        for n in range(_EVENTS)
    ]
    return "".join([*events, "data: [DONE]\n\n"]).encode()
