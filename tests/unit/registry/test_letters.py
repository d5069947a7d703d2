"""Actions as messages and messages as events."""

import random

import pytest

from opentela.core.errors import WireError
from opentela.core.ids import ProviderId
from opentela.core.session_map import SessionMap
from opentela.mesh.bus import Message
from opentela.mesh.permissions import Member, Role, may_publish, of
from opentela.registry import letters
from opentela.registry import messages as m
from opentela.registry.letters import Letter, Published
from opentela.testing.owner import Owner
from opentela.testing.permits import may_subscribe
from opentela.testing.sim.keys import FakeIdentity, vouch
from opentela.view import exchange
from opentela.wire import control, events, subjects
from opentela.wire.control import (
    Advice,
    Beat,
    Delta,
    Page,
    PageAsk,
    Presence,
    Probe,
    ProbeReply,
    Records,
    Sighting,
    Verdict,
)
from opentela.wire.events import LifecycleEvent

NAME, INSTANCE = "registry1", "0123"
OWNER = Owner(FakeIdentity(random.Random(1)))
PATH = OWNER.path
DIGEST = exchange.opening(SessionMap(vouch()), "registry1")
VERDICT = Verdict(registry=NAME, session=PATH.session)
EVENT = LifecycleEvent(
    id="x.1.LEFT",
    kind="LEFT",
    at="2027-01-15T08:00:00Z",
    registry=NAME,
    provider=PATH.provider,
    site=PATH.site,
    session=PATH.session,
    node=OWNER.claim.node,
    incarnation=1,
)

SENT: list[tuple[Published, Letter]] = [
    (
        m.PublishProbe(path=PATH, probe=Probe(sequence=3)),
        Letter(
            subjects.probe(PATH),
            control.encode(Probe(sequence=3)),
            subjects.reply(NAME, PATH.provider, INSTANCE, PATH.session),
        ),
    ),
    (
        m.PublishVerdict(path=PATH, verdict=VERDICT),
        Letter(subjects.verdict(PATH), control.encode(VERDICT)),
    ),
    (
        m.PublishPresence(presence=Presence(registry=NAME)),
        Letter(subjects.REGISTRIES, control.encode(Presence(registry=NAME))),
    ),
    (
        m.PublishGossip(peer="registry2", message=DIGEST),
        Letter(subjects.gossip("registry2"), control.encode(DIGEST)),
    ),
    (
        m.PublishEvent(path=PATH, event=EVENT),
        Letter(
            subjects.event("LEFT", PATH),
            events.ENCODER.encode(EVENT),
            headers={"Nats-Msg-Id": "x.1.LEFT"},
        ),
    ),
    (
        m.Answer(reply=f"{subjects.inbox('router1')}.7", answer=Page(registry=NAME)),
        Letter(f"{subjects.inbox('router1')}.7", control.encode(Page(registry=NAME))),
    ),
]

REPLY = subjects.reply(NAME, PATH.provider, INSTANCE, PATH.session)
HEARD: list[tuple[str, str, bytes, m.Event]] = [
    (
        "delta",
        subjects.delta(PATH),
        control.encode(Delta(signed=OWNER.signed)),
        m.DeltaHeard(path=PATH, signed=OWNER.signed),
    ),
    (
        "beat",
        subjects.beat(PATH),
        control.encode(Beat(incarnation=1)),
        m.BeatHeard(path=PATH, beat=Beat(incarnation=1)),
    ),
    (
        "verdict",
        subjects.verdict(PATH),
        control.encode(VERDICT),
        m.VerdictHeard(path=PATH, verdict=VERDICT),
    ),
    (
        "registries",
        subjects.REGISTRIES,
        control.encode(Presence(registry="registry2")),
        m.PresenceHeard(presence=Presence(registry="registry2")),
    ),
    (
        "advice",
        subjects.advice(PATH),
        control.encode(Advice(alive=False)),
        m.Advised(path=PATH, advice=Advice(alive=False)),
    ),
    (
        "sighting",
        subjects.sighting(PATH),
        control.encode(Sighting(router="router1")),
        m.Sighted(path=PATH, sighting=Sighting(router="router1")),
    ),
    ("gossip", subjects.gossip(NAME), control.encode(DIGEST), m.GossipHeard(message=DIGEST)),
    (
        "reply",
        REPLY,
        control.encode(ProbeReply(sequence=3, signed=OWNER.signed)),
        m.ProbeAnswered(
            provider=PATH.provider,
            session=PATH.session,
            reply=ProbeReply(sequence=3, signed=OWNER.signed),
        ),
    ),
    ("reply", REPLY, b"", m.ProbeRefused(provider=ProviderId("p"), session=PATH.session)),
]


@pytest.mark.parametrize(("action", "expected"), SENT, ids=lambda one: type(one).__name__)
def test_an_action_is_one_message(action: Published, expected: Letter) -> None:
    """On the subject of its conversation, which a registry may publish."""
    letter = letters.letter(action, name=NAME, instance=INSTANCE)
    assert letter == expected
    assert may_publish(of(Member(role=Role.REGISTRY, name=NAME)), letter.subject)


@pytest.mark.parametrize(("kind", "subject", "payload", "expected"), HEARD)
def test_a_message_is_one_event(kind: str, subject: str, payload: bytes, expected: m.Event) -> None:
    """Heard on a subscription that a registry may have."""
    conversations = {one.kind: one for one in letters.conversations(name=NAME, instance=INSTANCE)}
    conversation = conversations[kind]
    assert conversation.read(Message(subject, payload)) == expected
    assert subjects.matches(conversation.subject, subject)
    assert may_subscribe(of(Member(role=Role.REGISTRY, name=NAME)), conversation.subject)


def test_a_question_keeps_where_its_answer_goes() -> None:
    """The reply subject comes with it."""
    message = Message(subjects.SNAPSHOT, control.encode(PageAsk()), "inbox.7")
    questions, relays = letters.SERVED
    assert questions.read(message) == m.SnapshotAsked(ask=PageAsk(), reply="inbox.7")
    records = Records(sender="router1", records=(OWNER.record,))
    message = Message(subjects.RELAY, control.encode(records))
    assert relays.read(message) == m.Relayed(records=records)
    with pytest.raises(WireError):
        questions.read(message)


def test_a_page_is_read() -> None:
    """Anything else in its place is refused."""
    page = Page(registry="registry2")
    assert letters.page_of(control.encode(page)) == m.PageHeard(page=page)
    with pytest.raises(WireError):
        letters.page_of(control.encode(PageAsk()))


@pytest.mark.parametrize("conversation", letters.conversations(name=NAME, instance=INSTANCE))
def test_rubbish_is_refused(conversation: letters.Conversation) -> None:
    """In one way, on every subject."""
    with pytest.raises(WireError):
        conversation.read(Message(conversation.subject.replace(">", "p.s.n"), b"\\xc1"))
