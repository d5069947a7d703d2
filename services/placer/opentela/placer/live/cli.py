"""The command `otela placer`."""

from pathlib import Path
from typing import Final

import click
import msgspec

from opentela import service
from opentela.mesh import access as accesses
from opentela.mesh import nats_bus, warrants
from opentela.mesh.keeper import BusState
from opentela.placer import files
from opentela.placer.live.checks import check
from opentela.placer.live.config import PlacerConfig
from opentela.placer.live.decide import Planner
from opentela.placer.live.ear import Ear
from opentela.placer.live.shell import PlacerShell
from opentela.placer.live.specs import specs
from opentela.service import Lifecycle
from opentela.settings import Settings, add_options
from opentela.telemetry.log import get_logger

log: Final = get_logger()


@click.command()
@click.option(
    "--dry-run", is_flag=True, help="Report what would be started and stopped, and do nothing."
)
@add_options(PlacerConfig, service="placer")
def placer(settings: Settings[PlacerConfig], *, dry_run: bool) -> None:
    """Run a placer, which moves models between agents with demand."""
    config = settings.value
    if dry_run:
        config = msgspec.structs.replace(config, dry_run=True)
    service.run(lambda life: serve(life, config), name="placer", log_config=config.log)


async def serve(life: Lifecycle, config: PlacerConfig) -> None:
    """Be a placer until asked to stop.

    Raises:
        ConfigError: What is configured makes no sense.
        CredentialError: The access file is unusable or refused.
        MeshUnavailableError: No server of the mesh answers.
    """
    planner = _planner(config)
    access = accesses.read_for(Path(config.access), "placer")
    shells: list[PlacerShell] = []

    def on_state(state: BusState, _why: str) -> None:
        for shell in shells:
            if state is BusState.CONNECTED:
                shell.mesh_back()

    await life.health.open(config.health)
    async with (
        await nats_bus.connect(access, name=access.name, on_state=on_state) as bus,
        Ear(access).open() as ear,
        PlacerShell.open(
            bus,
            ear=ear,
            name=access.name,
            verify=warrants.authority(access),
            config=config,
            planner=planner,
            on_ready=life.ready,
        ) as shell,
    ):
        shells.append(shell)
        life.health.status = shell.status
        log.info("placer_started", name=access.name, dry_run=config.dry_run)
        await life.stopping.wait()
        shells.clear()
    log.info("placer_stopped", name=access.name)


def _planner(config: PlacerConfig) -> Planner:
    check(config)
    known, unknown = specs(config.models, lambda name: files.read_json(Path(name)))
    for name in unknown:
        log.info("model_unknown_to_simulator", model=name)
    return Planner(config, known)
