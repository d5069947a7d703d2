"""What a peer knows of one session, and how two copies of it become one.

A record is a product of join-semilattices, so that any order, repetition or loss-then-repair of
deltas ends in the same record everywhere:

==============  =======================================  =============================
part            join                                     signed by
==============  =======================================  =============================
claim           greater lifecycle, then incarnation      the owner alone
witnesses       union, of the latest claim spoken of     each registry for itself
ending          the better supported, then the later     each registry for itself
==============  =======================================  =============================

Nothing in a record is anybody's word but the one's who signed it: whoever passes it on can withhold
and not invent. A session is suspected once the witnesses of its present claim are as many as one of
them asks for; the owner refutes that by claiming under a greater incarnation, and what is refuted
is dropped: it could only ever lose against what may still come. An ending is a registry's word that
the session has left, with those who could not reach it either. From `FINAL` registries on it cannot
be taken back; one alone may lie, or be cut off, and is refuted as a suspicion is.
Equal records are equal bytes.
Join-semilattices as replicated types: Shapiro et al., "Conflict-free Replicated Data Types", 2011.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Final

import msgspec

from opentela.core import ids
from opentela.core.errors import ForgedRecordError, WireError
from opentela.core.ids import NodeId, ProviderId, SessionId, SiteId

CLAIM_BYTES_MAX = 32 * 1024
"""A claim larger than this is rejected: sixteen adapters and a long label set fit into 4 KiB."""
FINAL: Final = 2
"""Registries that end a session for good, whatever its owner says."""
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


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """Where routers may dial a session, whose key then proves that it is the session.

    Attributes:
        addresses: `host:port`, to be tried in order.
        certificate: SHA-256 of the certificate that it shows, in hex; empty where it uses no TLS.
        host: What only who is on the same host can tell of it; empty when not known.
    """

    addresses: tuple[str, ...]
    certificate: str = ""
    host: str = ""


class Parallelism(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine's work is spread over its GPUs; 0 where it does not say.

    Attributes:
        tensor: Parts of each layer.
        pipeline: Groups of layers.
        data: Copies of all of them.
    """

    tensor: int = 0
    pipeline: int = 0
    data: int = 0


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
        kv_tokens: What its KV memory holds, of all requests together; 0 when it does not say.
        parallelism: How it uses its GPUs.
        door: Where it can be dialled; None for nowhere.
    """

    models: tuple[ModelOffer, ...] = ()
    engine: str = ""
    engine_version: str = ""
    hardware: str = ""
    gpus: int = 0
    walltime_ends_at: float = 0.0
    labels: dict[str, str] = {}
    door: Door | None = None
    kv_tokens: int = 0
    parallelism: Parallelism = Parallelism()


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


class Statement(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What one registry says of a session; `core/warrant.py` signs and checks it.

    Attributes:
        registry: Who says it.
        key: Its public NKey.
        warrant: The mesh's word that the key is this registry's, at its site.
        lifecycle, incarnation: Of the claim that it speaks of; `LEFT` of one long forgotten.
        quorum: Registries that must agree, as far as it knows who is there.
        sites: Sites at which these must be.
        ended_at_ms: 0 when it says that it cannot reach the session; else that it has left, when.
    """

    registry: str
    key: str = ""
    warrant: Warrant = Warrant()
    lifecycle: Lifecycle = Lifecycle.SERVING
    incarnation: int = 1
    quorum: int = 1
    sites: int = 1
    ended_at_ms: int = 0
    signature: bytes = b""


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True, rename={"witnesses": "against"}):
    """What a peer holds of one session.

    Attributes:
        witnesses: Of registries that cannot reach it, one each, sorted by name.
        ending: What says that it has left although its owner does not: at least one statement with
            a time, and those that support it; one each, sorted by name.
    """

    signed: SignedClaim
    witnesses: tuple[Statement, ...] = ()
    ending: tuple[Statement, ...] = ()


CLAIM_ENCODER = msgspec.msgpack.Encoder()
CLAIM_DECODER = msgspec.msgpack.Decoder(Claim)
_STATEMENT_ENCODER: Final = msgspec.msgpack.Encoder()


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
    return Lifecycle.LEFT if record.ending else claim_of(record).lifecycle


def names_of(statements: Iterable[Statement]) -> tuple[str, ...]:
    """Return who says it."""
    return tuple(statement.registry for statement in statements)


def support_of(statements: Iterable[Statement]) -> int:
    """Return how many registries say it."""
    return len(frozenset(names_of(statements)))


def agree(statements: Sequence[Statement]) -> bool:
    """Return whether they are as many, at as many sites, as one of them asks for."""
    names = support_of(statements)
    sites = len({statement.warrant.site for statement in statements})
    return any(names >= one.quorum and sites >= one.sites for one in statements)


