"""What a policy is: three synchronous methods, called in pairs that always close."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from opentela.core.rng import Rng
from opentela.router.directory import Candidate


class Call(NamedTuple):
    """What a policy may know of a request."""

    model: str
    request: str


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

    def on_request_end(self, call: Call, chosen: Candidate) -> None:
        """That attempt has ended, however it did."""
