"""What Slurm says of the very job that we run in."""

import importlib.util
import re
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

from opentela.core.errors import OtelaError
from opentela.supervisor.slurm.choice import URL_VARIABLE
from opentela.supervisor.slurm.command_line import CommandLine
from opentela.supervisor.slurm.job import Job, Phase
from opentela.supervisor.slurm.library import Library, is_configured
from opentela.supervisor.slurm.port import Scheduler
from opentela.supervisor.slurm.rest import Rest
from opentela.telemetry import log as logs

log: Final = logs.get_logger()

_JOB: Final = ("SLURM_JOB_ID", "SLURM_JOBID")
_NUMBER: Final = re.compile(r"\d{1,18}")
_TRIES_MAX: Final = 3
"""A controller that restarts or is flooded answers the next time; each try waits long enough."""


def job_id(environ: Mapping[str, str]) -> int:
    """Return the number of the job that we run in; 0 when we run in none."""
    given = next((environ[name] for name in _JOB if environ.get(name)), "")
    return int(given) if _NUMBER.fullmatch(given) else 0


async def ends_at(environ: Mapping[str, str]) -> float:
    """Return when our job ends, Unix seconds; 0 when we are in none, or nobody can say.

    Releases before 23.02 do not tell a job its end by `$SLURM_JOB_END_TIME`, so Slurm is asked.
    """
    number = job_id(environ)
    if not number:
        return 0.0
    end, reason = await _asked(environ, number, _TRIES_MAX)
    if end is None:
        log.warning("walltime_unknown", job=number, reason=reason)
    return end or 0.0


async def asked_end(environ: Mapping[str, str]) -> float | None:
    """Return when our job ends as Slurm says by now, asking each way once.

    0 when it has no end any more, None when nobody says.
    """
    number = job_id(environ)
    end, _ = await _asked(environ, number, 1) if number else (None, "")
    return end


async def _asked(environ: Mapping[str, str], number: int, tries: int) -> tuple[float | None, str]:
    """Return the end that Slurm tells, or why nobody tells any."""
    reason = ""
    async with AsyncExitStack() as stack:
        for scheduler in _schedulers(environ, tries):
            stack.push_async_callback(scheduler.close)
            try:
                found = await scheduler.jobs(ids=[number])
            except OtelaError as error:
                reason = str(error)
            else:
                return _end(found), "Slurm does not know the job"
    return None, reason


def _end(found: Sequence[Job]) -> float | None:
    # A job that runs has an end unless its limit was lifted; one that waits again has none yet.
    runs = [job for job in found if job.phase is Phase.RUNNING or job.ends_at]
    return runs[0].ends_at if runs else None


def _schedulers(environ: Mapping[str, str], tries: int) -> Sequence[Scheduler]:
    """Return whom to ask in turn: commands first; a container often has one of the others alone."""
    asked: list[Scheduler] = [CommandLine(environ)] * tries
    if url := environ.get(URL_VARIABLE, ""):
        asked.append(Rest(url, environ))
    if is_configured(environ) and importlib.util.find_spec("pyslurm"):
        asked.append(Library(environ))
    return asked
