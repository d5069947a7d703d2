"""What a peer knows of one session, and how two copies of it become one.

A record is a product of join-semilattices, so that any order, repetition or loss-then-repair of
deltas ends in the same record everywhere:

==============  =========================  ==========================================
part            join                       written by
==============  =========================  ==========================================
claim           greater incarnation        the owner alone, signed with its key
lifecycle       the greater                the owner's claims; registries (only `LEFT`)
end             the later                  whoever said `DOWN` or `LEFT`
witnesses       union, per incarnation     registries, one name each
suspected       greater incarnation        the registry that saw a quorum of witnesses
==============  =========================  ==========================================

Lifecycle and end are mostly what the claim says. `verdict` and `ended_at_ms` hold them only where
they are beyond the claim: an eviction, or an owner that claims less than it once did. So equal
records are equal bytes. The owner refutes a suspicion by claiming under a greater incarnation,
and what is refuted is dropped: it could only ever lose against what may still come.
Join-semilattices as replicated types: Shapiro et al., "Conflict-free Replicated Data Types", 2011.
"""

from enum import IntEnum
from functools import lru_cache
from typing import Final

import msgspec

from opentela.core import ids
from opentela.core.errors import ForgedRecordError, WireError
from opentela.core.ids import NodeId, ProviderId, SessionId, SiteId

CLAIM_BYTES_MAX = 32 * 1024
"""A claim larger than this is rejected: sixteen adapters and a long label set fit into 4 KiB."""
_CLAIMS_CACHED_MAX: Final = 16_384
"""Decoded claims kept by `claim_of`, some 2 KB each; beyond it a look-up costs 5 µs again."""


class Lifecycle(IntEnum):
    """Order is meaning: joining two copies keeps the greater, and nothing comes back."""

    JOINING = 1
    SERVING = 2
    DRAINING = 3
    DOWN = 4
    LEFT = 5


