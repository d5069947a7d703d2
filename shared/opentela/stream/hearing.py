"""Whether a router process still hears what a session answers it over the mesh.

A frame now and then asks for word when nobody hears it, and the nearest server of the mesh gives
that at once. A router that has died is so found within a second, however long it would be silent.
But a site that is cut off from the hub hears the same of every router: so whoever has that word
also hails the registries, and believes it only while somebody hears the hail.
"""

from enum import Enum
from typing import Final

ASK_EVERY_S: Final = 0.5
"""Between two frames to one router that ask; any that is sent meanwhile does not."""
CONFIRM_S: Final = 0.25
"""After the first word that nobody hears, until the router is asked again; the answer to the hail
is there long before."""
_STALE_S: Final = 2.0
"""Word older than this is no longer the first of two."""


class Hearing(Enum):
    """What to do about a router that was not there."""

    ASK_AGAIN = "ask_again"  # hail the registries now, and ask it again after `CONFIRM_S`
    GONE = "gone"  # nobody reads what is generated for it
    WAIT = "wait"  # asked already


class Hearers:
    """What is known of the routers that do not hear."""

    def __init__(self) -> None:
        self._missed_at: dict[str, float] = {}
        self._cut_off_at = float("-inf")

    def missed(self, now: float, router: str) -> Hearing:
        """Take word that nobody heard a frame to *router*."""
        missed_at = self._missed_at.get(router)
        if missed_at is not None and now < missed_at + CONFIRM_S:
            return Hearing.WAIT
        is_first = missed_at is None or now > missed_at + _STALE_S
        if is_first or (missed_at is not None and self._cut_off_at >= missed_at):
            self._missed_at[router] = now
            return Hearing.ASK_AGAIN
        del self._missed_at[router]
        return Hearing.GONE

    def nobody_hears(self, now: float) -> None:
        """Take word that no registry heard the hail either: it is we who are cut off."""
        self._cut_off_at = now

    def forget(self, router: str) -> None:
        """Forget a router for which nothing runs."""
        self._missed_at.pop(router, None)
