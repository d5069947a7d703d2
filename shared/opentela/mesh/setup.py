"""Sets a mesh up and lets members in: what `otela mesh …`, `otela up` and tests call.

There is one way to authenticate, JWTs under an operator, on one machine as between sites. Whoever
holds the mesh's folder admits, scopes and revokes; servers are never reconfigured for it.
Every function is handed the time, as Unix seconds.
"""

import shutil
from pathlib import Path

import msgspec

from opentela.core import ids
from opentela.core.errors import ConfigError
from opentela.mesh import access as accesses
from opentela.mesh import files, hub, jwt, permissions, tls
from opentela.mesh import leaf as leaves
from opentela.mesh.admission import admit, invite, renew_accounts, revoke, role_access
from opentela.mesh.identity import Identity
from opentela.mesh.layout import JETSTREAM_DIR, SEEDS, Admission, Facts, MeshLayout
from opentela.mesh.listeners import LOOPBACK, Listeners, certify, write_pair
from opentela.mesh.permissions import Member
from opentela.mesh.server_conf import Trust

__all__ = [
    "LOOPBACK",
    "LeafLayout",
    "LeafOptions",
    "Listeners",
    "add_leaf",
    "init_mesh",
    "invite",
    "revoke",
    "role_access",
    "system_access",
]


def init_mesh(
    root: Path,
    listeners: Listeners,
    *,
    now: float,
    name: str = "mesh",
    force: bool = False,
    has_jetstream: bool = False,
) -> MeshLayout:
    """Make the folder of a new mesh: keys, accounts and a hub's configuration.

    Args:
        root: The folder.
        listeners: Where the hub is dialled.
        now: Unix seconds.
        name: Of the mesh, for people.
        force: Whether to replace one that is there.
        has_jetstream: Whether the hub keeps lifecycle events, in the folder.

    Raises:
        ConfigError: There is one already and *force* is not given, or *listeners* make no sense.
    """
    listeners.check()
    ids.name(name, field="name")
    layout = MeshLayout(root)
    _make_folders(layout, force=force)
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
        servers=listeners.urls(listeners.port, "nats", "tls"),
        websockets=listeners.urls(listeners.websocket_port, "ws", "wss"),
        leaf_servers=listeners.urls(listeners.leaf_port, "nats", "tls"),
        is_own_authority=listeners.tls == "auto",
        has_jetstream=has_jetstream,
    )
    layout.write_admissions(())
    layout.write_facts(facts)
    renew_accounts(layout, now=now)
    if listeners.tls == "auto":
        write_pair(layout.tls_dir, "ca", tls.authority(name=f"opentela {name}", now=now))
    conf = hub.Hub(
        name=f"{name}-hub",
        trust=Trust(operator=facts.operator, system_account=system),
        listen=listeners.address,
        port=listeners.port,
        leaf_port=listeners.leaf_port,
        websocket_port=listeners.websocket_port,
        monitor_port=listeners.monitor_port,
        tls=certify(layout, root, listeners, now=now),
        jetstream_dir="." if has_jetstream else "",
    )
    files.write(layout.conf, hub.render(conf))
    layout.unfinished.unlink()
    return layout


def system_access(layout: MeshLayout, *, now: float) -> accesses.Access:
    """Return what lets us tell servers; a mesh that `otela up` made has none before."""
    path = layout.access("sys")
    if not path.exists():
        accesses.write(path, role_access(layout, role="sys", name="sys", now=now))
    return accesses.read(path)


def _make_folders(layout: MeshLayout, *, force: bool) -> None:
    is_old = layout.has_facts
    if layout.exists and not force:
        raise ConfigError(
            f"there is a mesh in {layout.root} already",
            remedy="use --force to replace it; everybody then needs a new access file",
        )
    files.make_private_dir(layout.root)
    files.write(layout.unfinished, "")
    for part in ("keys", "jwt", "tls", "access", "leaves", JETSTREAM_DIR):
        if is_old:
            # What the earlier mesh left here opens nothing any more.
            shutil.rmtree(layout.root / part, ignore_errors=True)
        files.make_private_dir(layout.root / part)


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
    _check(options)
    facts = layout.facts
    remotes = _remotes(facts, options)
    root = root or layout.leaf(options.site)
    for folder in (root, root / "jwt"):
        files.make_private_dir(folder)
    certificate = certify(layout, root, options.listeners, now=now)
    name = f"leaf-{options.site}"
    link = Admission(key="", name=name, role="leaf", site=options.site, issued_at=int(now))
    own = msgspec.structs.replace(link, is_system=True)
    carried = permissions.of_leaf(
        (options.site, *options.behind), providers=options.providers, members=options.members
    )
    with layout.locked():
        files.write(root / "leaf.creds", admit(layout, link, carried))
        files.write(root / "sys.creds", admit(layout, own, permissions.SYSTEM_OF_LEAF))
        for account in (facts.account, facts.system):
            files.write(root / "jwt" / f"{account}.jwt", layout.account_jwt(account))
    has_ca = layout.ca.exists()
    if has_ca:
        files.write(root / "ca.pem", layout.ca.read_text(), mode=files.PUBLIC_FILE)
    conf = leaves.Leaf(
        name=f"{facts.name}-{name}",
        trust=Trust(operator=facts.operator, system_account=facts.system),
        account=facts.account,
        remotes=remotes,
        credentials="leaf.creds",
        system_credentials="sys.creds",
        remote_ca="ca.pem" if has_ca else "",
        listen=options.listeners.address,
        port=options.listeners.port,
        leaf_port=options.listeners.leaf_port,
        websocket_port=options.listeners.websocket_port,
        monitor_port=options.listeners.monitor_port,
        tls=certificate,
    )
    files.write(root / "leaf.conf", leaves.render(conf))
    return LeafLayout(
        root=root,
        conf=root / "leaf.conf",
        servers=options.listeners.urls(options.listeners.port, "nats", "tls"),
    )


def _check(options: LeafOptions) -> None:
    for site in (options.site, *options.behind):
        ids.name(site, field="site")
    options.listeners.check()
    if options.behind and options.listeners.leaf_port is options.listeners.websocket_port is None:
        raise ConfigError(
            f"leaves of {' and '.join(options.behind)} could not dial {options.site}",
            remedy="give it a port for them with --leaf-port or --websocket-port",
        )


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
