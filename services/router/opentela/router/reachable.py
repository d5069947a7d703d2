"""Whether and where a session may be dialled: what its claim offers, and this router trusts.

A claim is its provider's word, and may name any address there is. So a router dials only sessions
of sites that its operator named, and those that show to be on its own host; loopback addresses only
on the latter, and others only under TLS.
"""

from collections.abc import Collection
from typing import Final

from opentela.core.record import Door

ADDRESSES_MAX: Final = 4
"""Of one offer that are tried."""
_EVERY: Final = "*"


def addresses(
    door: Door | None,
    *,
    site: str,
    sites: Collection[str],
    is_same_host: bool,
) -> tuple[str, ...]:
    """Return the addresses to try, in order.

    Args:
        door: What the session offers.
        site: Where it says it is.
        sites: Those whose sessions are dialled; `*` is every one.
        is_same_host: It has shown that it is on this host.
    """
    if door is None or not (is_same_host or site in sites or _EVERY in sites):
        return ()
    allowed = [
        one
        for one in door.addresses
        if (is_same_host if _is_loopback(one) else bool(door.certificate))
    ]
    return tuple(allowed[:ADDRESSES_MAX])


def _is_loopback(address: str) -> bool:
    """Return whether *address* is loopback as it stands; names but one are taken as others."""
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]").lower()
    host = host.removeprefix("::ffff:")
    is_this_host = host in {"localhost", "::1", "::", "0", ""}
    return is_this_host or host.startswith(("127.", "0.")) or host.endswith(".localhost")
