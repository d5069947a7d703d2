"""What is asked of a scheduler, and what it tells: one form, whichever way it is reached.

::

    QUEUED ──▶ RUNNING ──▶ ENDING ──▶ ENDED
       ▲          │
       └──────────┘ requeued: preempted, or its node failed
"""

from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from opentela.core.errors import UnavailableError, UsageError

Count = Annotated[int, Meta(ge=1)]
WARNING: Final = "USR1"
"""The signal by which supervisors are asked to leave in order, and warned of the end.

It reaches every process of a step, engines included: they are started with it ignored, in a
container, too. SIGHUP would not do: srun ends its step when it gets one.
"""
FORGOTTEN: Final = "FORGOTTEN"
"""How a job ended that Slurm no longer knows: it forgets them after MinJobAge."""


class SlurmUnavailableError(UnavailableError):
    """Slurm does not answer; it may later."""


class SlurmRefusedError(UsageError):
    """Slurm answered that it will not."""


class Phase(StrEnum):
    """How far a job is."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDING = "ending"
    ENDED = "ended"


_PHASES: Final = {
    "PENDING": Phase.QUEUED,
    "REQUEUED": Phase.QUEUED,
    "REQUEUE_HOLD": Phase.QUEUED,
    "REQUEUE_FED": Phase.QUEUED,
    "RESV_DEL_HOLD": Phase.QUEUED,
    "SPECIAL_EXIT": Phase.QUEUED,
    "EXPEDITING": Phase.QUEUED,
    "CONFIGURING": Phase.QUEUED,
    "POWER_UP_NODE": Phase.QUEUED,
    "RUNNING": Phase.RUNNING,
    "RESIZING": Phase.RUNNING,
    "SUSPENDED": Phase.RUNNING,
    "STOPPED": Phase.RUNNING,
    "SIGNALING": Phase.RUNNING,
    "COMPLETING": Phase.ENDING,
    "STAGE_OUT": Phase.ENDING,
}
"""Every other word of Slurm's is an end: COMPLETED, FAILED, TIMEOUT, PREEMPTED, NODE_FAIL, …"""
_FIRST: Final = ("COMPLETING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")
"""Flags that newer releases put beside the state, and that decide what it means for us."""


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A job to submit.

    Attributes:
        name: Of the job; services find their jobs by it.
        script: What runs on the first node, its first line included; no `#SBATCH` lines.
        time_limit_s: Slurm counts whole minutes; a started one is a whole one.
        directory: Where it runs, and what relative paths of `output` start from.
        output: File for the batch script's output; `%j` stands for the job's number.
        environment: All of it; nothing of the submitting process is added.
        nodes: How many.
        tasks_per_node: How many steps of one task fit on one node at once.
        cpus_per_task: 0 leaves it to Slurm.
        memory_mb: A node; 0 leaves it to Slurm.
        gres: Generic resources a node, such as `gpu:4` or `gpu:h200:4`.
        partition: Empty leaves it to Slurm, as with what follows.
        account: Who pays.
        qos: Quality of service.
        reservation: Nodes that were set aside.
        constraint: Features that nodes must have.
        warn_s: So long before the end, and when it is preempted, the steps get SIGUSR1; 0 never.
        requeue: Whether it starts again after a preemption or the failure of a node.
        comment: For people.
        extra: Further options of `sbatch`, as in a job script; only the command line takes them.
    """

    name: str
    script: str
    time_limit_s: float
    directory: str
    output: str = "slurm-%j.out"
    environment: dict[str, str] = {}
    nodes: Count = 1
    tasks_per_node: Count = 1
    cpus_per_task: int = 0
    memory_mb: int = 0
    gres: str = ""
    partition: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    constraint: str = ""
    warn_s: int = 0
    requeue: bool = True
    comment: str = ""
    extra: tuple[str, ...] = ()

    @property
    def time_limit_min(self) -> int:
        """Whole minutes, as Slurm counts."""
        return max(1, -int(-self.time_limit_s // 60))


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What Slurm tells of a job.

    Attributes:
        state: In Slurm's own word, such as `PENDING`, `RUNNING` or `NODE_FAIL`.
        reason: Why it waits, in Slurm's word; empty when it does not.
        nodes: Where it runs, as Slurm writes lists: `n[1-3]`.
        submitted_at: Unix seconds, as are all instants here; 0 when unknown.
        starts_at: When it started, or is expected to; 0 when nobody knows.
        ends_at: When it ended, or must by its limit; 0 when nobody knows.
    """

    id: int
    name: str
    state: str
    reason: str = ""
    partition: str = ""
    nodes: str = ""
    submitted_at: float = 0.0
    starts_at: float = 0.0
    ends_at: float = 0.0

    @property
    def phase(self) -> Phase:
        """How far it is."""
        return phase_of(self.state)


def phase_of(state: str) -> Phase:
    """Return what a word of Slurm's means for us."""
    return _PHASES.get(state, Phase.ENDED)


def one_state(words: list[str]) -> str:
    """Return the word that counts of those that newer releases list: a state and its flags."""
    return next((word for word in _FIRST if word in words), words[0] if words else FORGOTTEN)