def is_suspected(record: SessionRecord) -> bool:
    """Return whether a quorum of registries cannot reach the session and it has not refuted."""
    return bool(record.witnesses) and agree(record.witnesses)


def is_routable(record: SessionRecord) -> bool:
    """Return whether requests may be sent to the session."""
    return lifecycle_of(record) is Lifecycle.SERVING and not is_suspected(record)


def is_final(ending: Sequence[Statement]) -> bool:
    """Return whether an ending is for good: by several, or of a session long forgotten."""
    return support_of(ending) >= FINAL or any(one.lifecycle is Lifecycle.LEFT for one in ending)


def is_refuted(ending: Sequence[Statement], claim: Claim) -> bool:
    """Return whether an owner that claims this has taken an ending back."""
    latest = max(map(claim_meant, ending), default=(Lifecycle.LEFT, 0))
    return latest < (claim.lifecycle, claim.incarnation) and not is_final(ending)


def held_against(record: SessionRecord) -> int:
    """Return the greatest incarnation that a registry cannot reach; 0 if all of them can."""
    return max((statement.incarnation for statement in record.witnesses), default=0)


def ended_at_ms(record: SessionRecord) -> int:
    """Return when the session ended, 0 if it has not; never before its birth, whoever says so."""
    claim = claim_of(record)
    if lifecycle_of(record) < Lifecycle.DOWN:
        return 0
    ends = (statement.ended_at_ms for statement in record.ending)
    return max(claim.born_at_ms, claim.ended_at_ms, *ends)


def normal(record: SessionRecord) -> SessionRecord:
    """Return the one way to write what *record* says; `merge` expects and returns it."""
    claim = claim_of(record)
    # What is held against the gone, or was refuted, is held no more: a peer that never heard of it
    # has the same record.
    has_left = claim.lifecycle is Lifecycle.LEFT
    ending = _each_once(record.ending) if record.ending else ()
    if has_left or is_refuted(ending, claim):
        ending = ()
    is_over = has_left or is_final(ending)
    # Most records have none: routers merge them by the thousand.
    witnesses = () if is_over or not record.witnesses else _witnesses(record.witnesses, claim)
    if witnesses == record.witnesses and ending == record.ending:
        return record
    return SessionRecord(signed=record.signed, witnesses=witnesses, ending=ending)


def merge(mine: SessionRecord, theirs: SessionRecord) -> SessionRecord:
    """Return the join of two records of one session, *mine* itself when it gains nothing."""
    if theirs == mine:
        return mine
    joined = normal(
        SessionRecord(
            signed=max(mine.signed, theirs.signed, key=_claim_order),
            witnesses=mine.witnesses + theirs.witnesses,
            ending=max(mine.ending, theirs.ending, key=_ending_order),
        )
    )
    # Identity is what "nothing changed" is tested by, so an equal join is the very object.
    return mine if joined == mine else joined


def _witnesses(statements: Sequence[Statement], claim: Claim) -> tuple[Statement, ...]:
    """Return those that speak of the latest claim, if that is not older than *claim*."""
    latest = max(claim_meant(statement) for statement in statements)
    if latest < (claim.lifecycle, claim.incarnation):
        return ()
    return _each_once([one for one in statements if claim_meant(one) == latest])


def _each_once(statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """Return one statement a registry: the one that asks for least, as it was last said."""
    chosen: dict[str, Statement] = {}
    for one in statements:
        other = chosen.get(one.registry)
        if other is None or _statement_order(one) < _statement_order(other):
            chosen[one.registry] = one
    return tuple(chosen[name] for name in sorted(chosen))


def claim_meant(statement: Statement) -> tuple[Lifecycle, int]:
    """Return which claim it speaks of; later ones are greater."""
    return statement.lifecycle, statement.incarnation


def _statement_order(statement: Statement) -> tuple[int, int, bytes]:
    return statement.quorum, statement.sites, _STATEMENT_ENCODER.encode(statement)


def _ending_order(ending: tuple[Statement, ...]) -> tuple[int, tuple[Lifecycle, int], bytes]:
    if not ending:
        return 0, (Lifecycle.JOINING, 0), b""
    meant = max(claim_meant(statement) for statement in ending)
    return support_of(ending), meant, _STATEMENT_ENCODER.encode(ending)


def _claim_order(signed: SignedClaim) -> tuple[Lifecycle, int, bytes, bytes]:
    # An honest owner's lifecycle and incarnation rise together, and it never signs two bodies
    # under one; of one that does not, everybody believes the same: that it is as far as it ever
    # said, whatever it says later.
    claim = _decoded(signed.body)
    return claim.lifecycle, claim.incarnation, signed.body, signed.signature
