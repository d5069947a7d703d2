"""Who may serve a request, best tier first: wishes are kept, everything else is preference."""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from opentela.router.directory import Candidate, Pool


class Wish(msgspec.Struct, frozen=True):
    """What the client insists on, from its headers; empty wishes nothing.

    Attributes:
        sites: `x-otela-site`, names separated by commas.
        providers: `x-otela-provider`, the same.
    """

    sites: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()

    def admits(self, candidate: Candidate) -> bool:
        """Return whether *candidate* is what the client insists on."""
        return (not self.sites or candidate.site in self.sites) and (
            not self.providers or candidate.provider in self.providers
        )

    def __str__(self) -> str:
        named = (("site", self.sites), ("provider", self.providers))
        return ", ".join(f"{name} {' or '.join(values)}" for name, values in named if values)


NO_WISH: Final = Wish()


def admitted(pool: Pool, wish: Wish, tried: Collection[str] = ()) -> Sequence[Candidate]:
    """Return the candidates that *wish* admits and that were not tried."""
    if wish is NO_WISH and not tried:
        return pool.candidates
    return [
        candidate
        for candidate in pool.candidates
        if candidate.session not in tried and wish.admits(candidate)
    ]


def best_tier(
    candidates: Sequence[Candidate],
    *,
    ejected: Collection[str],
    ends_first_at: float,
    ends_before: float,
) -> Sequence[Candidate]:
    """Return the candidates to pick from: lasting and sound ones, or what comes nearest.

    Args:
        candidates: Who may serve.
        ejected: Sessions to take last.
        ends_first_at: The first end of an allocation among the candidates, or earlier.
        ends_before: Allocations that end before this instant are a last resort.
    """
    if not ejected and ends_first_at >= ends_before:
        return candidates
    sound = [one for one in candidates if one.session not in ejected]
    lasting = [one for one in sound if one.ends_at >= ends_before]
    # An allocation about to end still answers; an ejected session probably does not.
    return lasting or sound or candidates
