"""Sessions as the tests of a router need them."""

from collections.abc import Mapping, Sequence

from opentela.core import ids
from opentela.core.ids import NodeId, ProviderId, SessionId, SiteId
from opentela.core.record import (
    CLAIM_ENCODER,
    Claim,
    Lifecycle,
    ModelOffer,
    Offer,
    SessionRecord,
    SignedClaim,
    normal,
)
from opentela.router.directory import Candidate
from opentela.testing.sim.keys import said
from opentela.wire.subjects import SessionPath

NEVER = float("inf")
KEY = "UAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


class Dice:
    """Randomness that a test wrote down."""

    def __init__(self, *draws: float) -> None:
        self._draws = list(draws)

    def random(self) -> float:
        """Return the next draw."""
        return self._draws.pop(0) if self._draws else 0.5

    def randrange(self, stop: int, /) -> int:
        """Return the next draw, which must fit."""
        draw = int(self._draws.pop(0)) if self._draws else 0
        assert 0 <= draw < stop, (draw, stop)
        return draw

    def randbytes(self, n: int, /) -> bytes:
        """Return zeros."""
        return bytes(n)


def candidate(
    session: str,
    *,
    site: str = "alps",
    provider: str = "cscs",
    model: str = "m",
    ends_at: float = NEVER,
    hardware: str = "",
    gpus: int = 0,
    labels: Mapping[str, str] | None = None,
    quantisation: str = "",
    context_max: int = 0,
    fingerprint: str = "",
) -> Candidate:
    """Return a live session named as the test likes."""
    path = SessionPath(ProviderId(provider), SiteId(site), SessionId(session))
    return Candidate(
        session=SessionId(session),
        path=path,
        offer=ModelOffer(
            name=model,
            quantisation=quantisation,
            context_max=context_max,
            fingerprint=fingerprint,
        ),
        fingerprint=fingerprint,
        born_at_ms=1_000,
        terms=Offer(hardware=hardware, gpus=gpus, labels=dict(labels or {})),
        ends_at=ends_at,
    )


def record(
    number: int = 0,
    *,
    models: Sequence[ModelOffer] = (ModelOffer(name="m"),),
    lifecycle: Lifecycle = Lifecycle.SERVING,
    incarnation: int = 1,
    site: str = "alps",
    provider: str = "cscs",
    walltime_ends_at: float = 0.0,
    labels: Mapping[str, str] | None = None,
    suspected: int = 0,
) -> SessionRecord:
    """Return what a router holds of session *number*."""
    born_at_ms, nonce = 1_000_000 + number, number.to_bytes(ids.NONCE_BYTES, "big")
    claim = Claim(
        session=ids.session_id(born_at_ms, KEY, nonce),
        provider=ProviderId(provider),
        site=SiteId(site),
        node=NodeId("n1"),
        key=KEY,
        nonce=nonce,
        born_at_ms=born_at_ms,
        incarnation=incarnation,
        lifecycle=lifecycle,
        offer=Offer(
            models=tuple(models), walltime_ends_at=walltime_ends_at, labels=dict(labels or {})
        ),
    )
    signed = SignedClaim(body=CLAIM_ENCODER.encode(claim), signature=b"")
    witnesses = said(claim, "r1", incarnation=suspected) if suspected else ()
    return normal(SessionRecord(signed=signed, witnesses=witnesses))


def session_of(number: int) -> SessionId:
    """Return the id of session *number*."""
    return ids.session_id(1_000_000 + number, KEY, number.to_bytes(ids.NONCE_BYTES, "big"))