class ModelOffer(msgspec.Struct, frozen=True, kw_only=True):
    """One model that a session answers for, as read from its engine.

    Attributes:
        name: The id under `/v1/models`, for example `Qwen/Qwen3-8B`.
        aliases: Further names that requests may use.
        context_max: Prompt and answer together, tokens; 0 when the engine does not say.
        quantisation: Such as `fp8` or `q4_1`; empty when unknown.
        fingerprint: Hash of what decides the answers; equal means interchangeable; empty = unknown.
    """

    name: str
    aliases: tuple[str, ...] = ()
    context_max: int = 0
    quantisation: str = ""
    fingerprint: str = ""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What a session offers.

    Attributes:
        models: Every model and adapter that the engine lists.
        engine: `vllm`, `sglang`, `llamacpp` or `openai`.
        engine_version: As the engine reports it.
        hardware: GPU name, or `cpu`.
        gpus: GPUs that this session holds.
        walltime_ends_at: Unix seconds at which the allocation ends; 0 when it does not.
        labels: Free words of the provider, such as `tier = "a"`.
    """

    models: tuple[ModelOffer, ...] = ()
    engine: str = ""
    engine_version: str = ""
    hardware: str = ""
    gpus: int = 0
    walltime_ends_at: float = 0.0
    labels: dict[str, str] = {}


class Warrant(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What the mesh says of a provider's key; `core/warrant.py` checks it.

    Attributes:
        site: The only site whose sessions it may claim; empty when any.
        expires_at: Unix seconds; what is born later is not claimed with it. 0 for never.
        signature: Of the mesh's signing key, over this, the key and its provider.
    """

    site: str = ""
    expires_at: int = 0
    signature: bytes = b""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner says of its session; unknown fields of newer owners are kept, unread.

    Attributes:
        key: The owner's public NKey; with `born_at_ms` and `nonce` it determines `session`.
        incarnation: Raised by the owner with every change; 1 at birth.
        ended_at_ms: Unix milliseconds of going `DOWN` or `LEFT`; 0 before.
        reason: Why it is `DRAINING`, `DOWN` or `LEFT`, for people.
        warrant: The mesh's word that `key` is this provider's.
    """

    session: SessionId
    provider: ProviderId
    site: SiteId
    node: NodeId
    key: str
    nonce: bytes
    born_at_ms: int
    incarnation: int
    lifecycle: Lifecycle
    offer: Offer = Offer()
    ended_at_ms: int = 0
    reason: str = ""
    warrant: Warrant = Warrant()


class SignedClaim(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The owner's bytes as it signed them: peers of other versions pass them on unchanged."""

    body: bytes
    signature: bytes


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a peer holds of one session.

    Attributes:
        verdict: The lifecycle reached, where it is beyond the claim's; else `JOINING`.
        ended_at_ms: The end in Unix milliseconds, where it is later than the claim's; else 0.
        suspected: Greatest incarnation that a quorum of witnesses could not reach; 0 = none.
        witnesses_of: Incarnation that `witnesses` speak of.
        witnesses: Registries that cannot reach the session, sorted.
    """

    signed: SignedClaim
    verdict: Lifecycle = Lifecycle.JOINING
    ended_at_ms: int = 0
    suspected: int = 0
    witnesses_of: int = 0
    witnesses: tuple[str, ...] = ()


CLAIM_ENCODER = msgspec.msgpack.Encoder()
CLAIM_DECODER = msgspec.msgpack.Decoder(Claim)


def read_claim(body: bytes) -> Claim:
    """Return the claim in *body*, checked for everything but its signature.

    Raises:
        WireError: The bytes are no claim, are too many, or name an unknown lifecycle.
        ForgedRecordError: The session id does not follow from the key.
    """
    if len(body) > CLAIM_BYTES_MAX:
        raise WireError(f"a claim of {len(body)} bytes exceeds {CLAIM_BYTES_MAX}")
    try:
        claim = CLAIM_DECODER.decode(body)
        expected = ids.session_id(claim.born_at_ms, claim.key, claim.nonce)
    except (msgspec.DecodeError, RecursionError, AssertionError) as error:
        raise WireError(f"not a claim: {error}") from error
    if claim.session != expected:
        raise ForgedRecordError(f"session {claim.session} does not belong to key {claim.key}")
    return claim


@lru_cache(maxsize=_CLAIMS_CACHED_MAX)
def _decoded(body: bytes) -> Claim:
    return CLAIM_DECODER.decode(body)


def claim_of(record: SessionRecord) -> Claim:
    """Return what the owner says in *record*, decoded once."""
    return _decoded(record.signed.body)


def lifecycle_of(record: SessionRecord) -> Lifecycle:
    """Return how far the session is, by the owner's word or the registries'."""
    return max(claim_of(record).lifecycle, record.verdict)


def is_suspected(record: SessionRecord) -> bool:
    """Return whether a quorum of registries cannot reach the session and it has not refuted."""
    return record.suspected >= claim_of(record).incarnation


def is_routable(record: SessionRecord) -> bool:
    """Return whether requests may be sent to the session."""
    return lifecycle_of(record) is Lifecycle.SERVING and not is_suspected(record)


def ended_at_ms(record: SessionRecord) -> int:
    """Return when the session ended, 0 if it has not; never before its birth, whoever says so."""
    if lifecycle_of(record) < Lifecycle.DOWN:
        return 0
    return max(claim_of(record).born_at_ms, _latest_end(record))


def normal(record: SessionRecord) -> SessionRecord:
    """Return the one way to write what *record* says; `merge` expects and returns it."""
    claim = claim_of(record)
    # What is held against the gone, or was refuted, is held no more: a peer that never heard of it
    # has the same record.
    has_left = lifecycle_of(record) is Lifecycle.LEFT
    is_suspect = record.suspected >= claim.incarnation and not has_left
    is_witnessed = record.witnesses_of >= claim.incarnation and not has_left
    written = SessionRecord(
        signed=record.signed,
        verdict=record.verdict if record.verdict > claim.lifecycle else Lifecycle.JOINING,
        ended_at_ms=record.ended_at_ms if record.ended_at_ms > claim.ended_at_ms else 0,
        suspected=record.suspected if is_suspect else 0,
        witnesses_of=record.witnesses_of if is_witnessed else 0,
        witnesses=tuple(sorted(frozenset(record.witnesses))) if is_witnessed else (),
    )
    return record if written == record else written


def merge(mine: SessionRecord, theirs: SessionRecord) -> SessionRecord:
    """Return the join of two records of one session, *mine* itself when it gains nothing."""
    if theirs == mine:
        return mine
    witnesses_of = max(mine.witnesses_of, theirs.witnesses_of)
    joined = normal(
        SessionRecord(
            signed=max(mine.signed, theirs.signed, key=_claim_order),
            verdict=max(lifecycle_of(mine), lifecycle_of(theirs)),
            ended_at_ms=max(_latest_end(mine), _latest_end(theirs)),
            suspected=max(mine.suspected, theirs.suspected),
            witnesses_of=witnesses_of,
            witnesses=tuple(
                witness
                for record in (mine, theirs)
                if record.witnesses_of == witnesses_of
                for witness in record.witnesses
            ),
        )
    )
    # Identity is what "nothing changed" is tested by, so an equal join is the very object.
    return mine if joined == mine else joined


def _latest_end(record: SessionRecord) -> int:
    return max(claim_of(record).ended_at_ms, record.ended_at_ms)


def _claim_order(signed: SignedClaim) -> tuple[int, bytes, bytes]:
    # An honest owner never signs two bodies under one incarnation; if one does, bytes decide
    # the same way everywhere.
    return _decoded(signed.body).incarnation, signed.body, signed.signature
