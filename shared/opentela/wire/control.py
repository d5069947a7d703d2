"""Control messages: records, heartbeats, probes, verdicts, snapshots and digests, as msgpack.

Unknown fields are ignored and unknown kinds raise `WireError`, which receivers count and drop:
a node of one version works beside its neighbours of the next. A field is only ever added with a
default; a tag is never used again for something else.
"""

from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from opentela.core.errors import WireError
from opentela.core.ids import SessionId
from opentela.core.record import SessionRecord, SignedClaim, Statement, Warrant

CONTROL_BYTES_MAX: Final = 512 * 1024
"""No control message is larger; senders page, receivers reject. Half of NATS's default payload."""
BEAT_EVERY_S: Final = 1.0
"""How often a session beats. Death is noticed up to two of these later, and
each costs a node some 140 B on the wire: 1 s keeps both under their targets of 2 s and 0.6 KB/s."""


class Delta(msgspec.Struct, frozen=True, kw_only=True, tag="delta", tag_field="kind"):
    """`otela.v1.delta.<p>.<s>.<n>`: the owner announces or changes its session."""

    signed: SignedClaim


class Beat(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """`otela.v1.beat.<p>.<s>.<n>`: the session's own voice; 100 bytes at most.

    Attributes:
        incarnation: Of the claim that the owner last published: a registry that knows less asks.
        running: Requests in the engine.
        waiting: Requests queued in the engine.
        kv_used: Share of KV memory in use, 0 to 1; negative when the engine does not say.
        every_s: The next beat comes after this long; registries need no setting for it.
    """

    incarnation: int
    running: int = 0
    waiting: int = 0
    kv_used: float = -1.0
    every_s: float = BEAT_EVERY_S


class Probe(msgspec.Struct, frozen=True, kw_only=True, tag="probe", tag_field="kind"):
    """`otela.v1.probe.<p>.<s>.<n>`: answer with `ProbeReply` on the reply subject.

    Attributes:
        sequence: Repeated in the answer.
        suspected: Incarnation that somebody holds suspected. An owner that has claimed no greater
            one refutes first: it claims again, publishes that, and answers with it.
    """

    sequence: int
    suspected: int = 0


class ProbeReply(msgspec.Struct, frozen=True, kw_only=True, tag="probe_reply", tag_field="kind"):
    """The owner's answer; carries its claim, so that a probe also repairs a lost delta."""

    sequence: int
    signed: SignedClaim


class Advice(msgspec.Struct, frozen=True, kw_only=True, tag="advice", tag_field="kind"):
    """`otela.v1.advice.<p>.<s>.<n>`: what a scheduler knows of a session, out of the band.

    Attributes:
        alive: Whether its job runs; it is believed for a while, and no longer than its beats allow.
        reason: Why not, for people.
    """

    alive: bool
    reason: str = ""


class Sighting(msgspec.Struct, frozen=True, kw_only=True, tag="sighting", tag_field="kind"):
    """`otela.v1.sighting.<p>.<s>.<n>`: requests of *router* to the session fail: look at it."""

    router: str


class Verdict(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag="verdict",
    tag_field="kind",
    rename={"witnesses": "against"},
):
    """`otela.v1.verdict.<p>.<s>.<n>`: what registries hold against a session, each for itself.

    The owner that finds its incarnation or a greater one in `witnesses`, and lives, refutes by
    claiming under one greater than all of them; so it does with the `ending` of one registry alone.
    An owner that finds another ending has lost this session for good: if its engine lives, it joins
    as a new one.

    Attributes:
        registry: Who publishes it; what counts is who signed what is in it.
        witnesses, ending: As in a record.
    """

    registry: str
    session: SessionId
    witnesses: tuple[Statement, ...] = ()
    ending: tuple[Statement, ...] = ()

    @property
    def held(self) -> int:
        """The greatest incarnation that somebody cannot reach; 0 if nobody says so."""
        return max((one.incarnation for one in (*self.witnesses, *self.ending)), default=0)


class PageAsk(msgspec.Struct, frozen=True, kw_only=True, tag="page_ask", tag_field="kind"):
    """`otela.v1.snapshot`: the records after *after*, in order of session id."""

    after: SessionId = SessionId("")


class Page(msgspec.Struct, frozen=True, kw_only=True, tag="page", tag_field="kind"):
    """A page of a snapshot.

    Attributes:
        more: Whether another page follows.
        cut_ms: The registry forgot what ended at or before this; Unix milliseconds.
        horizon_ms: The latest birth among the forgotten: an older id that is not held has `LEFT`.
    """

    registry: str
    records: tuple[SessionRecord, ...] = ()
    more: bool = False
    cut_ms: int = 0
    horizon_ms: int = 0


class DigestAsk(msgspec.Struct, frozen=True, kw_only=True, tag="digest_ask", tag_field="kind"):
    """Hashes of what the asker holds below *prefix*, one for each child bucket.

    `otela.v1.gossip.<registry>` between registries, `otela.v1.snapshot` from routers and placers.
    The map is a trie over a hash of the session id with `FANOUT` children a level (see
    `core/digest.py`): the size of a digest does not depend on the size of the map.

    Attributes:
        prefix: Path of a bucket, one byte a level.
        cut_ms: As in `Page`: the other side forgets as much, so that the two come to agree.
    """

    asker: str
    prefix: bytes = b""
    hashes: tuple[int, ...] = ()
    cut_ms: int = 0


class Leaves(msgspec.Struct, frozen=True, kw_only=True, tag="leaves", tag_field="kind"):
    """Session ids and record hashes below *prefix*: small enough to name one by one."""

    asker: str
    prefix: bytes = b""
    hashes: dict[SessionId, int] = {}
    cut_ms: int = 0


class Repair(msgspec.Struct, frozen=True, kw_only=True, tag="repair", tag_field="kind"):
    """What the asker lacks or holds differently, and where to look further.

    Attributes:
        records: For the asker to merge.
        descend: Prefixes whose digests differ and that hold too many records to send.
        wanted: Sessions that the answerer lacks or holds differently.
        cut_ms: As in `Page`.
    """

    registry: str
    records: tuple[SessionRecord, ...] = ()
    descend: tuple[bytes, ...] = ()
    wanted: tuple[SessionId, ...] = ()
    cut_ms: int = 0


class Records(msgspec.Struct, frozen=True, kw_only=True, tag="records", tag_field="kind"):
    """Records sent because the other side wants them; needs no answer.

    `otela.v1.gossip.<registry>` between registries. On `otela.v1.relay`, from routers and placers,
    registries take only what owners have signed.
    """

    sender: str
    records: tuple[SessionRecord, ...] = ()


class Presence(
    msgspec.Struct, frozen=True, kw_only=True, tag="presence", tag_field="kind", omit_defaults=True
):
    """`otela.v1.registries`: a registry is there, once a gossip round, or leaves.

    Attributes:
        instance: Random, one a process: two that go by one name find out.
        leaving: It stops in order. Nobody waits for it, as one would for a registry that is silent.
        key: Its public NKey.
        warrant: The mesh's word that the key is this registry's, and where it is.
        signature: Over name, instance and whether it leaves.
    """

    registry: str
    instance: str = ""
    leaving: bool = False
    key: str = ""
    warrant: Warrant = Warrant()
    signature: bytes = b""


SnapshotAsk: TypeAlias = PageAsk | DigestAsk | Leaves
SnapshotAnswer: TypeAlias = Page | Repair
Gossip: TypeAlias = DigestAsk | Leaves | Repair | Records

MessageT = TypeVar("MessageT")
_ENCODER: Final = msgspec.msgpack.Encoder()


class Reader(Generic[MessageT]):
    """Reads one kind of message, or says in one way what is wrong with the bytes."""

    def __init__(self, form: object) -> None:
        self._decode = msgspec.msgpack.Decoder(form).decode

    def __call__(self, payload: bytes) -> MessageT:
        """Return the message in *payload*.

        Raises:
            WireError: Too large, not msgpack, or no message that belongs here.
        """
        if len(payload) > CONTROL_BYTES_MAX:
            raise WireError(f"a control message of {len(payload)} bytes is too large")
        try:
            message: MessageT = self._decode(payload)
        except (msgspec.DecodeError, RecursionError) as error:
            # The latter even in a field that nobody here knows, and so skips.
            raise WireError(str(error)) from error
        return message


def encode(message: msgspec.Struct) -> bytes:
    """Return the bytes of a control message."""
    return _ENCODER.encode(message)


read_delta: Final = Reader[Delta](Delta)
read_beat: Final = Reader[Beat](Beat)
read_probe: Final = Reader[Probe](Probe)
read_probe_reply: Final = Reader[ProbeReply](ProbeReply)
read_advice: Final = Reader[Advice](Advice)
read_sighting: Final = Reader[Sighting](Sighting)
read_verdict: Final = Reader[Verdict](Verdict)
read_snapshot_ask: Final = Reader[SnapshotAsk](SnapshotAsk)
read_snapshot_answer: Final = Reader[SnapshotAnswer](SnapshotAnswer)
read_page: Final = Reader[Page](Page)
read_repair: Final = Reader[Repair](Repair)
read_relay: Final = Reader[Records](Records)
read_presence: Final = Reader[Presence](Presence)
read_gossip: Final = Reader[Gossip](Gossip)
