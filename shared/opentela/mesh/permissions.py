"""Who may publish and subscribe what, as one table; nats-server enforces what follows from it.

What the table does not allow is forbidden. A provider stands behind a fence: it can neither read
another's prompts, nor answer for it, nor write its records. A leaf server carries what its site
may say and hear, and nothing else, whatever its own users try.

Between servers there is a subtlety. A hub tells a leaf of an interest only if the leaf may publish
the very text of that subscription, wildcards included; a leaf that may publish `delta.*.a.>` would
never hear that registries listen to `delta.>`, and send nothing. So it is also allowed what
`subjects.interest_in` returns, which matches such a text and no message.

Of JetStream's API (`$JS.…`) each role has what `HISTORY` and `LEASES` name, one by one; a provider
none. Into the bucket by which placers elect one of them, placers alone write.
"""

from collections.abc import Iterator, Sequence
from enum import Enum, StrEnum
from typing import Final, NamedTuple

import msgspec

from opentela.core.errors import ConfigError
from opentela.wire import subjects

EVERY: Final = "*"
"""Stands for every provider or site."""


class Role(StrEnum):
    """What a user of the mesh is; its value stands in access files."""

    REGISTRY = "registry"
    ROUTER = "router"
    PLACER = "placer"
    TOOL = "tool"
    PROVIDER = "provider"


class Reach(Enum):
    """How much of a conversation a role may touch."""

    ALL = "all"
    OWN = "own"  # a provider's sessions; what is addressed to a member by name


class Row(NamedTuple):
    """One conversation: the token after the version in its subjects, and who takes part."""

    conversation: str
    publish: dict[Role, Reach]
    subscribe: dict[Role, Reach]


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """What one user may do; everything else is denied."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """Who takes part.

    Attributes:
        name: Unique among registries, routers, placers and tools: their replies go by it.
        provider: Whose sessions a provider speaks for.
        site: The only site that a provider may speak from; `EVERY` when any.
    """

    role: Role
    name: str
    provider: str = ""
    site: str = EVERY


_ALL, _OWN = Reach.ALL, Reach.OWN
_MAPPERS: Final = {Role.ROUTER: _ALL, Role.PLACER: _ALL, Role.TOOL: _ALL}
"""Who holds a copy of the session map without being a registry."""

TABLE: Final = (
    Row("delta", {Role.PROVIDER: _OWN}, {Role.REGISTRY: _ALL, **_MAPPERS}),
    Row("beat", {Role.PROVIDER: _OWN}, {Role.REGISTRY: _ALL}),
    # What a provider's scheduler knows, and what routers see of it: each a reason to look.
    Row("advice", {Role.PROVIDER: _OWN}, {Role.REGISTRY: _ALL}),
    Row("sighting", {Role.ROUTER: _ALL}, {Role.REGISTRY: _ALL}),
    Row("probe", {Role.REGISTRY: _ALL}, {Role.PROVIDER: _OWN}),
    Row(
        "verdict",
        {Role.REGISTRY: _ALL},
        {Role.REGISTRY: _ALL, **_MAPPERS, Role.PROVIDER: _OWN},
    ),
    Row("registries", {Role.REGISTRY: _ALL}, {Role.REGISTRY: _ALL, **_MAPPERS}),
    Row("gossip", {Role.REGISTRY: _ALL}, {Role.REGISTRY: _OWN}),
    Row("snapshot", {Role.REGISTRY: _ALL, **_MAPPERS}, {Role.REGISTRY: _ALL}),
    # A tool only looks: it adds nothing to what registries hold.
    Row("relay", {Role.ROUTER: _ALL, Role.PLACER: _ALL}, {Role.REGISTRY: _ALL}),
    # Answers to a role's own requests, which only registries get.
    Row(
        "inbox",
        {Role.REGISTRY: _ALL},
        {Role.REGISTRY: _OWN, Role.ROUTER: _OWN, Role.PLACER: _OWN, Role.TOOL: _OWN},
    ),
    Row("events", {Role.REGISTRY: _ALL}, _MAPPERS),
    Row("data", {Role.ROUTER: _ALL}, {Role.PROVIDER: _OWN}),
    Row(
        "reply",
        {Role.PROVIDER: _OWN},
        {Role.REGISTRY: _OWN, Role.ROUTER: _OWN, Role.PLACER: _OWN},
    ),
    Row("command", {Role.PLACER: _ALL}, {Role.PROVIDER: _OWN}),
    Row("usage", {Role.ROUTER: _ALL}, {Role.PLACER: _ALL}),
    # In each other's names too: a leaf would not carry it otherwise, and all are the operator's.
    Row("audit", {Role.PLACER: _ALL}, {Role.PLACER: _ALL, Role.TOOL: _ALL}),
)

HISTORY: Final[dict[Role, tuple[str, ...]]] = {
    Role.REGISTRY: (subjects.MAKE_HISTORY, subjects.ALTER_HISTORY),
    **dict.fromkeys(_MAPPERS, (subjects.READ_HISTORY,)),
}
"""Who may publish what of JetStream's API: registries keep one stream, others only read it. Nobody
can empty or delete it, or make consumers, which would cost the hub memory."""

LEASES: Final[dict[Role, tuple[str, ...]]] = {
    Role.PLACER: (subjects.MAKE_LEASES, subjects.READ_LEASES, subjects.WRITE_LEASE),
}
"""Who may publish what of the bucket of leases: placers make, read and write it. Nobody can delete
it, or alter what it keeps, which would make terms begin again."""

_SINGLE: Final = frozenset({"snapshot", "relay", "registries", "usage"})
_DEEP: Final = frozenset({"inbox", "reply"})

_CLAIMS: Final = "$SYS.REQ.ACCOUNT.*.CLAIMS"
SYSTEM: Final = Permissions(
    publish=("$SYS.REQ.>",),
    subscribe=("$SYS.ACCOUNT.>", "$SYS.SERVER.>", f"{subjects.ROOT}.inbox.>"),
)
"""An operator's user of the system account: pushes accounts, sees connections come and go."""
SYSTEM_OF_LEAF: Final = Permissions(
    publish=("$SYS.REQ.CLAIMS.PACK", f"{_CLAIMS}.LOOKUP"),
    subscribe=("$SYS.REQ.CLAIMS.UPDATE", f"{_CLAIMS}.UPDATE", "$SYS._INBOX.>"),
)
"""A leaf server's user of the system account: only to learn of accounts, that is of revocations."""


