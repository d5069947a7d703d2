"""`otela mesh members`, `revoke` and `upgrade`: who was let in, and what becomes of them."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
import msgspec

from opentela.core.errors import MeshUnavailableError
from opentela.mesh import push, setup
from opentela.mesh.cli_options import dir_option, json_option, print_json
from opentela.mesh.layout import Admission, MeshLayout
from opentela.mesh.upgrade import upgraded
from opentela.service import SystemClock
from opentela.telemetry import log as logs
from opentela.telemetry.config import LogConfig

_CLOCK: Final = SystemClock()
_QUIET: Final = LogConfig(level="error", form="text")


@click.command()
@dir_option
@click.option("--provider", default="", help="Revoke every access file of this provider.")
@click.option(
    "--name",
    default="",
    help="Revoke every access file of this registry, router, placer, tool or leaf.",
)
@click.option(
    "--id", "id_", default="", help="Revoke one access file, by its id in `otela mesh members`."
)
@json_option
def revoke(*, folder: Path, provider: str, name: str, id_: str, as_json: bool) -> None:
    """Revoke access, at once and everywhere."""
    if sum(map(bool, (provider, name, id_))) != 1:
        raise click.UsageError("give one of --provider NAME, --name NAME or --id ID")
    layout = MeshLayout(folder)
    revoked = setup.revoke(layout, provider=provider, name=name, key=id_, now=_CLOCK.wall())
    access = setup.system_access(layout, now=_CLOCK.wall())
    logs.configure(service="mesh", config=_QUIET)
    try:
        asyncio.run(push.accounts(access, layout))
    except MeshUnavailableError as error:
        raise MeshUnavailableError(
            f"revoked in {folder}, but the hub was not told: {error}",
            remedy="start the hub and run this again, or start it from this folder",
        ) from error
    if as_json:
        print_json(msgspec.to_builtins(revoked))
    else:
        click.echo(f"{provider or name or id_} is out: {len(revoked)} revoked, the hub knows")


@click.command()
@dir_option
@json_option
def members(*, folder: Path, as_json: bool) -> None:
    """List everybody who has been admitted."""
    admissions = MeshLayout(folder).admissions
    if as_json:
        print_json(msgspec.to_builtins(admissions))
        return
    now = _CLOCK.wall()
    click.echo(f"{'ID':<10}  {'ROLE':<9} {'NAME':<20} {'SITE':<12} {'SINCE':<10}  STANDING")
    for one in admissions:
        if one.is_system and one.role == "leaf":
            continue  # the same server once more
        issued = datetime.fromtimestamp(one.issued_at, UTC)
        click.echo(
            f"{one.id}  {one.role:<9} {one.name:<20} {one.site or '-':<12} {issued:%Y-%m-%d}"
            f"  {_standing(one, now)}"
        )


@click.command()
@dir_option
def upgrade(*, folder: Path) -> None:
    """Upgrade a mesh of an earlier version to this one.

    Keys, addresses and access files stay valid. Prints what it changed; a second run changes
    nothing.
    """
    done = upgraded(MeshLayout(folder), now=_CLOCK.wall())
    for line in done or ("nothing to do",):
        click.echo(f"{folder}: {line}")


def _standing(admission: Admission, now: float) -> str:
    if admission.revoked_at:
        return "revoked"
    if not admission.expires_at:
        return "let in"
    left = admission.expires_at - now
    return f"{left / 86400:.1f} days left" if left > 0 else "expired"
