"""Sets a mesh up and lets members in: what `otela mesh …`, `otela up` and tests call.

There is one way to authenticate, JWTs under an operator, on one machine as between sites. Whoever
holds the mesh's folder admits, scopes and revokes; servers are never reconfigured for it.
Every function is handed the time, as Unix seconds.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, assert_never

import msgspec

from opentela.core import ids
from opentela.core.errors import ConfigError
from opentela.mesh import access as accesses
from opentela.mesh import files, hub, jwt, permissions, tls
from opentela.mesh import leaf as leaves
from opentela.mesh.access import Access
from opentela.mesh.identity import Identity
from opentela.mesh.layout import SEEDS, Admission, Facts, MeshLayout
from opentela.mesh.permissions import EVERY, Member, Permissions, Role
from opentela.mesh.server_conf import TlsFiles, Trust

CLIENT_PORT: Final = 4222
LEAF_PORT: Final = 7422
LOOPBACK: Final = "127.0.0.1"
EVERYWHERE: Final = "0.0.0.0"  # noqa: S104  a hub is there to be dialled; only with TLS
_LOOPBACKS: Final = frozenset({"localhost", LOOPBACK, "::1"})

TlsMode = Literal["auto", "none", "files"]


class Listeners(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server is dialled, and how it proves who it is.

    Attributes:
        hosts: Names by which it is dialled; they stand in access files and certificates.
        listen: Address to bind; empty for every one with TLS and loopback without.
        port: For clients; 0 for one that the system chooses, here and below.
        leaf_port: For leaf servers; None for no listener, here and below.
        websocket_port: For clients and leaf servers behind proxies.
        monitor_port: For nats-server's monitoring page, on loopback.
        tls: `auto` uses the mesh's own authority, `files` the operator's, `none` stays on loopback.
        certificate: PEM chain, with `files`.
        key: Its private key, with `files`.
        ca: PEM of who signed it, with `files`; None when every system knows them.
    """

    hosts: tuple[str, ...] = ("localhost",)
    listen: str = ""
    port: int = CLIENT_PORT
    leaf_port: int | None = None
    websocket_port: int | None = None
    monitor_port: int | None = None
    tls: TlsMode = "none"
    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None

    @property
    def address(self) -> str:
        """The address to bind."""
        return self.listen or (LOOPBACK if self.tls == "none" else EVERYWHERE)


def init_mesh(
    root: Path, listeners: Listeners, *, now: float, name: str = "mesh", force: bool = False
) -> MeshLayout:
    """Make the folder of a new mesh: keys, accounts and a hub's configuration.

    Raises:
        ConfigError: There is one already and *force* is not given, or *listeners* make no sense.
    """
    _check(listeners)
    ids.name(name, field="name")
    layout = MeshLayout(root)
    if layout.exists and not force:
        raise ConfigError(
            f"there is a mesh in {root} already",
            remedy="use --force to replace it; everybody then needs a new access file",
        )
    for folder in (root, *(root / part for part in ("keys", "jwt", "tls", "access", "leaves"))):
        files.make_private_dir(folder)
    for old in layout.jwt_dir.glob("*.jwt"):
        old.unlink()
    keys = {seed: Identity.new(kind) for seed, kind in SEEDS.items()}
    for seed, key in keys.items():
        layout.write_identity(seed, key)
    system = keys["system"].key
    facts = Facts(
        name=name,
        operator=jwt.operator(keys["operator"], name=name, system_account=system, now=now),
        account=keys["account"].key,
        signing=keys["signing"].key,
        system=system,
        servers=_urls(listeners, listeners.port, "nats", "tls"),
        websockets=_urls(listeners, listeners.websocket_port, "ws", "wss"),
        leaf_servers=_urls(listeners, listeners.leaf_port, "nats", "tls"),
        is_own_authority=listeners.tls == "auto",
    )
    layout.write_admissions(())
    layout.write_account_jwt(
        system, jwt.account(keys["operator"], system, name="SYS", signing_keys=(), now=now)
    )
    layout.write_facts(facts)
    renew_account(layout, now=now)
    if listeners.tls == "auto":
        _write_pair(layout.tls_dir, "ca", tls.authority(name=f"opentela {name}", now=now))
    conf = hub.Hub(
        name=f"{name}-hub",
        trust=Trust(operator=facts.operator, system_account=system),
        listen=listeners.address,
        port=listeners.port,
        leaf_port=listeners.leaf_port,
        websocket_port=listeners.websocket_port,
        monitor_port=listeners.monitor_port,
        tls=_tls(layout, root, listeners, now=now),
    )
    files.write(layout.conf, hub.render(conf))
    return layout


