"""The command `otela start`."""

import gc
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path

import click
import msgspec

from opentela import service
from opentela.core import ids
from opentela.core.errors import ConfigError, CredentialError
from opentela.core.ids import NodeId, ProviderId, SiteId
from opentela.local.home import Home
from opentela.mesh import access as accesses
from opentela.mesh.access import Access
from opentela.service import Lifecycle
from opentela.settings import Settings, add_options
from opentela.supervisor import command
from opentela.supervisor.claims import Place
from opentela.supervisor.config import SupervisorConfig
from opentela.supervisor.run import serve
from opentela.supervisor.tale import Tale
from opentela.supervisor.terminal import Terminal


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog="Example: otela start --access me.toml -- vllm serve Qwen/Qwen3-8B --port {port}",
)
@click.option(
    "--access",
    metavar="FILE",
    help="Access file of a provider, from `otela mesh invite`.",
)
@click.option("--site", help="Name of this site. [default: the access file's, Slurm's or `local`]")
@click.option("--node", help="Name of this host or allocation. [default: the host name]")
@click.option(
    "--walltime", default="", help="Time limit: 2h, 90m. [default: that of the Slurm job]"
)
@click.option(
    "--model-alias",
    "aliases",
    multiple=True,
    metavar="ALIAS[=MODEL]",
    help="Another name for the engine's model; repeatable.",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    help="Label that clients can select by; repeatable.",
)
@click.option("--report-fd", "report_to", type=int, hidden=True)
@add_options(SupervisorConfig, service="supervisor")
@click.argument("argv", metavar="[--] COMMAND...", nargs=-1, type=click.UNPROCESSED)
def start(
    *,
    settings: Settings[SupervisorConfig],
    access: str | None,
    site: str | None,
    node: str | None,
    walltime: str,
    aliases: tuple[str, ...],
    labels: tuple[str, ...],
    report_to: int | None,
    argv: tuple[str, ...],
) -> None:
    """Run an engine and offer its models to the mesh.

    The command is run as given, without a shell. `{port}` in it is replaced by a free port, which
    the engine also finds in $OTELA_PORT. On a terminal, a few lines tell what happens; for the log
    and the engine's own output, add `--set log.form=text`.
    """
    config = settings.value
    config = msgspec.structs.replace(
        config,
        access=access or config.access,
        site=site or config.site,
        node=node or config.node,
        aliases={**config.aliases, **pairs(aliases, "--model-alias", needs_value=False)},
        labels={**config.labels, **pairs(labels, "--label", needs_value=True)},
    )
    command.check(argv, os.environ)
    admitted = admission(config)
    place = placed(config, admitted, os.environ, socket.gethostname())

    tale = Tale(place=f"provider {place.provider}, site {place.site}", api=local_api(config.access))
    terminal = Terminal.of(config, os.environ, tale)

    async def main(life: Lifecycle) -> None:
        # What is here now stays: a whole collection, which stops every stream, has none of it.
        gc.collect()
        gc.freeze()
        # Closed before anybody words our failure on the same screen.
        with closing(terminal) if terminal else nullcontext():
            await serve(
                life,
                config,
                argv,
                access=admitted,
                place=place,
                walltime=walltime,
                report_to=report_to,
                terminal=terminal,
            )

    tell = terminal.tell if terminal else None
    service.run(main, name="supervisor", log_config=config.log, tell=tell)


def local_api(access: str) -> str:
    """Return the address of this machine's router, if *access* is for its mesh; else nothing."""
    state = Home(Path(access).resolve().parent.parent).state()
    return state.api if state else ""


def admission(config: SupervisorConfig) -> Access:
    """Return what lets us into the mesh.

    Raises:
        ConfigError: No file was named.
        CredentialError: It is unusable, or not a provider's.
    """
    if not config.access:
        raise ConfigError("no access file", remedy="give --access FILE; ask your operator for one")
    return accesses.read_for(Path(config.access), "provider")


def placed(
    config: SupervisorConfig, access: Access, environ: Mapping[str, str], host: str
) -> Place:
    """Return where our sessions live.

    Raises:
        ConfigError: A name is none.
        CredentialError: The access is for another site.
    """
    slurm = _as_name(environ.get("SLURM_CLUSTER_NAME", ""))
    site = ids.name(config.site or access.site or slurm or "local", field="site")
    if access.site and site != access.site:
        raise CredentialError(
            f"the access file is for site {access.site}, not for {site}",
            remedy=f"omit --site, or get an access file for {site}",
        )
    node = ids.name(config.node, field="node") if config.node else _as_name(host) or "node"
    return Place(ProviderId(access.provider), SiteId(site), NodeId(node))


def _as_name(text: str) -> str:
    """Return *text* as a name, as near as can be; empty when nothing of it can stand in one."""
    first = text.partition(".")[0].lower()
    kept = "".join(one if ids.is_name(one) or one in "-_" else "-" for one in first)
    return kept.strip("-_")[:63]


def pairs(given: Sequence[str], field: str, *, needs_value: bool) -> dict[str, str]:
    """Return the pairs that an option was *given*.

    Raises:
        ConfigError: One is none; names the option *field*.
    """
    found = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not key or (needs_value and not equals):
            if needs_value:
                raise ConfigError(f"{field} {one!r} is not a pair", remedy="write it as key=value")
            raise ConfigError(
                f"{field} {one!r} names no alias",
                remedy="write it as ALIAS, or as ALIAS=MODEL where the engine has several",
            )
        found[key] = value
    return found
