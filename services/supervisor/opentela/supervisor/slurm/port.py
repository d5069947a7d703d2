"""The port to Slurm: five questions, whichever way they are asked."""

from collections.abc import Sequence
from typing import Protocol

from opentela.supervisor.slurm.job import Job, JobSpec


class Scheduler(Protocol):
    """Asks Slurm in the name of one user.

    Every question raises `SlurmUnavailableError` when Slurm does not answer in time, and
    `SlurmRefusedError` when it answers no.
    """

    async def submit(self, spec: JobSpec) -> int:
        """Return the number of the new job."""
        ...

    async def jobs(self, *, ids: Sequence[int] = (), name: str = "") -> list[Job]:
        """Return our jobs, the oldest first: those of these numbers or this name, or all.

        What has ended is told for some minutes; what Slurm no longer knows is left out.
        """
        ...

    async def warn(self, job: int) -> None:
        """Ask what runs in the steps of a job to leave in order, by a signal to every process.

        slurmrestd signals the job's script, too, which must not mind. A job that has ended, or
        that nobody knows, is fine.
        """
        ...

    async def cancel(self, job: int) -> None:
        """End a job: SIGTERM, and SIGKILL after the cluster's KillWait.

        One that has ended, or that nobody knows, is fine.
        """
        ...

    async def start_estimate(self, spec: JobSpec) -> float:
        """Return when a job like this would start if it were submitted now, Unix seconds.

        0 when nobody knows.
        """
        ...

    async def close(self) -> None:
        """Let go of what was opened."""
        ...
