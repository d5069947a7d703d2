"""What people do with jobs from a login node: submit, follow, list, cancel."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from rich.console import Console
from rich.table import Table
from rich.text import Text

from opentela.core.clock import Clock
from opentela.core.errors import UsageError
from opentela.service import Lifecycle
from opentela.supervisor.slurm.folder import Folder, folders
from opentela.supervisor.slurm.job import Job, Phase
from opentela.supervisor.slurm.ledger import Service
from opentela.supervisor.slurm.listing import ServiceRow, length, progress, service_row
from opentela.supervisor.slurm.port import Scheduler
from opentela.supervisor.slurm.request import PREFIX

LOOK_S: Final = 1.0
LEAVE_WITHIN_S: Final = 60.0
"""For jobs that were asked to leave in order: `drain.limit_s` and the engine's own end."""
_LOOKS_A_WORD: Final = 10
_LIVE: Final = (Phase.QUEUED, Phase.RUNNING, Phase.ENDING)


class Say(Protocol):
    """Tells a person, or a program, what happened."""

    def __call__(self, words: str, **facts: object) -> None:
        """Say *words*; *facts* are for programs."""
        ...


async def submit(
    life: Lifecycle,
    slurm: Scheduler,
    folder: Folder,
    service: Service,
    clock: Clock,
    *,
    say: Say,
    follow: bool,
) -> None:
    """Submit the first job of a service; with *follow*, stay until it serves or has ended.

    Raises:
        UsageError: A service of this name has jobs already.
    """
    try:
        held = [job for job in await slurm.jobs(name=service.spec.name) if job.phase in _LIVE]
        if held:
            raise UsageError(
                f"the service {service.name} already has job {held[0].id}",
                remedy=f"choose another --name, or end it with otela cancel {service.name}",
            )
        folder.found(service)
        job = await slurm.submit(service.spec)
        folder.note_submitted(job, clock.wall())
        say(f"submitted job {job} of {service.name}", job=job, service=service.name)
        if follow:
            await _follow(life, slurm, folder, job, clock=clock, say=say)
    finally:
        await slurm.close()


async def _follow(
    life: Lifecycle,
    slurm: Scheduler,
    folder: Folder,
    number: int,
    *,
    clock: Clock,
    say: Say,
) -> None:
    service = folder.service()
    told = ""
    while not life.stopping.is_set():
        jobs = await slurm.jobs(ids=[number])
        row = _row(folder, service, jobs, clock.wall())
        words = progress(row.jobs[0]) if row.jobs else "ended"
        if words != told:
            told = words
            say(f"job {number}: {words}", job=number, progress=words)
        if not row.jobs or row.jobs[0].phase is Phase.ENDED or words == "ready":
            return
        await _pause(life, LOOK_S)


async def listed(slurm: Scheduler, top: Path, clock: Clock) -> list[ServiceRow]:
    """Return every service that has jobs, or is to have."""
    try:
        jobs = await slurm.jobs()
    finally:
        await slurm.close()
    rows = []
    for folder in folders(top):
        service = folder.service()
        own = [job for job in jobs if job.name == service.spec.name]
        rows.append(_row(folder, service, own, clock.wall()))
    return rows


def _row(folder: Folder, service: Service, jobs: Sequence[Job], wall: float) -> ServiceRow:
    ready = {job.id: len(folder.ready(job.id)) for job in jobs if job.phase is Phase.RUNNING}
    return service_row(
        service, jobs, folder.runs(), ready, wall=wall, is_cancelled=folder.is_cancelled
    )


async def cancel(life: Lifecycle, slurm: Scheduler, folder: Folder, *, say: Say, now: bool) -> None:
    """End a service: what waits is taken out, what runs leaves in order and is then ended."""
    name = PREFIX + folder.path.name
    try:
        folder.cancel()
        live = [job for job in await slurm.jobs(name=name) if job.phase in _LIVE]
        for job in live:
            if job.phase is Phase.QUEUED or now:
                await slurm.cancel(job.id)
                say(f"job {job.id} is ended")
            elif job.phase is Phase.RUNNING:
                await slurm.warn(job.id)
                say(f"job {job.id} leaves in order")
        looks = 0 if now else int(LEAVE_WITHIN_S / LOOK_S)
        for look in range(looks):
            live = [job for job in await slurm.jobs(name=name) if job.phase in _LIVE]
            if not live or life.stopping.is_set():
                break
            if look % _LOOKS_A_WORD == 1:
                # Near the end of a job, one word alone could be Slurm's own.
                for job in live:
                    await slurm.warn(job.id)
            await _pause(life, LOOK_S)
        for job in live:
            await slurm.cancel(job.id)
    finally:
        await slurm.close()


def show(rows: Sequence[ServiceRow]) -> None:
    """Print services and their jobs."""
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("SERVICE", "JOB", "IS", "NODES", "LEFT"):
        table.add_column(heading, overflow="fold")
    for service in rows:
        for job in service.jobs:
            left = "" if job.left_s is None else length(job.left_s)
            cells = (service.name, str(job.job), progress(job), job.nodes, left)
            table.add_row(*(Text(cell) for cell in cells))
    if table.row_count:
        console.print(table)
    else:
        console.print("No job of a service is known to Slurm; otela submit makes one.", style="dim")
    for service in rows:
        if service.overlap_gpu_h:
            told = f"{service.name}: hand-overs have cost {service.overlap_gpu_h:.2f} GPU-hours"
            console.print(Text(told, style="dim"))


async def _pause(life: Lifecycle, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await life.stopping.wait()
    except TimeoutError:
        return
