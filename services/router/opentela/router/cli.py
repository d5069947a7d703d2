"""The command `otela router`."""

import gc
from pathlib import Path
from typing import Final

import click

from opentela import service
from opentela.mesh import access as accesses
from opentela.router.config import RouterConfig
from opentela.router.shell import RouterShell
from opentela.service import Lifecycle
from opentela.settings import Settings, add_options
from opentela.telemetry.log import get_logger

log: Final = get_logger()


@click.command()
@add_options(RouterConfig, service="router")
def router(settings: Settings[RouterConfig]) -> None:
    """Run a router, the endpoint for OpenAI clients."""
    config = settings.value
    service.run(lambda life: serve(life, config), name="router", log_config=config.log)


async def serve(life: Lifecycle, config: RouterConfig) -> None:
    """Be a router until asked to stop, then finish what runs.

    Raises:
        CredentialError: The access file is unusable or refused.
        MeshUnavailableError: No server of the mesh answers.
        PortInUseError: Somebody else listens where clients should connect.
    """
    access = accesses.read_for(Path(config.access), "router")
    await life.health.open(config.health)
    async with RouterShell.open(life, config, access) as shell:
        # What is here now stays: the collector need not look at it for each few hundred requests.
        gc.collect()
        gc.freeze()
        log.info("router_started", name=access.name, url=shell.url)
        await life.stopping.wait()
        await shell.drain()
    log.info("router_stopped", name=access.name)
