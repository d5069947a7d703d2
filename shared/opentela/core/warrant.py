"""Whose word a claim is: the mesh vouches for the key that signs it, and anybody can check that.

The mesh's signing key writes a warrant for each provider's credential: this key is this provider's,
at this site, until then. Every claim carries the one of its key. Whoever passes a record on, for
whatever reason, can therefore add nothing to what providers said themselves.

What depends on a clock depends on the claim's, not on the reader's, so that all peers decide alike.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec

from opentela.core.record import Claim, SignedClaim, Warrant

Check: TypeAlias = Callable[[str, bytes, bytes], bool]
"""Whether the holder of a public key signed these bytes: key, body, signature."""

# No server can make a client sign this as its challenge, which is UTF-8; nor is it a JWT's text.
_CONTEXT: Final = b"\xffotela warrant 1\n"
_ENCODER: Final = msgspec.msgpack.Encoder()
_KEPT_MAX: Final = 16_384
"""Warrants that were found good, some 300 B each; beyond it they are checked again, 0.1 ms each."""


def warrant_body(warrant: Warrant, *, key: str, provider: str) -> bytes:
    """Return what the mesh signs: that *key* is *provider*'s, within the limits of *warrant*."""
    return _CONTEXT + _ENCODER.encode((key, provider, warrant.site, warrant.expires_at))


class Authority:
    """Tells a provider's claim from a lie; called, it returns what is wrong with one, or nothing.

    Args:
        issuers: Public keys that this mesh trusts to say whose a key is.
        check: Checks one signature.
    """

    def __init__(self, issuers: Sequence[str], check: Check) -> None:
        self._issuers = tuple(issuers)
        self._check = check
        self._good: dict[tuple[str, str, Warrant], None] = {}

    def __call__(self, claim: Claim, signed: SignedClaim) -> str:
        """Return why *signed*, which says *claim*, is not its provider's word; nothing if it is."""
        warrant = claim.warrant
        if warrant.site and warrant.site != claim.site:
            return f"its key is warranted for site {warrant.site}, not {claim.site}"
        if warrant.expires_at and claim.born_at_ms > warrant.expires_at * 1000:
            return "it was born after its key's warrant expired"
        if not self._is_good(claim):
            return f"nobody whom this mesh trusts says that its key is {claim.provider}'s"
        if not self._check(claim.key, signed.body, signed.signature):
            return "the signature is not its owner's"
        return ""

    def _is_good(self, claim: Claim) -> bool:
        warrant = claim.warrant
        known = (claim.key, claim.provider, warrant)
        if known in self._good:
            return True
        body = warrant_body(warrant, key=claim.key, provider=claim.provider)
        if not any(self._check(issuer, body, warrant.signature) for issuer in self._issuers):
            return False
        if len(self._good) >= _KEPT_MAX:
            del self._good[next(iter(self._good))]
        self._good[known] = None
        return True
