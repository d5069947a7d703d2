"""Records to show, made from a few words."""

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
from opentela.testing.sim.keys import said

BORN_MS = 1_800_000_000_000


def record(
    lifecycle: Lifecycle = Lifecycle.SERVING,
    *models: str,
    born_ms: int = BORN_MS,
    ended_ms: int = 0,
    suspected: int = 0,
    site: str = "alps",
    reason: str = "",
    ends_at: float = 0.0,
) -> SessionRecord:
    """Return an unsigned record: who shows it has verified it already."""
    nonce = b"8 bytes."
    claim = Claim(
        session=ids.session_id(born_ms, "UKEY", nonce),
        provider=ProviderId("acme"),
        site=SiteId(site),
        node=NodeId("n1"),
        key="UKEY",
        nonce=nonce,
        born_at_ms=born_ms,
        incarnation=3,
        lifecycle=lifecycle,
        ended_at_ms=ended_ms,
        reason=reason,
        offer=Offer(
            models=tuple(ModelOffer(name=name, context_max=2048) for name in models),
            engine="vllm",
            engine_version="0.11",
            walltime_ends_at=ends_at,
        ),
    )
    signed = SignedClaim(body=CLAIM_ENCODER.encode(claim), signature=b"")
    return SessionRecord(
        signed=signed, witnesses=said(claim, "r1", incarnation=suspected) if suspected else ()
    )
