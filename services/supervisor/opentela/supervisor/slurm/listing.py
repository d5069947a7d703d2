"""What `otela jobs` tells: each job of our services, how far it is, what hand-overs have cost."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from opentela.supervisor.slurm.job import Job, Phase
from opentela.supervisor.slurm.ledger import Run, Service, learned, overlap_gpu_h

_DAY_S: Final = 86_400


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """One job, as `otela jobs --json` prints it.

    Attributes:
        phase: `queued`, `running`, `ending` or `ended`.
        state: In Slurm's own word.
        ready: Replicas that take requests.
        left_s: Until its limit; None before it starts and when it has ended.
        starts_in_s: As Slurm expects; None when it runs, or nobody knows.
    """

    service: str
    job: int
    phase: Phase
    state: str
    reason: str
    nodes: str
    replicas: int
    ready: int
    left_s: float | None = None
    starts_in_s: float | None = None


class ServiceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One service: its jobs, and what was learned.

    Attributes:
        lasts: Whether its jobs follow each other.
        load_s: The longest load of its last jobs; 0 when none was ready yet.
        queue_s: The longest wait of its last jobs.
        overlap_gpu_h: GPU-hours that predecessors and successors held together.
    """

    name: str
    lasts: bool
    is_cancelled: bool
    jobs: tuple[JobRow, ...]
    load_s: float
    queue_s: float
    overlap_gpu_h: float


def service_row(
    service: Service,
    jobs: Sequence[Job],
    runs: Sequence[Run],
    ready: Mapping[int, int],
    *,
    wall: float,
    is_cancelled: bool,
) -> ServiceRow:
    """Return what is to be told of *service*; *ready* counts the ready replicas of each job."""
    known = learned(runs)
    return ServiceRow(
        name=service.name,
        lasts=service.lasts,
        is_cancelled=is_cancelled,
        jobs=tuple(_row(service, job, ready.get(job.id, 0), wall) for job in _shown(jobs)),
        load_s=known.load_s,
        queue_s=known.queue_s,
        overlap_gpu_h=overlap_gpu_h(runs, service.gpus, wall),
    )


def _shown(jobs: Sequence[Job]) -> Sequence[Job]:
    """Return the jobs that live; when none does, the last one, whose end may need a reason."""
    return [job for job in jobs if job.phase is not Phase.ENDED] or jobs[-1:]


def _row(service: Service, job: Job, ready: int, wall: float) -> JobRow:
    phase = job.phase
    is_running = phase is Phase.RUNNING
    will_start = phase is Phase.QUEUED and job.starts_at > 0
    return JobRow(
        service=service.name,
        job=job.id,
        phase=phase,
        state=job.state,
        reason=job.reason,
        nodes=job.nodes,
        replicas=service.replicas,
        ready=ready if is_running else 0,
        left_s=max(0.0, job.ends_at - wall) if is_running and job.ends_at else None,
        starts_in_s=max(0.0, job.starts_at - wall) if will_start else None,
    )


def progress(row: JobRow) -> str:
    """Return in a few words how far a job is."""
    match row.phase:
        case Phase.QUEUED:
            told = f"queued ({row.reason})" if row.reason else "queued"
            return (
                told if row.starts_in_s is None else f"{told}, starts in {length(row.starts_in_s)}"
            )
        case Phase.RUNNING if row.ready >= row.replicas:
            return "ready"
        case Phase.RUNNING:
            return f"loading, {row.ready} of {row.replicas} ready" if row.ready else "loading"
        case Phase.ENDING:
            return "ending"
        case Phase.ENDED:
            return row.state.lower()


def length(seconds: float) -> str:
    """Return a length of time as Slurm writes it."""
    days, rest = divmod(int(seconds), _DAY_S)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    clock = f"{hours}:{minutes:02}:{left:02}" if hours or days else f"{minutes}:{left:02}"
    return f"{days}-{clock}" if days else clock
