"""What the jobs of a service have left behind, and what is learned from it."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from opentela.supervisor.slurm.job import JobSpec
from opentela.supervisor.slurm.succession import Rules

RUNS_LEARNED_MAX: Final = 5
"""Queues and file systems change: what was weeks ago says little."""
_HOUR_S: Final = 3600.0


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A service, as its jobs and our commands find it in its folder.

    Attributes:
        name: Of the service; its jobs are called `otela-<name>`.
        spec: Each of its jobs.
        replicas: Engines in a job.
        gpus: That a job holds.
        lasts: Whether a job is followed by another.
        drain_before_s: So long before a job's end its supervisors take nothing new.
        via: How Slurm is reached.
        url: Of slurmrestd, if by that.
        rules: Of the succession.
    """

    name: str
    spec: JobSpec
    replicas: int
    gpus: int
    lasts: bool
    drain_before_s: float
    via: str = "auto"
    url: str = ""
    rules: Rules = Rules()


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One start of one job of a service; instants are Unix seconds, 0 for what has not happened.

    Attributes:
        restart: How often Slurm had started the job before.
        ready_at: When every replica first took requests.
        followed_by: Its successor; 0 for none.
    """

    job: int
    restart: int = 0
    submitted_at: float = 0.0
    started_at: float = 0.0
    ready_at: float = 0.0
    ended_at: float = 0.0
    followed_by: int = 0


class Learned(NamedTuple):
    """What earlier runs make us expect.

    Attributes:
        load_s: From the start of a job until all of it is ready; 0 when nobody knows.
        queue_s: From its submission to its start.
        unserved: So many of the last runs in a row ended without ever being ready.
    """

    load_s: float = 0.0
    queue_s: float = 0.0
    unserved: int = 0


def learned(runs: Sequence[Run]) -> Learned:
    """Return what *runs* teach: of the last few, the worst."""
    ordered = sorted(runs, key=lambda run: (run.job, run.restart))
    loads = [run.ready_at - run.started_at for run in ordered if run.ready_at and run.started_at]
    # A job that was started again has waited for other reasons than the queue.
    waits = [
        run.started_at - run.submitted_at
        for run in ordered
        if run.started_at and run.submitted_at and not run.restart
    ]
    unserved = 0
    for run in reversed([run for run in ordered if run.ended_at]):
        if run.ready_at:
            break
        unserved += 1
    return Learned(
        load_s=max(loads[-RUNS_LEARNED_MAX:], default=0.0),
        queue_s=max(0.0, *waits[-RUNS_LEARNED_MAX:], 0.0),
        unserved=unserved,
    )


def overlap_s(run: Run, successor: Run, now: float) -> float:
    """Return for how long both held their resources, up to *now*."""
    if not successor.started_at or not run.started_at:
        return 0.0
    until = min(run.ended_at or now, successor.ended_at or now)
    return max(0.0, until - max(run.started_at, successor.started_at))


def overlap_gpu_h(runs: Sequence[Run], gpus: int, now: float) -> float:
    """Return the GPU-hours that were held twice: what never being without a replica has cost."""
    latest = {run.job: run for run in sorted(runs, key=lambda run: run.restart)}
    return sum(
        overlap_s(run, latest[run.followed_by], now) * gpus / _HOUR_S
        for run in runs
        if run.followed_by in latest
    )
