"""Every subject of the mesh, and who may touch it, in one place.

General to specific; provider and site come early, so that one prefix fences a provider in.
`mesh/permissions.py` turns the wildcards here into what nats-server enforces.
"""

from typing import Final, NamedTuple

from opentela.core.errors import WireError
from opentela.core.ids import ProviderId, SessionId, SiteId

ROOT: Final = "otela.v1"
SNAPSHOT: Final = f"{ROOT}.snapshot"
SNAPSHOT_QUEUE: Final = "registries"
REGISTRIES: Final = f"{ROOT}.registries"
"""Where registries tell each other that they are there: only they publish and subscribe."""
USAGE: Final = f"{ROOT}.usage"

ALL_DELTAS: Final = f"{ROOT}.delta.>"
ALL_BEATS: Final = f"{ROOT}.beat.>"
ALL_VERDICTS: Final = f"{ROOT}.verdict.>"
ALL_EVENTS: Final = f"{ROOT}.events.>"

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


def verdict(path: SessionPath) -> str:
    """What registries hold against a session: witnesses, suspicion, eviction."""
    return f"{ROOT}.verdict.{_path(path)}"


def data(path: SessionPath) -> str:
    """Request streams into a session."""
    return f"{ROOT}.data.{_path(path)}"


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
    """
    return f"{ROOT}.reply.{token(role)}.{token(provider)}.{token(instance)}.{token(tail)}"


def replies(role: str, instance: str) -> str:
    """Everything that any provider answers to one process of a role."""
    return f"{ROOT}.reply.{token(role)}.*.{token(instance)}.*"


def inbox(role: str) -> str:
    """The prefix under which a role's own request/reply inboxes live."""
    return f"{ROOT}.inbox.{token(role)}"


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


def _path(path: SessionPath) -> str:
    return f"{token(path.provider)}.{token(path.site)}.{token(path.session)}"
