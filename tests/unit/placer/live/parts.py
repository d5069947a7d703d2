"""Claims, requests and configurations that tests of the live placer share."""

from typing import Any

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
)
from opentela.placer.live.config import (
    DemandConfig,
    ModelConfig,
    MoveConfig,
    PlacerConfig,
    PlanConfig,
)
from opentela.wire import command
from opentela.wire.usage import UsageRecord

KEY = "UAH2P6TRYQ5SFPLGHJ7TBSBNWWFZ3F5QPQSC4JBGJ2QVWBS5WAVQHTQ7"
TEMPLATE = "fake"
QUICK = PlanConfig(every_s=5.0, cool_down_s=4.0, wait_max_s=0.0)
CALM = PlanConfig(every_s=5.0, cool_down_s=60.0, wait_max_s=0.0)
MOVES = MoveConfig(
    look_s=2.0, silent_s=4.0, retry_s=0.5, command_s=4.0, start_s=20.0, backoff_s=4.0, ends_s=30.0
)


def config(*names: str, **changes: Any) -> PlacerConfig:
    """Return the configuration of a placer in a hurry, of models that serve two a second."""
    models = tuple(
        ModelConfig(name=name, template=TEMPLATE, capacity_rps=2.0, load_s=5.0) for name in names
    )
    given: dict[str, Any] = {
        "access": "none",
        "models": models,
        "demand": DemandConfig(window_s=30.0, fast_s=5.0, learn_s=0.0),
        "plan": QUICK,
        "moves": MOVES,
    }
    return PlacerConfig(**(given | changes))


def used(
    model: str, *, status: int = 200, tokens_in: int = 100, tokens_out: int = 50
) -> UsageRecord:
    """Return the record of a request."""
    return UsageRecord(
        id="i",
        request="r",
        at_ms=0,
        router="router1",
        model=model,
        path="/v1/chat/completions",
        status=status,
        outcome="ok" if status == 200 else "rejected",
        attempts=1,
        tokens_in=tokens_in if status == 200 else 0,
        tokens_out=tokens_out if status == 200 else 0,
        duration_s=1.0,
    )


def session(number: int) -> SessionId:
    """Return the id of a session."""
    return ids.session_id(1_800_000_000_000 + number, KEY, number.to_bytes(8, "big"))


def record(
    number: int,
    offer: Offer,
    lifecycle: Lifecycle = Lifecycle.SERVING,
    *,
    site: str = "a",
    provider: str = "p",
) -> SessionRecord:
    """Return what a view holds of session *number*."""
    claim = Claim(
        session=session(number),
        provider=ProviderId(provider),
        site=SiteId(site),
        node=NodeId("n"),
        key=KEY,
        nonce=number.to_bytes(8, "big"),
        born_at_ms=1_800_000_000_000 + number,
        incarnation=int(lifecycle),
        lifecycle=lifecycle,
        offer=offer,
    )
    return SessionRecord(signed=SignedClaim(body=CLAIM_ENCODER.encode(claim), signature=b""))


def agent(
    number: int, lifecycle: Lifecycle = Lifecycle.SERVING, *, ends_at: float = 0.0, site: str = "a"
) -> SessionRecord:
    """Return what a view holds of an agent."""
    offer = Offer(engine=command.ENGINE, hardware="cpu", walltime_ends_at=ends_at)
    return record(number, offer, lifecycle, site=site)


def engine(
    number: int,
    *models: str,
    made_by: str = "",
    lifecycle: Lifecycle = Lifecycle.SERVING,
    provider: str = "p",
) -> SessionRecord:
    """Return what a view holds of an engine."""
    offer = Offer(
        models=tuple(ModelOffer(name=model) for model in models),
        engine="openai",
        hardware="cpu",
        gpus=1,
        labels={command.COMMAND: made_by} if made_by else {},
    )
    return record(number, offer, lifecycle, provider=provider)
