"""What a placer decides, does and sees come of it, for tools; JSON, as lifecycle events are."""

from typing import Final, Literal, get_args

import msgspec

from opentela.core.errors import WireError

Kind = Literal[
    "LED", "DEPOSED", "PLANNED", "HELD", "ADOPTED", "START", "STOP", "SERVES", "FREED", "FAILED"
]
KINDS: Final = get_args(Kind)
"""Who leads; what was decided; what is done about it; what came of it."""

AUDIT_BYTES_MAX: Final = 512 * 1024
"""A plan for 500 models in as many groups is a fifth of it."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked of one model lately.

    Attributes:
        rate_rps: Requests a second that are counted.
        refused_rps: Requests a second that were turned away because nobody served the model.
        wanted_rps: What capacity is planned for, bursts included.
        in_tokens: Mean length of prompts; out_tokens of answers.
        cv: Burstiness: variation of the gaps between arrivals; 1 is Poisson.
        capacity_rps: What its replicas can do as the plan has it.
    """

    model: str
    rate_rps: float = 0.0
    refused_rps: float = 0.0
    wanted_rps: float = 0.0
    in_tokens: float = 0.0
    out_tokens: float = 0.0
    cv: float = 1.0
    capacity_rps: float = 0.0


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """Replicas that are alike: how many run, how many there are to be."""

    model: str
    pool: str
    tp: int
    pp: int = 1
    running: int = 0
    planned: int = 0


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`otela.v1.audit.<placer>`.

    Attributes:
        id: A ULID.
        kind: What was decided, done, or seen.
        at: RFC 3339 time of the placer, UTC.
        placer: Who decides.
        term: Of its lease, of a `DEPOSED` that which is over; 0 for one that leads without.
        dry_run: It only says what it would do.
        reason: Why, for people.
        decision: Of a start or a stop: the id of the decision that it carries out; empty where a
            replica is stopped because it failed.
        command: The ULID of the `Start` that a replica was made by.
        model: Of that replica.
        provider: Whose agent runs it; site and agent: which one.
        pool: Where that agent belongs.
        asked: With a decision: the demand that it is for.
        placed: With a decision: what runs, and what shall.
        notes: With a decision: what stands in its way.
    """

    id: str
    kind: Kind
    at: str
    placer: str
    term: int = 0
    dry_run: bool = False
    reason: str = ""
    decision: str = ""
    command: str = ""
    model: str = ""
    provider: str = ""
    site: str = ""
    agent: str = ""
    pool: str = ""
    asked: tuple[Asked, ...] = ()
    placed: tuple[Placed, ...] = ()
    notes: tuple[str, ...] = ()


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(AuditEvent).decode


def encode(event: AuditEvent) -> bytes:
    """Return the bytes of an event."""
    return _encode(event)


def read_audit(payload: bytes) -> AuditEvent:
    """Return the event in *payload*.

    Raises:
        WireError: Too large, or no event of ours.
    """
    if len(payload) > AUDIT_BYTES_MAX:
        raise WireError(f"an audit event of {len(payload)} bytes is too large")
    try:
        return _decode(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise WireError(str(error)) from error
