"""Randomness is handed in: whoever draws was given the source, so that a seed replays a run."""

from typing import Protocol


class Rng(Protocol):
    """The part of `random.Random` that the cores use."""

    def random(self) -> float:
        """Return a float in [0, 1)."""

    def randrange(self, stop: int, /) -> int:
        """Return an int in [0, stop)."""

    def randbytes(self, n: int, /) -> bytes:
        """Return *n* random bytes."""
