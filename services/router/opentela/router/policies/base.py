"""What a policy is: three synchronous methods, called in pairs that always close."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from opentela.core.pieces import Text
from opentela.core.rng import Rng
from opentela.router.directory import Candidate
from opentela.router.outcomes import Result


class Call(NamedTuple):
    """What a policy may know of a request.

    Attributes:
        model: The name that was asked for.
        request: Its id.
        body: As the client sent it, in pieces when it is large; `prompt.keys_of` reads how the
            prompt begins. It costs who asks for it, and nobody else.
    """

    model: str
    request: str
    body: Text = b""


class Observed(NamedTuple):
    """How an attempt went, as this router saw it.

    Attributes:
        result: What it says of the session.
        duration_s: From handing it over to its end.
        tokens_in: Prompt tokens as the engine counted them; 0 when it did not say.
        tokens_cached: Those of them that a prefix cache held.
        tokens_out: Tokens of the answer.
    """

    result: Result
    duration_s: float = 0.0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0


class Policy(Protocol):
    """Picks a session for each attempt.

    A policy is installed under the entry point group `opentela.policies`; its name there is its
    name in the configuration.
    """

    def __init__(self, rng: Rng) -> None:
        """Make a policy that draws from *rng* alone, so that a seed replays its choices."""

    def pick(self, call: Call, candidates: Sequence[Candidate]) -> Candidate:
        """Return one of *candidates*, which are never empty and in order of session id."""

    def on_request_start(self, call: Call, chosen: Candidate) -> None:
        """An attempt at *chosen* begins; it will end exactly once."""

    def on_request_end(self, call: Call, chosen: Candidate, observed: Observed) -> None:
        """That attempt has ended, however it did."""
