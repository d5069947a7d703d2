"""Owners of sessions, as tests of whoever hears them need them."""

from typing import Final

import msgspec

from opentela.core import ids
from opentela.core.ids import NodeId, ProviderId, SiteId
from opentela.core.record import (
    CLAIM_ENCODER,
    Claim,
    Lifecycle,
    ModelOffer,
    Offer,
    SessionRecord,
    SignedClaim,
)
from opentela.core.warrant import Signer
from opentela.testing.sim import keys
from opentela.wire.subjects import SessionPath

BORN_AT_MS: Final = 1_800_000_000_000
"""A birth that any test may use; its wall clock then starts at `BORN_AT_MS / 1000`."""


class Owner:
    """One session's owner; each claim has the next incarnation.

    Attributes:
        claim: What it last claimed.
        signed: The same, signed.
    """

    def __init__(
        self,
        signer: Signer,
        *,
        provider: str = "p",
        site: str = "s",
        born_at_ms: int = BORN_AT_MS,
        number: int = 0,
        models: tuple[str, ...] = ("m",),
    ) -> None:
        self._signer = signer
        nonce = number.to_bytes(ids.NONCE_BYTES, "big")
        self.claim = Claim(
            session=ids.session_id(born_at_ms, signer.key, nonce),
            provider=ProviderId(provider),
            site=SiteId(site),
            node=NodeId("node"),
            key=signer.key,
            nonce=nonce,
            born_at_ms=born_at_ms,
            incarnation=1,
            lifecycle=Lifecycle.SERVING,
            offer=Offer(models=tuple(ModelOffer(name=model) for model in models)),
            warrant=keys.warrant(signer.key, provider),
        )
        self.signed = self._sign()

    @property
    def path(self) -> SessionPath:
        """Where the session lives."""
        return SessionPath(self.claim.provider, self.claim.site, self.claim.session)

    @property
    def record(self) -> SessionRecord:
        """What a peer holds that knows nothing else of the session."""
        return SessionRecord(signed=self.signed)

    def say(self, lifecycle: Lifecycle | None = None, **changes: object) -> SignedClaim:
        """Claim something else under the next incarnation."""
        changes.setdefault("incarnation", self.claim.incarnation + 1)
        changes.setdefault("lifecycle", lifecycle or self.claim.lifecycle)
        self.claim = msgspec.structs.replace(self.claim, **changes)
        self.signed = self._sign()
        return self.signed

    def be_warranted(self, issuer: Signer) -> None:
        """Have *issuer*, whom a real mesh trusts, vouch for the key; claim the same again."""
        warrant = keys.warrant(self.claim.key, self.claim.provider, issuer=issuer)
        self.claim = msgspec.structs.replace(self.claim, warrant=warrant)
        self.signed = self._sign()

    def _sign(self) -> SignedClaim:
        body = CLAIM_ENCODER.encode(self.claim)
        return SignedClaim(body=body, signature=self._signer.sign(body))
