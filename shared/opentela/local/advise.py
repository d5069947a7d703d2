"""`otela advise`: a site's scheduler says what it knows of sessions, for hooks and epilogues."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from opentela import service
from opentela.core import ids
from opentela.core.errors import ConfigError
from opentela.core.ids import ProviderId, SessionId, SiteId
from opentela.local.look import until_stopped
from opentela.mesh import access as accesses
from opentela.mesh import nats_bus
from opentela.mesh.access import Access
from opentela.service import Lifecycle
from opentela.wire import control, subjects
from opentela.wire.control import Advice
from opentela.wire.subjects import SessionPath

TIMEOUT_S: Final = 5.0
"""To reach a server: an epilogue must not hold a node for longer."""


async def advise(access: Access, site: str, sessions: Iterable[str], advice: Advice) -> None:
    """Tell every registry what is known of *sessions* of the provider of *access*.

    Raises:
        MeshUnavailableError: No server answers.
    """
    async with await nats_bus.connect(access, name="otela advise", timeout_s=TIMEOUT_S) as bus:
        for session in sessions:
            path = SessionPath(ProviderId(access.provider), SiteId(site), SessionId(session))
            await bus.publish(subjects.advice(path), control.encode(advice))


@click.command("advise")
@click.option(
    "--access",
    "access_file",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="OTELA_PROVIDER_ACCESS",
    required=True,
    help="Access file of the sessions' provider.",
)
@click.option("--site", default="", help="Site at which they run. [default: as for otela start]")
@click.option(
    "--ended/--alive", "is_ended", default=True, help="What the scheduler says about their jobs."
)
@click.option("--reason", default="", help="Why they ended, to be shown to people.")
@click.argument("sessions", nargs=-1)
def command(
    *, access_file: Path, site: str, is_ended: bool, reason: str, sessions: tuple[str, ...]
) -> None:
    """Tell the mesh that the jobs of SESSIONS have ended, or still run.

    Without SESSIONS, ids are read from standard input, one per line. A silent session whose job has
    ended leaves at once, without the grace; one that still sends heartbeats stays.
    """
    access = accesses.read_for(access_file, "provider")
    named = sessions or tuple(line.strip() for line in sys.stdin if line.strip())
    for session in named:
        if not ids.is_older(SessionId(session), sys.maxsize):
            raise ConfigError(
                f"{session!r} is not a session's id", remedy="see them with: otela sessions"
            )
    site = site or access.site or os.environ.get("SLURM_CLUSTER_NAME", "") or "local"
    ids.name(site, field="--site")
    advice = Advice(alive=not is_ended, reason=reason)

    async def main(life: Lifecycle) -> None:
        await until_stopped(life, advise(access, site, named, advice))

    service.run_for_people(main, name="advise")
