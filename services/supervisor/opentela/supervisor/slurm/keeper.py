"""Beside the replicas of a job: notes what becomes of it, and sees to its successor."""

import asyncio
import math
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from opentela.core.clock import Clock
from opentela.core.errors import ConfigError, OtelaError
from opentela.service import Lifecycle
from opentela.supervisor.slurm import choice, inside
from opentela.supervisor.slurm.folder import Folder
from opentela.supervisor.slurm.job import Job, Phase, SlurmUnavailableError
from opentela.supervisor.slurm.ledger import learned, overlap_s
from opentela.supervisor.slurm.port import Scheduler
from opentela.supervisor.slurm.succession import (
    Action,
    AskEstimate,
    Estimated,
    Event,
    GiveUp,
    Looked,
    NotSubmitted,
    Over,
    Retire,
    Submit,
    Submitted,
    Succession,
)
from opentela.telemetry import log as logs

log: Final = logs.get_logger()

_OVER_LOOKS_MAX: Final = 30
"""So often a successor is asked for when all replicas have ended: the allocation costs."""
_HOUR_S: Final = 3600.0


class Keeper:
    """Runs the succession of the job that it is in.

    Args:
        folder: Of the service.
        environ: The job's.
        clock: For instants.
    """

    def __init__(self, folder: Folder, environ: Mapping[str, str], clock: Clock) -> None:
        self._folder = folder
        self._service = folder.service()
        self._clock = clock
        self._job = inside.job_id(environ)
        if not self._job:
            raise ConfigError("this is not a Slurm job", remedy="otela submit runs it in one")
        self._restart = int(environ.get("SLURM_RESTART_COUNT") or 0)
        self._run = folder.run(self._job, self._restart)
        self._slurm: Scheduler = choice.scheduler(self._service.via, self._service.url, environ)
        self._succession: Succession | None = None
        self._successor: Job | None = None

    async def run(self, life: Lifecycle) -> None:
        """Work until the job's script says that its replicas have ended, or Slurm ends us."""
        stop = asyncio.ensure_future(life.stopping.wait())
        try:
            while not stop.done():
                await self._look()
                await asyncio.wait([stop], timeout=self._service.rules.look_s)
            await self._finish()
        finally:
            stop.cancel()
            await self._slurm.close()

    async def _look(self) -> None:
        try:
            jobs = await self._slurm.jobs(name=self._service.spec.name)
        except SlurmUnavailableError as error:
            log.warning("slurm_unavailable", reason=str(error))
            return
        if self._succession is None:
            self._succession = self._begin(jobs)
            if self._succession is None:
                return
        await self._step(self._looked(jobs))
        self._note()

    def _begin(self, jobs: list[Job]) -> Succession | None:
        own = next((job for job in jobs if job.id == self._job), None)
        if own is None or not own.starts_at:
            return None
        self._run = replace(
            self._run,
            submitted_at=self._run.submitted_at or own.submitted_at,
            started_at=own.starts_at,
        )
        drain_at = self._drain_at(own)
        known = learned([run for run in self._folder.runs() if run.job != self._job])
        return Succession(
            self._service.rules,
            started_at=own.starts_at,
            drain_at=drain_at,
            ready_at=self._run.ready_at,
            **known._asdict(),
        )

    def _looked(self, jobs: list[Job]) -> Looked:
        self._successor = next(
            (job for job in jobs if job.id > self._job and job.phase is not Phase.ENDED), None
        )
        own = next((job for job in jobs if job.id == self._job), None)
        wanted = self._service.replicas
        successor = self._successor
        has_started = successor is not None and successor.phase is Phase.RUNNING
        return Looked(
            is_ready=len(self._folder.ready(self._job, self._restart)) >= wanted,
            successor=successor,
            is_successor_ready=has_started
            and successor is not None
            and len(self._folder.ready(successor.id)) >= wanted,
            is_cancelled=self._folder.is_cancelled,
            drain_at=self._drain_at(own) if own and own.phase is Phase.RUNNING else 0.0,
        )

    def _drain_at(self, own: Job) -> float:
        """Return when our replicas take nothing new: never, where the limit was lifted."""
        return own.ends_at - self._service.drain_before_s if own.ends_at else math.inf

    async def _step(self, event: Event) -> None:
        assert self._succession is not None
        for action in self._succession.step(self._clock.wall(), event):
            told = await self._perform(action)
            if told is not None:
                await self._step(told)

    async def _perform(self, action: Action) -> Event | None:
        try:
            match action:
                case AskEstimate():
                    return Estimated(await self._slurm.start_estimate(self._service.spec))
                case Submit(reason=reason):
                    return await self._submit(reason)
                case Retire():
                    await self._slurm.warn(self._job)
                    log.info("replicas_retired", job=self._job, successor=self._run.followed_by)
                case GiveUp(reason=reason):
                    log.error("succession_ended", job=self._job, reason=reason)
        except OtelaError as error:
            log.warning("slurm_refused", job=self._job, reason=str(error))
            return NotSubmitted(str(error)) if isinstance(action, Submit) else None
        return None

    async def _submit(self, reason: str) -> Event:
        job = await self._slurm.submit(self._service.spec)
        self._folder.note_submitted(job, self._clock.wall())
        log.info("successor_submitted", job=self._job, successor=job, reason=reason)
        return Submitted(job)

    async def _finish(self) -> None:
        """Note the end; what the script did not end itself is not followed because of it.

        Slurm ends a job that is cancelled, preempted or out of time. It starts a preempted one
        again by itself, and whoever cancels does not want another.
        """
        if self._folder.have_ended(self._job, self._restart) and self._succession:
            await self._step(Over())
            for _ in range(_OVER_LOOKS_MAX):
                if self._succession.successor or self._folder.is_cancelled or not self._is_wanted():
                    break
                await asyncio.sleep(self._service.rules.look_s)
                await self._look()
        self._run = replace(self._run, ended_at=self._clock.wall())
        self._note()
        self._tell_overlap()

    def _is_wanted(self) -> bool:
        return self._succession is not None and not self._succession.gave_up

    def _note(self) -> None:
        if self._succession is None:
            return
        self._run = replace(
            self._run,
            ready_at=self._succession.ready_at,
            followed_by=self._succession.successor or self._run.followed_by,
        )
        try:
            self._folder.note(self._run)
        except ConfigError as error:
            log.warning("run_unwritten", job=self._job, reason=str(error))

    def _tell_overlap(self) -> None:
        if not self._run.followed_by or self._successor is None:
            return
        followed = replace(
            self._folder.run(self._run.followed_by, 0),
            started_at=self._successor.starts_at if self._successor.phase is Phase.RUNNING else 0.0,
        )
        overlap = overlap_s(self._run, followed, self._clock.wall())
        log.info(
            "handover_finished",
            job=self._job,
            successor=self._run.followed_by,
            overlap_s=round(overlap, 1),
            overlap_gpu_h=round(overlap * self._service.gpus / _HOUR_S, 4),
        )
