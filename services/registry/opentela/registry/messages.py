"""What a registry is told and what it does about it: all of its outside, as values."""

from typing import TypeAlias

import msgspec

from opentela.core.ids import ProviderId, SessionId
from opentela.core.record import SessionRecord, SignedClaim
from opentela.core.refusal import Rejection
from opentela.wire.control import (
    Advice,
    Beat,
    Gossip,
    Page,
    PageAsk,
    Presence,
    Probe,
    ProbeReply,
    Records,
    Repair,
    Sighting,
    SnapshotAsk,
    Verdict,
)
from opentela.wire.events import LifecycleEvent
from opentela.wire.subjects import SessionPath

# Events ----------------------------------------------------------------------


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """The map of an earlier life of this registry was read from its file; comes first if at all."""

    records: tuple[SessionRecord, ...]
    cut_ms: int
    horizon_ms: int


class DeltaHeard(msgspec.Struct, frozen=True, kw_only=True):
    """An owner published a claim over the subject of *path*."""

    path: SessionPath
    signed: SignedClaim


class BeatHeard(msgspec.Struct, frozen=True, kw_only=True):
    """A session beat."""

    path: SessionPath
    beat: Beat


class ProbeAnswered(msgspec.Struct, frozen=True, kw_only=True):
    """*provider* answered a probe in the name of a session."""

    provider: ProviderId
    session: SessionId
    reply: ProbeReply


class ProbeRefused(msgspec.Struct, frozen=True, kw_only=True):
    """A probe found nobody who listens: "no responders", on the reply subject of *provider*."""

    provider: ProviderId
    session: SessionId


class Advised(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's site said over the subject of *path* what its scheduler knows."""

    path: SessionPath
    advice: Advice


class Sighted(msgspec.Struct, frozen=True, kw_only=True):
    """A router said that its requests to a session fail."""

    path: SessionPath
    sighting: Sighting


class VerdictHeard(msgspec.Struct, frozen=True, kw_only=True):
    """A registry published a verdict over the subject of *path*."""

    path: SessionPath
    verdict: Verdict


class PresenceHeard(msgspec.Struct, frozen=True, kw_only=True):
    """A registry, perhaps this one, said that it is there."""

    presence: Presence


class GossipHeard(msgspec.Struct, frozen=True, kw_only=True):
    """A peer asked, answered or sent something."""

    message: Gossip


class SnapshotAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody asks for records; *reply* is where the answer goes."""

    ask: SnapshotAsk
    reply: str


class Relayed(msgspec.Struct, frozen=True, kw_only=True):
    """A view sent what it holds and no registry does any more."""

    records: Records


class PageHeard(msgspec.Struct, frozen=True, kw_only=True):
    """A peer answered `AskPage`."""

    page: Page


class PageFailed(msgspec.Struct, frozen=True, kw_only=True):
    """Nobody answered `AskPage`."""


class MeshLost(msgspec.Struct, frozen=True, kw_only=True):
    """The connection to the mesh is gone: silence means nothing."""


class MeshBack(msgspec.Struct, frozen=True, kw_only=True):
    """The connection to the mesh is there again."""


class Leaving(msgspec.Struct, frozen=True, kw_only=True):
    """This registry is about to stop; the last event."""


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """`next_deadline` is reached."""


SessionEvent: TypeAlias = (
    Restored
    | DeltaHeard
    | BeatHeard
    | ProbeAnswered
    | ProbeRefused
    | Advised
    | Sighted
    | Leaving
    | Tick
)
PeerEvent: TypeAlias = (
    VerdictHeard
    | PresenceHeard
    | GossipHeard
    | SnapshotAsked
    | Relayed
    | PageHeard
    | PageFailed
    | MeshLost
    | MeshBack
)
Event: TypeAlias = SessionEvent | PeerEvent

# Actions ---------------------------------------------------------------------


class PublishProbe(msgspec.Struct, frozen=True, kw_only=True):
    """Probe a session; its answer or "no responders" comes back as an event."""

    path: SessionPath
    probe: Probe


class PublishVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Tell everybody, the owner too, what registries hold against a session."""

    path: SessionPath
    verdict: Verdict


class PublishPresence(msgspec.Struct, frozen=True, kw_only=True):
    """Tell the other registries that this one is there."""

    presence: Presence


class PublishGossip(msgspec.Struct, frozen=True, kw_only=True):
    """Send something to one peer."""

    peer: str
    message: Gossip


class PublishEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Tell tools what happened, under its deduplicating id."""

    path: SessionPath
    event: LifecycleEvent


class NameTaken(msgspec.Struct, frozen=True, kw_only=True):
    """Log: another registry goes by the name of this one."""

    instance: str


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer who asked for records."""

    reply: str
    answer: Page | Repair


class AskPage(msgspec.Struct, frozen=True, kw_only=True):
    """Request a page from any other registry; tell `PageHeard` or `PageFailed`."""

    ask: PageAsk


class ServeSnapshots(msgspec.Struct, frozen=True, kw_only=True):
    """From now on take `SnapshotAsked` and `Relayed`: this registry knows what it is asked for."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Log and count: these records were refused."""

    rejected: tuple[Rejection, ...]
    source: str


class RefusedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Log and count: a message that can be read but not meant."""

    kind: str
    error: Exception


class SetReady(msgspec.Struct, frozen=True, kw_only=True):
    """State whether the registry is well, and if not, why."""

    flag: bool
    reason: str


Action: TypeAlias = (
    PublishProbe
    | PublishVerdict
    | PublishPresence
    | PublishGossip
    | PublishEvent
    | Answer
    | AskPage
    | ServeSnapshots
    | Refused
    | RefusedMessage
    | NameTaken
    | SetReady
)
