"""`otela mesh`: for whoever runs a mesh. Every command is a thin word for a function of `setup`."""

import asyncio
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from opentela.mesh import access as accesses
from opentela.mesh import check as checks
from opentela.mesh import setup
from opentela.mesh.access import Access
from opentela.mesh.cli_members import members, revoke, upgrade
from opentela.mesh.cli_options import FOLDER, FOLDER_DEFAULT, dir_option, json_option, print_json
from opentela.mesh.layout import MeshLayout
from opentela.mesh.leaf_members import unknown
from opentela.mesh.listeners import CLIENT_PORT, LEAF_PORT, Listeners, TlsMode
from opentela.mesh.permissions import Member, Role
from opentela.mesh.server import find_server
from opentela.service import SystemClock
from opentela.telemetry import log as logs
from opentela.telemetry.config import LogConfig

ROLES: Final = ("registry", "router", "placer", "tool", "sys")
"""Whom `role` lets in."""
FIRST_ROLES: Final = ("registry", "router", "tool", "sys")
"""Each gets an access file of its own name when a mesh is made; a placer, which may command every
provider's nodes, only when somebody asks for one."""

_CLOCK: Final = SystemClock()
_QUIET: Final = LogConfig(level="error", form="text")
"""What goes wrong is told in words of the command's own."""
_SPAN: Final = re.compile(r"(\d+)([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LISTEN_HELP: Final = "Address to listen on. [default: all with TLS, else loopback]"
_FILE: Final = click.Path(path_type=Path, dir_okay=False)


def _span(_ctx: click.Context, _param: click.Parameter, value: str) -> float:
    if not value:
        return 0.0
    if match := _SPAN.fullmatch(value):
        return float(int(match[1]) * _SECONDS[match[2]])
    raise click.BadParameter(f"{value!r} is not a length of time; write 90s, 45m, 12h or 30d")


_out_option = click.option("--out", type=_FILE, help="File to write. [default: in --dir]")
_expires_option = click.option(
    "--expires",
    default="",
    callback=_span,
    help="Valid for this long: 30d, 12h. [default: for ever]",
)
_servers_option = click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="URL",
    help="Server to dial, such as a site's leaf; repeatable, in order. [default: the hub]",
)


def _listener_options(*, tls: str | None, leaf_port: int | None) -> Callable[[Any], Any]:
    options = (
        click.option(
            "--host",
            "hosts",
            multiple=True,
            help="Host name under which others reach it; repeatable.",
        ),
        click.option("--listen", default="", help=_LISTEN_HELP),
        click.option("--port", default=CLIENT_PORT, show_default=True, help="Port for clients."),
        click.option(
            "--leaf-port",
            type=int,
            default=leaf_port,
            show_default=True,
            help="Port for leaf servers.",
        ),
        click.option(
            "--websocket-port", type=int, help="Port for clients and leaves behind proxies."
        ),
        click.option(
            "--monitor-port", type=int, help="Port of nats-server's monitoring page, on loopback."
        ),
        click.option(
            "--tls",
            type=click.Choice(["auto", "none", "files"]),
            default=tls,
            show_default=True,
            help="auto: the mesh's own authority; files: your certificate; none: loopback only."
            + ("" if tls else " [default: auto with --host, else none]"),
        ),
        click.option("--certificate", type=_FILE, help="PEM certificate chain, for --tls files."),
        click.option("--key", type=_FILE, help="Private key of that certificate."),
        click.option(
            "--ca", type=_FILE, help="Authority that signed it, unless systems trust it already."
        ),
    )

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


@click.group()
def mesh() -> None:
    """Set up a mesh, admit providers, connect sites."""


for _command in (members, revoke, upgrade):
    mesh.add_command(_command)


