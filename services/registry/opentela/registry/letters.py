"""A registry's actions and events as messages on subjects, both ways."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from opentela.core.ids import ProviderId, SessionId
from opentela.mesh.bus import Message
from opentela.registry import messages as m
from opentela.wire import control, events, subjects

_DEDUPLICATION: Final = "Nats-Msg-Id"
"""By this header JetStream drops what another registry has told already."""

Read: TypeAlias = Callable[[Message], m.Event]
"""Returns what a message means, or raises `WireError`."""

Published: TypeAlias = (
    m.PublishProbe
    | m.PublishVerdict
    | m.PublishPresence
    | m.PublishGossip
    | m.PublishEvent
    | m.Answer
)


class Letter(NamedTuple):
    """A message to publish."""

    subject: str
    payload: bytes
    reply: str = ""
    headers: Mapping[str, str] | None = None


class Conversation(NamedTuple):
    """A subject to subscribe to, and what its messages mean; *kind* names it in metrics."""

    kind: str
    subject: str
    read: Read


def letter(action: Published, *, name: str, instance: str) -> Letter:
    """Return the message that carries out *action* for the registry *name*."""
    match action:
        case m.PublishProbe(path=path, probe=probe):
            # The session as the tail, so that the few subjects stay in the servers' match caches.
            reply = subjects.reply(name, path.provider, instance, path.session)
            return Letter(subjects.probe(path), control.encode(probe), reply)
        case m.PublishVerdict(path=path, verdict=verdict):
            return Letter(subjects.verdict(path), control.encode(verdict))
        case m.PublishPresence(presence=presence):
            return Letter(subjects.REGISTRIES, control.encode(presence))
        case m.PublishGossip(peer=peer, message=message):
            return Letter(subjects.gossip(peer), control.encode(message))
        case m.PublishEvent(path=path, event=event):
            payload = events.ENCODER.encode(event)
            headers = {_DEDUPLICATION: event.id}
            return Letter(subjects.event(event.kind, path), payload, headers=headers)
        case m.Answer(reply=reply, answer=answer):
            return Letter(reply, control.encode(answer))


def conversations(*, name: str, instance: str) -> tuple[Conversation, ...]:
    """Return everything that the registry *name* listens to from the beginning."""
    return (
        Conversation("delta", subjects.ALL_DELTAS, _delta),
        Conversation("beat", subjects.ALL_BEATS, _beat),
        Conversation("advice", subjects.ALL_ADVICE, _advice),
        Conversation("sighting", subjects.ALL_SIGHTINGS, _sighting),
        Conversation("verdict", subjects.ALL_VERDICTS, _verdict),
        Conversation("registries", subjects.REGISTRIES, _presence),
        Conversation("gossip", subjects.gossip(name), _gossip),
        Conversation("reply", subjects.replies(name, instance), _reply),
    )


SERVED: Final = (
    Conversation(
        "snapshot",
        subjects.SNAPSHOT,
        lambda message: m.SnapshotAsked(
            ask=control.read_snapshot_ask(message.payload), reply=message.reply
        ),
    ),
    Conversation(
        "relay",
        subjects.RELAY,
        lambda message: m.Relayed(records=control.read_relay(message.payload)),
    ),
)
"""What it listens to once it knows what there is, in the queue group `SNAPSHOT_QUEUE`."""


def page_of(payload: bytes) -> m.Event:
    """Return what a peer's answer to `AskPage` means.

    Raises:
        WireError: It is no page.
    """
    return m.PageHeard(page=control.read_page(payload))


def _delta(message: Message) -> m.Event:
    delta = control.read_delta(message.payload)
    return m.DeltaHeard(path=subjects.path_of(message.subject), signed=delta.signed)


def _beat(message: Message) -> m.Event:
    beat = control.read_beat(message.payload)
    return m.BeatHeard(path=subjects.path_of(message.subject), beat=beat)


def _advice(message: Message) -> m.Event:
    advice = control.read_advice(message.payload)
    return m.Advised(path=subjects.path_of(message.subject), advice=advice)


def _sighting(message: Message) -> m.Event:
    sighting = control.read_sighting(message.payload)
    return m.Sighted(path=subjects.path_of(message.subject), sighting=sighting)


def _verdict(message: Message) -> m.Event:
    verdict = control.read_verdict(message.payload)
    return m.VerdictHeard(path=subjects.path_of(message.subject), verdict=verdict)


def _presence(message: Message) -> m.Event:
    return m.PresenceHeard(presence=control.read_presence(message.payload))


def _gossip(message: Message) -> m.Event:
    return m.GossipHeard(message=control.read_gossip(message.payload))


def _reply(message: Message) -> m.Event:
    provider, session = message.subject.split(".")[-2:]
    if not message.payload:
        return m.ProbeRefused(provider=ProviderId(provider), session=SessionId(session))
    reply = control.read_probe_reply(message.payload)
    return m.ProbeAnswered(provider=ProviderId(provider), session=SessionId(session), reply=reply)
