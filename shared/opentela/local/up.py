"""`otela up`: the mesh of this machine, kept running until Ctrl-C."""

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
from rich.console import Console

from opentela.core.clock import Clock
from opentela.local import tables
from opentela.local.home import Home
from opentela.local.mesh import LocalMesh
from opentela.service import Lifecycle


async def up(
    life: Lifecycle,
    home: Home,
    *,
    api: str,
    clock: Clock,
    as_json: bool,
    placer: Path | None = None,
) -> None:
    """Run the mesh of *home* until asked to stop; tell once where everything is.

    With *placer*, a placer runs too, which that file configures.

    Raises:
        OtelaError: It does not start, or a part of it cannot be kept running.
    """
    async with AsyncExitStack() as stack:
        with Console(stderr=True).status("starting hub, registry and router"):
            mesh = await stack.enter_async_context(
                LocalMesh.open(home, api=api, clock=clock, placer=placer)
            )
        _tell(mesh, as_json=as_json)

        def report(line: str) -> None:
            sys.stderr.write(f"otela up: {line}\n")
            # A process that was started again has another id, and another health page.
            mesh.record()

        async with asyncio.TaskGroup() as group:
            keepers = [group.create_task(part.keep(clock, report)) for part in mesh.parts.values()]
            await life.stopping.wait()
            for keeper in keepers:
                keeper.cancel()


def _tell(mesh: LocalMesh, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(mesh.state) + b"\n")
        sys.stdout.flush()
        return
    console = Console()
    state = mesh.state
    tables.show(
        console,
        tables.services(state, ["ready"] * len(state.services)),
        tables.logs(mesh.home),
        tables.no_session(str(mesh.home.access("provider"))),
        tables.invitation(state),
        tables.farewell(),
    )
