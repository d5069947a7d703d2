"""Lets members in, and out again: users of the mesh's account, each with an access file's content.

Nothing here touches a server's configuration: servers know the account, and believe what its
signing key says of users. Every function is handed the time, as Unix seconds.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from opentela.core import ids
from opentela.core.errors import ConfigError
from opentela.mesh import access as accesses
from opentela.mesh import jwt, permissions, warrants
from opentela.mesh.access import Access
from opentela.mesh.identity import Identity
from opentela.mesh.layout import Admission, MeshLayout
from opentela.mesh.permissions import EVERY, Member, Permissions, Role


def role_access(
    layout: MeshLayout,
    *,
    role: Literal["registry", "router", "placer", "tool", "sys"],
    name: str,
    now: float,
    site: str = "",
    servers: Sequence[str] = (),
    expires_at: float = 0.0,
) -> Access:
    """Let a registry, router, placer, tool or operator (`sys`) in; return what it needs to join.

    Args:
        layout: The mesh.
        role: What it may do.
        name: Unique among these; answers to it go by its name.
        now: Unix seconds.
        site: Where a registry is: several of one site count as one where there are other sites.
        servers: Where it dials; the hub when empty.
        expires_at: Unix seconds; 0 for never.

    Raises:
        ConfigError: The name is none, or belongs to another role; only a registry has a site; a
            server is none. Nobody was let in then.
    """
    ids.name(name, field="name")
    if site:
        ids.name(site, field="site")
        if role != "registry":
            raise ConfigError(f"a {role} has no site", remedy="omit --site")
    dialled = _dialled(layout, servers)
    is_system = role == "sys"
    allowed = (
        permissions.SYSTEM if is_system else permissions.of(Member(role=Role(role), name=name))
    )
    with layout.locked():
        credentials = admit(
            layout,
            Admission(
                key="",
                name=name,
                role=role,
                is_system=is_system,
                site=site,
                issued_at=int(now),
                expires_at=int(expires_at),
            ),
            allowed,
        )
    access = _access(layout, role, name, dialled, credentials)
    if role != "registry":
        return access
    signer = layout.identity("signing")
    warrant = warrants.issue_to_registry(signer, access.identity.key, registry=name, site=site)
    return msgspec.structs.replace(access, site=site, warrant=warrants.written(warrant))


def invite(
    layout: MeshLayout,
    *,
    provider: str,
    now: float,
    site: str = "",
    servers: Sequence[str] = (),
    expires_at: float = 0.0,
) -> Access:
    """Let a provider in; return what its supervisors need to join.

    Args:
        layout: The mesh.
        provider: Whose sessions they will be.
        now: Unix seconds.
        site: The only site that it may speak from; empty for any.
        servers: Where it dials, such as its site's leaf; the hub when empty.
        expires_at: Unix seconds; 0 for never.

    Raises:
        ConfigError: A name or a server is none. Nobody was let in then.
    """
    ids.name(provider, field="provider")
    if site:
        ids.name(site, field="site")
    dialled = _dialled(layout, servers)
    member = Member(role=Role.PROVIDER, name=provider, provider=provider, site=site or EVERY)
    admission = Admission(
        key="",
        name=provider,
        role=Role.PROVIDER,
        provider=provider,
        site=site,
        issued_at=int(now),
        expires_at=int(expires_at),
    )
    with layout.locked():
        credentials = admit(layout, admission, permissions.of(member))
    access = _access(layout, "provider", provider, dialled, credentials)
    warrant = warrants.issue(
        layout.identity("signing"),
        access.identity.key,
        provider=provider,
        site=site,
        expires_at=int(expires_at),
    )
    return msgspec.structs.replace(
        access, provider=provider, site=site, warrant=warrants.written(warrant)
    )


def revoke(
    layout: MeshLayout, *, now: float, provider: str = "", name: str = "", key: str = ""
) -> tuple[Admission, ...]:
    """Withdraw every access of a provider, of the role or leaf called *name*, or of one *key*.

    The accounts that say so are in the folder; `push.accounts` brings them to running servers.

    Raises:
        ConfigError: Nobody of that name was let in.
    """
    with layout.locked():
        meant = _of_key(layout, key) if key else _of_name(layout, provider=provider, name=name)
        revoked = [msgspec.structs.replace(one, revoked_at=int(now)) for one in meant]
        if not revoked:
            raise ConfigError(
                f"{'provider ' if provider else ''}{provider or name} was never admitted",
                remedy="otela mesh members lists who was",
            )
        by_key = {admission.key: admission for admission in revoked}
        layout.write_admissions(
            tuple(by_key.get(admission.key, admission) for admission in layout.admissions)
        )
        renew_accounts(layout, now=now)
    return tuple(revoked)


def _of_name(layout: MeshLayout, *, provider: str, name: str) -> list[Admission]:
    return [
        admission
        for admission in layout.admissions
        if (admission.provider == provider if provider else admission.name == name)
        and (not admission.provider or provider)
    ]


def _of_key(layout: MeshLayout, key: str) -> list[Admission]:
    """Return the one whose key begins with *key*; of a leaf both of its users.

    Raises:
        ConfigError: There is none, or more than one.
    """
    found = [one for one in layout.admissions if one.key.startswith(key.upper())]
    if not found:
        raise ConfigError(f"no member has the id {key}", remedy="see otela mesh members")
    if len(found) > 1:
        raise ConfigError(
            f"id {key} matches {len(found)}: {', '.join(one.id for one in found)}",
            remedy="give more of it",
        )
    (one,) = found
    if one.role != "leaf":
        return found
    return [
        other
        for other in layout.admissions
        if other.role == "leaf" and (other.name, other.issued_at) == (one.name, one.issued_at)
    ]


def renew_accounts(layout: MeshLayout, *, now: float) -> None:
    """Issue the mesh's account and the servers' own again, with all revocations."""
    facts = layout.facts
    operator = layout.identity("operator")
    for key, name, signing_keys, is_system in (
        (facts.account, facts.name, (facts.signing,), False),
        (facts.system, "SYS", (), True),
    ):
        revoked = {
            one.key: one.revoked_at
            for one in layout.admissions
            if one.revoked_at and one.is_system == is_system and not _is_over(one, now)
        }
        issued = jwt.account(
            operator,
            key,
            name=name,
            signing_keys=signing_keys,
            revoked=revoked,
            has_jetstream=facts.has_jetstream and not is_system,
            now=now,
        )
        layout.write_account_jwt(key, issued)


def admit(layout: MeshLayout, admission: Admission, allowed: Permissions) -> str:
    """Return the credentials of a new user, and remember it; the layout is locked.

    Raises:
        ConfigError: Its name belongs to another role.
    """
    for other in layout.admissions:
        is_provider = bool(other.provider) or bool(admission.provider)
        if other.name == admission.name and other.role != admission.role and not is_provider:
            raise ConfigError(
                f"{admission.name} is the name of a {other.role} already", remedy="choose another"
            )
    identity = Identity.new()
    admitted = msgspec.structs.replace(admission, key=identity.key)
    issued = issue(layout, admitted, allowed)
    layout.write_admissions((*layout.admissions, admitted))
    return accesses.credentials(issued, identity)


def issue(layout: MeshLayout, admission: Admission, allowed: Permissions) -> str:
    """Return the JWT by which servers let that key in; the same for the same *allowed*."""
    facts = layout.facts
    return jwt.user(
        layout.identity("system" if admission.is_system else "signing"),
        admission.key,
        name=admission.name,
        account=facts.system if admission.is_system else facts.account,
        permissions=allowed,
        connects=jwt.LEAF if admission.role == "leaf" else jwt.CLIENT,
        now=admission.issued_at,
        expires_at=admission.expires_at,
    )


def _is_over(admission: Admission, now: float) -> bool:
    # What has expired is refused anyhow; an account must not grow with every job of a year.
    return 0 < admission.expires_at < now


def _dialled(layout: MeshLayout, servers: Sequence[str]) -> tuple[str, ...]:
    chosen = tuple(servers) or layout.facts.servers
    for url in chosen:
        accesses.server(url)
    return chosen


def _access(
    layout: MeshLayout,
    role: accesses.Role,
    name: str,
    servers: tuple[str, ...],
    credentials: str,
) -> Access:
    return Access(
        name=name,
        role=role,
        servers=servers,
        ca=layout.ca.read_text() if layout.ca.exists() else "",
        credentials=credentials,
    )