@mesh.command()
@dir_option
@click.option(
    "--name", default="mesh", show_default=True, help="Name of the mesh, shown to people."
)
@_listener_options(tls="auto", leaf_port=LEAF_PORT)
@click.option(
    "--force", is_flag=True, help="Replace an existing mesh; everybody then needs new access files."
)
@click.option(
    "--jetstream/--no-jetstream",
    default=True,
    show_default=True,
    help="Let the hub keep lifecycle events for 30 days, in the folder; placers need it too.",
)
@json_option
def init(
    *, folder: Path, name: str, force: bool, jetstream: bool, as_json: bool, **listeners: Any
) -> None:
    """Create a new mesh.

    Writes keys, the hub's configuration, and access files for a registry, a router and a tool.
    """
    if not listeners["hosts"]:
        listeners["hosts"] = (socket.gethostname(),)
    now = _CLOCK.wall()
    layout = setup.init_mesh(
        folder,
        Listeners(**listeners),
        now=now,
        name=name,
        force=force,
        has_jetstream=jetstream,
    )
    for role in FIRST_ROLES:
        accesses.write(
            layout.access(role), setup.role_access(layout, role=role, name=role, now=now)
        )
    if as_json:
        print_json({"dir": str(folder), **msgspec.to_builtins(layout.facts)})
        return
    click.echo(f"{name} is set up in {folder}; back up its keys/ and keep them secret")
    click.echo(f"  start the hub    otela mesh serve {layout.conf}")
    click.echo(f"  then a registry  otela registry --set access={layout.access('registry')}")
    click.echo(f"  and a router     otela router --set access={layout.access('router')}")
    click.echo(f"  look around      otela status --access {layout.access('tool')}")
    click.echo(f"  let someone in   otela mesh invite{_dir_flag(folder)} --provider NAME")
    click.echo(f"  connect a site   otela mesh leaf{_dir_flag(folder)} --site NAME")


@mesh.command()
@dir_option
@click.option("--role", type=click.Choice(ROLES), required=True, help="What to admit.")
@click.option("--name", help="Name, unique in the mesh. [default: the role]")
@click.option("--site", default="", help="Site of a registry that is not beside the hub.")
@_servers_option
@_expires_option
@_out_option
@json_option
def role(
    *,
    folder: Path,
    role: Any,
    name: str | None,
    site: str,
    servers: tuple[str, ...],
    expires: float,
    out: Path | None,
    as_json: bool,
) -> None:
    """Admit a registry, router, placer or tool: write its access file.

    Does nothing if that file exists already.
    """
    layout, now = MeshLayout(folder), _CLOCK.wall()
    name = name or role
    path = out or layout.access(name)
    if path.exists():
        _told(path, accesses.read(path), as_json=as_json, is_new=False)
        return
    ends_at = _end(now, expires)
    access = setup.role_access(
        layout, role=role, name=name, site=site, servers=servers, now=now, expires_at=ends_at
    )
    accesses.write(path, access)
    _told(path, access, as_json=as_json)


@mesh.command()
@dir_option
@click.option("--provider", required=True, help="Name of the provider.")
@click.option("--site", default="", help="The only site where the file is valid. [default: any]")
@_servers_option
@_expires_option
@_out_option
@json_option
def invite(
    *,
    folder: Path,
    provider: str,
    site: str,
    servers: tuple[str, ...],
    expires: float,
    out: Path | None,
    as_json: bool,
) -> None:
    """Admit a provider: write its access file.

    The provider's supervisors need nothing else.
    """
    layout, now = MeshLayout(folder), _CLOCK.wall()
    access = setup.invite(
        layout,
        provider=provider,
        site=site,
        servers=servers,
        now=now,
        expires_at=_end(now, expires),
    )
    path = out or layout.access("-".join(filter(None, ("provider", provider, site))))
    accesses.write(path, access)
    _told(path, access, as_json=as_json)