def role_access(
    layout: MeshLayout,
    *,
    role: Literal["registry", "router", "placer", "tool", "sys"],
    name: str,
    now: float,
    servers: Sequence[str] = (),
    expires_at: float = 0.0,
) -> Access:
    """Let a registry, router, placer, tool or operator (`sys`) in; return what it needs to join.

    Args:
        layout: The mesh.
        role: What it may do.
        name: Unique among these; answers to it go by its name.
        now: Unix seconds.
        servers: Where it dials; the hub when empty.
        expires_at: Unix seconds; 0 for never.

    Raises:
        ConfigError: The name is none, or belongs to another role.
    """
    ids.name(name, field="name")
    is_system = role == "sys"
    allowed = (
        permissions.SYSTEM if is_system else permissions.of(Member(role=Role(role), name=name))
    )
    with layout.locked():
        for admission in layout.admissions:
            if admission.name == name and admission.role not in (role, "provider", "leaf"):
                raise ConfigError(
                    f"{name} is the name of a {admission.role} already", remedy="choose another"
                )
        credentials = _admit(
            layout,
            Admission(key="", name=name, role=role, issued_at=int(now), expires_at=int(expires_at)),
            allowed,
        )
    return _access(layout, role, name, servers, credentials)


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
    """
    ids.name(provider, field="provider")
    if site:
        ids.name(site, field="site")
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
        credentials = _admit(layout, admission, permissions.of(member))
    access = _access(layout, "provider", provider, servers, credentials)
    return msgspec.structs.replace(access, provider=provider, site=site)


class LeafOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a site's leaf is like.

    Attributes:
        site: Its own site.
        providers: Who works there; everybody when empty.
        members: Registries, routers, placers and tools that work there.
        behind: Sites of further leaf servers that dial this one.
        hubs: Where it dials out to; the hub's leaf port when empty.
        is_websocket: Whether it dials the hub's websocket instead, when *hubs* is empty.
        listeners: Where its own clients dial it.
    """

    site: str
    providers: tuple[str, ...] = ()
    members: tuple[Member, ...] = ()
    behind: tuple[str, ...] = ()
    hubs: tuple[str, ...] = ()
    is_websocket: bool = False
    listeners: Listeners = Listeners()


class LeafLayout(msgspec.Struct, frozen=True, kw_only=True):
    """One site's folder, complete in itself.

    Attributes:
        servers: Where the site's clients dial.
    """

    root: Path
    conf: Path
    servers: tuple[str, ...]


def add_leaf(
    layout: MeshLayout, options: LeafOptions, *, now: float, root: Path | None = None
) -> LeafLayout:
    """Let a site's leaf in and write its folder, to *root* or below the mesh's.

    Raises:
        ConfigError: The hub has no port for it, or the options make no sense.
    """
    for site in (options.site, *options.behind):
        ids.name(site, field="site")
    _check(options.listeners)
    facts = layout.facts
    root = root or layout.leaf(options.site)
    for folder in (root, root / "jwt"):
        files.make_private_dir(folder)
    name = f"leaf-{options.site}"
    link = Admission(key="", name=name, role="leaf", site=options.site, issued_at=int(now))
    carried = permissions.of_leaf(
        (options.site, *options.behind), providers=options.providers, members=options.members
    )
    with layout.locked():
        files.write(root / "leaf.creds", _admit(layout, link, carried))
        files.write(root / "sys.creds", _admit(layout, link, permissions.SYSTEM_OF_LEAF, sys=True))
        for account in (facts.account, facts.system):
            files.write(root / "jwt" / f"{account}.jwt", layout.account_jwt(account))
    has_ca = layout.ca.exists()
    if has_ca:
        files.write(root / "ca.pem", layout.ca.read_text(), mode=files.PUBLIC_FILE)
    conf = leaves.Leaf(
        name=f"{facts.name}-{name}",
        trust=Trust(operator=facts.operator, system_account=facts.system),
        account=facts.account,
        remotes=_remotes(facts, options),
        credentials="leaf.creds",
        system_credentials="sys.creds",
        remote_ca="ca.pem" if has_ca else "",
        listen=options.listeners.address,
        port=options.listeners.port,
        leaf_port=options.listeners.leaf_port,
        websocket_port=options.listeners.websocket_port,
        monitor_port=options.listeners.monitor_port,
        tls=_tls(layout, root, options.listeners, now=now),
    )
    files.write(root / "leaf.conf", leaves.render(conf))
    return LeafLayout(
        root=root,
        conf=root / "leaf.conf",
        servers=_urls(options.listeners, options.listeners.port, "nats", "tls"),
    )


def revoke(layout: MeshLayout, *, name: str, now: float) -> tuple[Admission, ...]:
    """Withdraw every access of the provider, site's leaf or role called *name*.

    The account JWT that says so is in the folder; `push.account` brings it to running servers.

    Raises:
        ConfigError: Nobody of that name was let in.
    """
    with layout.locked():
        revoked = [
            msgspec.structs.replace(admission, revoked_at=int(now))
            for admission in layout.admissions
            if admission.name == name
        ]
        if not revoked:
            raise ConfigError(f"nobody called {name} was let in", remedy="see: otela mesh members")
        by_key = {admission.key: admission for admission in revoked}
        layout.write_admissions(
            tuple(by_key.get(admission.key, admission) for admission in layout.admissions)
        )
        renew_account(layout, now=now)
    return tuple(revoked)