def of(member: Member) -> Permissions:
    """Return what *member* may do.

    Raises:
        ConfigError: It has no name, or is a provider without one.
    """
    if not member.name or (member.role is Role.PROVIDER) != bool(member.provider):
        raise ConfigError(
            f"{member.role} {member.name!r} with provider {member.provider!r} is no member",
            remedy="providers, and only they, name a provider",
        )
    said = tuple(
        pattern(row.conversation, row.publish[member.role], member)
        for row in TABLE
        if member.role in row.publish
    )
    asked = (*HISTORY.get(member.role, ()), *LEASES.get(member.role, ()))
    return Permissions(
        publish=(*said, *asked, *map(subjects.at_hub, asked)),
        subscribe=tuple(
            pattern(row.conversation, row.subscribe[member.role], member)
            for row in TABLE
            if member.role in row.subscribe
        ),
    )


def of_leaf(
    sites: Sequence[str], *, providers: Sequence[str] = (), members: Sequence[Member] = ()
) -> Permissions:
    """Return what a leaf server may carry between its site and the mesh.

    Args:
        sites: Its own, then those of further leaf servers behind it.
        providers: Who works there; everybody when empty. Only this keeps a site from answering
            for the providers of another one, as answers do not name a site.
        members: Registries, routers, placers and tools that work there.
    """
    behind = [
        Member(role=Role.PROVIDER, name="leaf", provider=provider, site=site)
        for site in sites
        for provider in providers or (EVERY,)
    ]
    each = [of(member) for member in (*behind, *members)]
    heard = tuple(
        subjects.interest_in(row.conversation) for row in TABLE if Role.PROVIDER in row.publish
    )
    return Permissions(
        publish=tuple(dict.fromkeys((*_flat(one.publish for one in each), *heard))),
        subscribe=tuple(dict.fromkeys(_flat(one.subscribe for one in each))),
    )


def pattern(conversation: str, reach: Reach, member: Member) -> str:
    """Return the subjects of *conversation* that lie within *reach* of *member*."""
    if conversation in _SINGLE:
        return subjects.single(conversation)
    if reach is Reach.ALL:
        return subjects.whole(conversation)
    if member.role is not Role.PROVIDER:
        return subjects.of_member(conversation, member.name, deep=conversation in _DEEP)
    if conversation == "reply":
        return subjects.answers_of(member.provider)
    return subjects.of_provider(conversation, member.provider, member.site)


def may_publish(permissions: Permissions, subject: str) -> bool:
    """Return whether a server takes a message on *subject*."""
    return any(subjects.matches(allowed, subject) for allowed in permissions.publish)


def _flat(parts: Iterator[tuple[str, ...]]) -> Iterator[str]:
    for part in parts:
        yield from part
