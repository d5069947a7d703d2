"""The command `otela agent`."""

import gc
import os
import socket

import click
import msgspec

from opentela import service
from opentela.service import Lifecycle
from opentela.settings import Settings, add_options
from opentela.supervisor.agent.config import AgentConfig
from opentela.supervisor.agent.run import serve
from opentela.supervisor.cli import admission, pairs, placed


@click.command(epilog="Example: otela agent --access me.toml --walltime 8h --label tier=a")
@click.option(
    "--access",
    metavar="FILE",
    help="Access file of a provider, from `otela mesh invite`.",
)
@click.option("--site", help="Name of this site. [default: the access file's, Slurm's or `local`]")
@click.option("--node", help="Name of this host or allocation. [default: the host name]")
@click.option(
    "--gpus",
    metavar="LIST",
    default="",
    help="GPUs to offer, such as 0,1. [default: all of the allocation]",
)
@click.option(
    "--slots",
    metavar="N",
    type=click.IntRange(1, 256),
    help="Offer N places on the CPU instead of GPUs.",
)
@click.option(
    "--walltime", default="", help="Time limit: 2h, 90m. [default: that of the Slurm job]"
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    help="Label that clients can select by; replicas inherit it; repeatable.",
)
@add_options(AgentConfig, service="agent")
def agent(
    *,
    settings: Settings[AgentConfig],
    access: str | None,
    site: str | None,
    node: str | None,
    gpus: str,
    slots: int | None,
    walltime: str,
    labels: tuple[str, ...],
) -> None:
    """Offer an allocation's GPUs, and run what a placer assigns to them.

    Engines are started from templates: those in the configuration, and built-in ones for vLLM,
    SGLang and llama.cpp where these are installed. A placer names a template and a model; it never
    sends a command.
    """
    given = settings.value
    supervisor = msgspec.structs.replace(
        given.supervisor,
        access=access or given.supervisor.access,
        site=site or given.supervisor.site,
        node=node or given.supervisor.node,
        labels={**given.supervisor.labels, **pairs(labels, "--label", needs_value=True)},
    )
    config = msgspec.structs.replace(
        given,
        supervisor=supervisor,
        gpus=tuple(filter(None, (one.strip() for one in gpus.split(",")))) or given.gpus,
        slots=slots or given.slots,
    )
    admitted = admission(supervisor)
    place = placed(supervisor, admitted, os.environ, socket.gethostname())

    async def main(life: Lifecycle) -> None:
        gc.collect()
        gc.freeze()
        await serve(life, config, access=admitted, place=place, walltime=walltime)

    service.run(main, name="agent", log_config=supervisor.log)
