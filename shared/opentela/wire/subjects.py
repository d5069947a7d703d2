"""Every subject of the mesh, and who may touch it, in one place.

General to specific; provider and site come early, so that one prefix fences a provider in.
`mesh/permissions.py` turns the wildcards here into what nats-server enforces.
"""

from typing import Final, NamedTuple

from opentela.core.errors import WireError
from opentela.core.ids import ProviderId, SessionId, SiteId

ROOT: Final = "otela.v1"
SNAPSHOT: Final = f"{ROOT}.snapshot"
RELAY: Final = f"{ROOT}.relay"
"""Where routers and placers tell a registry what they hold and no registry does any more."""
SNAPSHOT_QUEUE: Final = "registries"
"""One registry answers each question, and hears each relay."""
REGISTRIES: Final = f"{ROOT}.registries"
"""Where registries tell that they are there: only they publish."""
USAGE: Final = f"{ROOT}.usage"

HISTORY: Final = "otela_events"
"""The JetStream stream that keeps lifecycle events."""
DOMAIN: Final = "hub"
"""JetStream runs at the hub alone; through a leaf it is reached by this name."""
_JETSTREAM: Final = f"$JS.{DOMAIN}.API"
MAKE_HISTORY: Final = f"{_JETSTREAM}.STREAM.CREATE.{HISTORY}"
ALTER_HISTORY: Final = f"{_JETSTREAM}.STREAM.UPDATE.{HISTORY}"
READ_HISTORY: Final = f"{_JETSTREAM}.DIRECT.GET.{HISTORY}"
"""Asks for stored events: costs the server nothing that would outlive the answer."""

LEASES: Final = "KV_otela_placers"
"""The JetStream stream behind the key-value bucket `otela_placers`, where placers elect one."""
ALL_LEASES: Final = "$KV.otela_placers.>"
LEASE: Final = "$KV.otela_placers.leader"
WRITE_LEASE: Final = f"{_JETSTREAM}.{LEASE}"
"""Where the lease is written: through a leaf, buckets too are reached by the domain alone."""
MAKE_LEASES: Final = f"{_JETSTREAM}.STREAM.CREATE.{LEASES}"
READ_LEASES: Final = f"{_JETSTREAM}.STREAM.MSG.GET.{LEASES}"
"""Asks the stream's own leader, so that the answer is what the next write is compared with."""


def at_hub(subject: str) -> str:
    """Return what the hub makes of a subject of JetStream's API before it looks at permissions."""
    return subject.replace(f"{_JETSTREAM}.$KV", "$KV").replace(_JETSTREAM, "$JS.API")


ALL_DELTAS: Final = f"{ROOT}.delta.>"
ALL_BEATS: Final = f"{ROOT}.beat.>"
ALL_ADVICE: Final = f"{ROOT}.advice.>"
ALL_SIGHTINGS: Final = f"{ROOT}.sighting.>"
ALL_VERDICTS: Final = f"{ROOT}.verdict.>"
ALL_EVENTS: Final = f"{ROOT}.events.>"
ALL_AUDITS: Final = f"{ROOT}.audit.>"

_REPLY_DOTS: Final = 5
"""In `otela.v1.reply.<role>.<instance>.<provider>`."""
_FORBIDDEN: Final = frozenset(". *>\t\r\n")


class SessionPath(NamedTuple):
    """Where a session lives: the last three tokens of most subjects."""

    provider: ProviderId
    site: SiteId
    session: SessionId


def token(value: str) -> str:
    """Return *value* if it is one subject token.

    Raises:
        WireError: It is empty or holds a character with a meaning in subjects.
    """
    if not value or not _FORBIDDEN.isdisjoint(value):
        raise WireError(f"{value!r} is not one subject token")
    return value


def delta(path: SessionPath) -> str:
    """The owner's record of its session."""
    return f"{ROOT}.delta.{_path(path)}"


def beat(path: SessionPath) -> str:
    """Heartbeats of a session; only registries listen."""
    return f"{ROOT}.beat.{_path(path)}"


def probe(path: SessionPath) -> str:
    """A registry asks a session whether it lives."""
    return f"{ROOT}.probe.{_path(path)}"


def advice(path: SessionPath) -> str:
    """A provider's site says what its scheduler knows of a session; only registries listen."""
    return f"{ROOT}.advice.{_path(path)}"


def sighting(path: SessionPath) -> str:
    """A router says that its requests to a session fail; only registries listen."""
    return f"{ROOT}.sighting.{_path(path)}"


def verdict(path: SessionPath) -> str:
    """What registries hold against a session: witnesses, suspicion, eviction."""
    return f"{ROOT}.verdict.{_path(path)}"


def data(path: SessionPath) -> str:
    """Request streams into a session."""
    return f"{ROOT}.data.{_path(path)}"