def renew_account(layout: MeshLayout, *, now: float) -> str:
    """Issue the mesh's account again, with all revocations; return its JWT."""
    facts = layout.facts
    issued = jwt.account(
        layout.identity("operator"),
        facts.account,
        name=facts.name,
        signing_keys=(facts.signing,),
        revoked={one.key: one.revoked_at for one in layout.admissions if one.revoked_at},
        now=now,
    )
    layout.write_account_jwt(facts.account, issued)
    return issued


def _admit(
    layout: MeshLayout, admission: Admission, allowed: Permissions, *, sys: bool = False
) -> str:
    """Return the credentials of a new user, and remember it."""
    facts = layout.facts
    sys = sys or admission.role == "sys"
    identity = Identity.new()
    issued = jwt.user(
        layout.identity("system" if sys else "signing"),
        identity.key,
        name=admission.name,
        account=facts.system if sys else facts.account,
        permissions=allowed,
        connects=jwt.LEAF if admission.role == "leaf" else jwt.CLIENT,
        now=admission.issued_at,
        expires_at=admission.expires_at,
    )
    admitted = msgspec.structs.replace(admission, key=identity.key)
    layout.write_admissions((*layout.admissions, admitted))
    return accesses.credentials(issued, identity)


def _access(
    layout: MeshLayout,
    role: accesses.Role,
    name: str,
    servers: Sequence[str],
    credentials: str,
) -> Access:
    chosen = tuple(servers) or layout.facts.servers
    for url in chosen:
        accesses.server(url)
    return Access(
        name=name,
        role=role,
        servers=chosen,
        ca=layout.ca.read_text() if layout.ca.exists() else "",
        credentials=credentials,
    )


def _check(listeners: Listeners) -> None:
    if listeners.tls == "none" and listeners.address not in _LOOPBACKS:
        raise ConfigError(
            f"tls = none with listen = {listeners.address} would send prompts in the clear",
            remedy="use --tls auto or files, or listen on 127.0.0.1 behind a proxy that has TLS",
        )
    if not listeners.hosts:
        raise ConfigError("hosts is empty", remedy="name one with --host")


def _urls(listeners: Listeners, port: int | None, plain: str, encrypted: str) -> tuple[str, ...]:
    if not port:
        return ()
    scheme = plain if listeners.tls == "none" else encrypted
    return tuple(accesses.Server(scheme, host, port).url for host in listeners.hosts)


def _remotes(facts: Facts, options: LeafOptions) -> tuple[str, ...]:
    if options.hubs:
        for url in options.hubs:
            accesses.server(url)
        return options.hubs
    known = facts.websockets if options.is_websocket else facts.leaf_servers
    if not known:
        kind = "websocket" if options.is_websocket else "leaf"
        raise ConfigError(
            f"the hub of {facts.name} has no {kind} port that is known here",
            remedy="name its address with --hub",
        )
    return known


def _tls(layout: MeshLayout, root: Path, listeners: Listeners, *, now: float) -> TlsFiles | None:
    """Write what a server in *root* proves itself with; return where it is."""
    match listeners.tls:
        case "none":
            return None
        case "files":
            if listeners.certificate is None or listeners.key is None:
                raise ConfigError(
                    "tls = files needs a certificate and a key",
                    remedy="use --certificate FILE --key FILE",
                )
            if listeners.ca is not None:
                _trust_also(layout, listeners.ca)
            return TlsFiles(
                certificate=str(listeners.certificate.resolve()), key=str(listeners.key.resolve())
            )
        case "auto":
            if not layout.facts.is_own_authority:
                raise ConfigError("this mesh has no authority of its own", remedy="use --tls files")
            folder = files.make_private_dir(root / "tls")
            authority = tls.Pair(
                layout.ca.read_text(),
                files.read_private(layout.tls_dir / "ca.key", what="key"),
            )
            _write_pair(folder, "server", tls.server(authority, hosts=listeners.hosts, now=now))
            return TlsFiles(certificate="tls/server.pem", key="tls/server.key")
        case other:
            assert_never(other)


def _trust_also(layout: MeshLayout, path: Path) -> None:
    """Add an authority to those that access files name; the first stays the mesh's own."""
    known = layout.ca.read_text() if layout.ca.exists() else ""
    try:
        added = path.read_text()
    except OSError as error:
        raise ConfigError(f"cannot read ca {path}: {error.strerror}") from error
    if added not in known:
        files.write(layout.ca, known + added, mode=files.PUBLIC_FILE)


def _write_pair(folder: Path, name: str, pair: tls.Pair) -> None:
    files.write(folder / f"{name}.pem", pair.certificate, mode=files.PUBLIC_FILE)
    files.write(folder / f"{name}.key", pair.key)