@mesh.command()
@dir_option
@click.option("--site", required=True, help="Name of the site, of your choice.")
@click.option("--providers", default="", help="Providers at the site: p,q. [default: all]")
@click.option("--registry", "registries", multiple=True, help="Registry at the site; repeatable.")
@click.option("--router", "routers", multiple=True, help="Router at the site; repeatable.")
@click.option("--placer", "placers", multiple=True, help="Placer at the site; repeatable.")
@click.option("--tool", "tools", multiple=True, help="Tool at the site; repeatable.")
@click.option(
    "--behind", multiple=True, metavar="SITE", help="Site whose leaf dials this one; repeatable."
)
@click.option("--hub", "hubs", multiple=True, metavar="URL", help="Address of the hub.")
@click.option("--websocket", "is_websocket", is_flag=True, help="Dial the hub's websocket port.")
@_listener_options(tls=None, leaf_port=None)
@click.option(
    "--out", type=FOLDER, help="Folder to write, to be copied to the site. [default: in --dir]"
)
@json_option
def leaf(*, folder: Path, out: Path | None, as_json: bool, **given: Any) -> None:
    """Connect a site: write the folder of its leaf server.

    The leaf only dials out; nothing dials in.
    """
    members = tuple(
        Member(role=one, name=name)
        for one, option in (
            (Role.REGISTRY, "registries"),
            (Role.ROUTER, "routers"),
            (Role.PLACER, "placers"),
            (Role.TOOL, "tools"),
        )
        for name in given.pop(option)
    )
    options = setup.LeafOptions(
        site=given.pop("site"),
        providers=tuple(filter(None, given.pop("providers").split(","))),
        members=members,
        behind=given.pop("behind"),
        hubs=given.pop("hubs"),
        is_websocket=given.pop("is_websocket"),
        listeners=_leaf_listeners(given),
    )
    made = setup.add_leaf(MeshLayout(folder), options, now=_CLOCK.wall(), root=out)
    for line in unknown(MeshLayout(folder).admissions, options):
        click.echo(f"note: {line}", err=True)
    if as_json:
        print_json(msgspec.to_builtins(made, enc_hook=str))
        return
    click.echo(f"wrote the leaf of site {options.site} to {made.root}; copy it there and run")
    click.echo("  otela mesh serve leaf.conf")
    click.echo("invite the site's providers with")
    flags = " ".join((f"--site {options.site}", *(f"--server {url}" for url in made.servers)))
    click.echo(f"  otela mesh invite{_dir_flag(folder)} --provider NAME {flags}")


@mesh.command()
@click.argument("conf", type=click.Path(path_type=Path, exists=True, dir_okay=False))
def serve(*, conf: Path) -> None:
    """Run a hub or leaf: nats-server with CONF.

    Runs in the foreground, in CONF's folder.
    """
    binary = find_server()
    os.chdir(conf.resolve().parent)
    os.execv(binary, ["nats-server", "--config", conf.name])  # noqa: S606  that is the point


@mesh.command()
@click.argument("access", type=_FILE)
@json_option
@click.pass_context
def check(ctx: click.Context, *, access: Path, as_json: bool) -> None:
    """Check what works with an access file.

    Exits with 1 if something does not work.
    """
    logs.configure(service="mesh", config=_QUIET)

    async def run() -> list[checks.Finding]:
        findings = []
        async for finding in checks.check(accesses.read(access)):
            findings.append(finding)
            if not as_json:
                mark = "ok  " if finding.ok else "FAIL"
                click.echo(f"{mark} {finding.what}: {finding.detail}")
        return findings

    findings = asyncio.run(run())
    if as_json:
        print_json(msgspec.to_builtins(findings))
    # One server that answers is enough; everything after that must work.
    reached = [one.ok for one in findings if one.what.startswith("reach")]
    rest = [one.ok for one in findings if not one.what.startswith("reach")]
    if not (any(reached) and all(rest)):
        ctx.exit(1)


def _leaf_listeners(given: dict[str, Any]) -> Listeners:
    """Return where a site's clients dial: over a network if it has a name there."""
    tls: TlsMode = given.pop("tls") or ("auto" if given["hosts"] else "none")
    hosts = given.pop("hosts") or ("localhost",)
    return Listeners(tls=tls, hosts=hosts, **given)


def _dir_flag(folder: Path) -> str:
    return "" if folder == FOLDER_DEFAULT else f" --dir {folder}"


def _end(now: float, span: float) -> float:
    return now + span if span else 0.0


def _told(path: Path, access: Access, *, as_json: bool, is_new: bool = True) -> None:
    if as_json:
        told = {"path": str(path), "new": is_new, **msgspec.to_builtins(access)}
        print_json({key: value for key, value in told.items() if key != "credentials"})
        return
    click.echo(f"{path}: {'' if is_new else 'already '}admits {access.role} {access.name}")
    click.echo("  it is a secret: hand it over on a private channel")