def echo(path: SessionPath, tail: str) -> str:
    """Where a session hears that nobody listened; nobody but the servers of the mesh says it."""
    return f"{data(path)}.{token(tail)}"


def echoes(path: SessionPath) -> str:
    """Every such subject of a session."""
    return f"{data(path)}.*"


def event(kind: str, path: SessionPath) -> str:
    """A lifecycle event, as JSON."""
    return f"{ROOT}.events.{token(kind)}.{_path(path)}"


def gossip(registry: str) -> str:
    """Digest exchange addressed to one registry."""
    return f"{ROOT}.gossip.{token(registry)}"


def reply(role: str, provider: ProviderId, instance: str, tail: str) -> str:
    """An answer from *provider* to one process (*instance*) of a router or registry (*role*).

    *tail* is the answering session, so that the few subjects in use stay in the servers' match
    caches. Only for the reply of an `Open` is it the stream: "no responders" carries nothing else.
    The asker comes before the answerer so that what it subscribes to has no wildcard but the end:
    leaf servers let no other interest through (see `mesh/permissions.py`).
    """
    return f"{ROOT}.reply.{token(role)}.{token(instance)}.{token(provider)}.{token(tail)}"


def answer(reply_to: str, path: SessionPath) -> str:
    """Return where the session answers a message that asks for the answer at *reply_to*.

    Raises:
        WireError: That is no reply subject, or one of another provider.
    """
    head, _, tail = reply_to.rpartition(".")
    if not tail or not head.startswith(f"{ROOT}.reply.") or head.count(".") != _REPLY_DOTS:
        raise WireError(f"{reply_to!r} is not where a router waits for answers")
    if not head.endswith(f".{path.provider}"):
        raise WireError(f"{reply_to!r} is where another provider answers")
    return f"{head}.{path.session}"


def replies(role: str, instance: str) -> str:
    """Everything that any provider answers to one process of a role."""
    return f"{ROOT}.reply.{token(role)}.{token(instance)}.>"


def inbox(role: str) -> str:
    """The prefix under which a role's own request/reply inboxes live."""
    return f"{ROOT}.inbox.{token(role)}"


def command(path: SessionPath) -> str:
    """A placer tells a provider's node what to run; the last token is the node."""
    return f"{ROOT}.command.{_path(path)}"


def audit(placer: str) -> str:
    """What a placer decided and why, as JSON, for tools."""
    return f"{ROOT}.audit.{token(placer)}"


def whole(conversation: str) -> str:
    """Everything that is said in a conversation, such as every delta of everybody."""
    return f"{ROOT}.{token(conversation)}.>"


def single(conversation: str) -> str:
    """The subject of a conversation that has only one."""
    return f"{ROOT}.{token(conversation)}"


def of_provider(conversation: str, provider: str, site: str = "*") -> str:
    """What concerns the sessions of a provider at a site; `*` stands for every one."""
    return f"{ROOT}.{token(conversation)}.{_part(provider)}.{_part(site)}.>"


def of_member(conversation: str, name: str, *, deep: bool) -> str:
    """What is addressed to one registry, router, placer or tool; *deep* if more tokens follow."""
    return f"{ROOT}.{token(conversation)}.{token(name)}{'.>' if deep else ''}"


def answers_of(provider: str) -> str:
    """Every answer that a provider gives, to whomever."""
    return f"{ROOT}.reply.*.*.{_part(provider)}.>"


def interest_in(conversation: str) -> str:
    """What names the wildcard subscriptions to a conversation, and no message in it.

    It has as many tokens as those subscriptions, counting their final `>`, and fewer than any
    message, so that to a server it matches the one and never the other.
    """
    tokens = 3 if conversation == "reply" else 1
    return f"{ROOT}.{token(conversation)}" + ".*" * tokens


def matches(pattern: str, subject: str) -> bool:
    """Return whether *subject* is one of those that *pattern* names; both may hold wildcards.

    A subject with wildcards is matched if all that it names is named by the pattern: that is what
    a server asks of a subscription and the permission for it.
    """
    wanted, given = pattern.split("."), subject.split(".")
    for place, one in enumerate(wanted):
        if one == ">":
            return len(given) > place
        if place == len(given) or given[place] == ">":
            return False
        if one != "*" and one != given[place]:
            return False
    return len(wanted) == len(given)


def path_of(subject: str) -> SessionPath:
    """Return the session that a per-session subject ends with.

    Raises:
        WireError: The subject is too short to hold one.
    """
    tokens = subject.split(".")
    if len(tokens) < len(ROOT.split(".")) + 1 + len(SessionPath._fields):
        raise WireError(f"subject {subject!r} names no session")
    provider, site, session = tokens[-3:]
    return SessionPath(ProviderId(provider), SiteId(site), SessionId(session))


def _part(value: str) -> str:
    return value if value == "*" else token(value)


def _path(path: SessionPath) -> str:
    return f"{token(path.provider)}.{token(path.site)}.{token(path.session)}"
