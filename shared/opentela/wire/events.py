"""Lifecycle events: what tools subscribe to. JSON, so that any language reads them."""

from typing import Final, Literal, get_args

import msgspec

from opentela.core.ids import NodeId, ProviderId, SessionId, SiteId

Kind = Literal["JOINING", "SERVING", "DRAINING", "DOWN", "LEFT", "SUSPECTED", "TRUSTED", "CHANGED"]
KINDS: Final = get_args(Kind)
"""The lifecycle, plus what may happen within it: suspicion, its refutation, a changed offer."""


class LifecycleEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`otela.v1.events.<kind>.<p>.<s>.<n>`.

    Attributes:
        id: The same for one change whichever registry tells it, so that readers and JetStream
            drop the repetition: `<session>.<incarnation>.<kind>`.
        kind: What happened.
        at: RFC 3339 time of the telling registry, UTC.
        registry: Who tells.
        provider: Whose session it is.
        site: Where it is.
        session: A ULID.
        node: The host that it runs on.
        incarnation: Of the owner's claim that holds now; rises with each.
        models: Names that the session offers.
        reason: Why, for people.
    """

    id: str
    kind: Kind
    at: str
    registry: str
    provider: ProviderId
    site: SiteId
    session: SessionId
    node: NodeId
    incarnation: int
    models: tuple[str, ...] = ()
    reason: str = ""


ENCODER: Final = msgspec.json.Encoder()
DECODER: Final = msgspec.json.Decoder(LifecycleEvent)
