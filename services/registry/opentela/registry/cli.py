"""The command `otela registry`."""

from pathlib import Path
from typing import Final

import click

from opentela import service
from opentela.mesh import access as accesses
from opentela.mesh import nats_bus, warrants
from opentela.mesh.keeper import BusState
from opentela.registry.config import RegistryConfig
from opentela.registry.shell import RegistryShell
from opentela.service import Lifecycle
from opentela.settings import Settings, add_options
from opentela.telemetry.log import get_logger

log: Final = get_logger()


@click.command()
@add_options(RegistryConfig, service="registry")
def registry(settings: Settings[RegistryConfig]) -> None:
    """Run a registry, which keeps track of all sessions."""
    config = settings.value
    service.run(lambda life: serve(life, config), name="registry", log_config=config.log)


async def serve(life: Lifecycle, config: RegistryConfig) -> None:
    """Be a registry until asked to stop.

    Raises:
        CredentialError: The access file is unusable or refused.
        MeshUnavailableError: No server of the mesh answers.
    """
    access = accesses.read_for(Path(config.access), "registry")
    shells: list[RegistryShell] = []

    def on_state(state: BusState, _why: str) -> None:
        for shell in shells:
            shell.mesh_changed(connected=state is BusState.CONNECTED)

    await life.health.open(config.health)
    async with (
        await nats_bus.connect(access, name=access.name, on_state=on_state) as bus,
        RegistryShell.open(
            bus,
            seal=warrants.seal(access),
            verify=warrants.authority(access),
            config=config,
            on_ready=life.ready,
        ) as shell,
    ):
        shells.append(shell)
        life.health.status = shell.status
        log.info("registry_started", name=access.name)
        await life.stopping.wait()
        shells.clear()
    log.info("registry_stopped", name=access.name)
