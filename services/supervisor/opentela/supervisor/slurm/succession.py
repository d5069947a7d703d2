"""How a service outlasts its jobs: a successor is ready before its predecessor takes no more.

::

    predecessor  ───load───▶═════════ serves ══════════════════▶│ drains
                                         submit_at              │
    successor                            └─queue──▶──load──▶════╪═ serves ════▶
                                         ◀──────── lead ───────▶ drain_at

The lead is learned from earlier jobs and asked of the scheduler. A successor that is ready early
retires its predecessor early, so that what a careful lead costs is the successor's loading, not
the time that was put aside.
"""

from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from opentela.supervisor.slurm.job import Job, Phase

Seconds = Annotated[float, Meta(gt=0)]
_RETRY_MAX_S: Final = 900.0


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a successor is asked for.

    Attributes:
        look_s: Seconds between checks of Slurm and of the replicas.
        load_guess_s: Seconds that loading is assumed to take until a job has shown it.
        load_factor: Factor by which the longest load time seen is multiplied.
        queue_factor: Factor by which the longest queue wait is multiplied.
        slack_s: Seconds added to both.
        lead_share_max: Largest lead, as a share of a job's time limit: a service that mostly loads
            is worse than a gap.
        settle_s: Seconds for which a successor must be ready before it takes over, so that routers
            know it.
        retry_s: Seconds until a failed submission is repeated; doubles each time.
        unserved_max: Jobs in a row that never became ready, after which no further one is
            submitted.
    """

    look_s: Seconds = 10.0
    load_guess_s: Seconds = 600.0
    load_factor: Annotated[float, Meta(ge=1)] = 1.25
    queue_factor: Annotated[float, Meta(ge=1)] = 1.25
    slack_s: Annotated[float, Meta(ge=0)] = 60.0
    lead_share_max: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    settle_s: Annotated[float, Meta(ge=0)] = 10.0
    retry_s: Seconds = 30.0
    unserved_max: Annotated[int, Meta(ge=1)] = 2


class Looked(NamedTuple):
    """A look at everything was taken.

    Attributes:
        is_ready: Whether all of our replicas take requests.
        successor: The job that follows us; None when there is none, or Slurm has forgotten it.
        is_successor_ready: Whether all of its replicas take requests.
        is_cancelled: Whether somebody ended the service.
        drain_at: When our replicas take nothing new, as Slurm says by now: whoever runs it can
            prolong a job, or cut it short; 0 when it does not say.
    """

    is_ready: bool = False
    successor: Job | None = None
    is_successor_ready: bool = False
    is_cancelled: bool = False
    drain_at: float = 0.0


class Estimated(NamedTuple):
    """Slurm said when a job would start; 0 when it cannot say."""

    starts_at: float


class Submitted(NamedTuple):
    """The successor is in the queue."""

    job: int


class NotSubmitted(NamedTuple):
    """It is not."""

    reason: str


class Over(NamedTuple):
    """All of our replicas have ended."""


Event = Looked | Estimated | Submitted | NotSubmitted | Over


class AskEstimate(NamedTuple):
    """Ask Slurm when a job like ours would start."""


class Submit(NamedTuple):
    """Submit the successor."""

    reason: str


class Retire(NamedTuple):
    """Tell our replicas to leave in order."""


class GiveUp(NamedTuple):
    """Nobody will follow us."""

    reason: str


Action = AskEstimate | Submit | Retire | GiveUp


class Succession:
    """The decisions of one job about its successor.

    Args:
        rules: See there.
        started_at: When our job started; instants are Unix seconds.
        drain_at: When our replicas take nothing new.
        ready_at: When all of them first took requests, as an earlier keeper of this job noted.
        load_s: The longest load that earlier jobs showed; 0 for unknown.
        queue_s: The longest wait that they showed.
        unserved: So many jobs before us were never ready.

    Attributes:
        ready_at: When all of our replicas first took requests; 0 before.
        successor: The number of the job that follows us; 0 for none.
        gave_up: Whether no further job is tried.
    """

    def __init__(
        self,
        rules: Rules,
        *,
        started_at: float,
        drain_at: float,
        ready_at: float = 0.0,
        load_s: float = 0.0,
        queue_s: float = 0.0,
        unserved: int = 0,
    ) -> None:
        self.ready_at = ready_at
        self.successor = 0
        self.gave_up = False
        self._rules = rules
        self._started_at = started_at
        self._drain_at = drain_at
        self._load_s = max(load_s, ready_at - started_at) if ready_at else load_s
        self._queue_s = queue_s
        self._estimate_s = 0.0
        self._unserved = unserved
        self._asked_at = 0.0
        self._ready_since = 0.0
        self._retry_at = 0.0
        self._failures = 0
        self._is_submitting = False
        self._is_over = False
        self._is_cancelled = False

    @property
    def submit_at(self) -> float:
        """When the successor is to be submitted, as far as is known now."""
        rules = self._rules
        load_s = self._load_s * rules.load_factor or rules.load_guess_s
        queue_s = max(self._queue_s * rules.queue_factor, self._estimate_s)
        lead_s = load_s + queue_s + rules.slack_s + rules.settle_s
        length_s = max(0.0, self._drain_at - self._started_at)
        return self._drain_at - min(lead_s, rules.lead_share_max * length_s)

    def step(self, wall: float, event: Event) -> list[Action]:
        """Take in what happened at *wall*; return what to do."""
        match event:
            case Looked():
                return self._look(wall, event)
            case Estimated(starts_at=starts_at):
                self._estimate_s = max(0.0, starts_at - wall) if starts_at else 0.0
            case Submitted(job=job):
                self.successor, self._is_submitting = job, False
                self._ready_since = 0.0
            case NotSubmitted():
                self._is_submitting = False
                self._put_off(wall)
            case Over():
                self._is_over = True
        return self._settle(wall)

    def _look(self, wall: float, seen: Looked) -> list[Action]:
        self._is_cancelled = self._is_cancelled or seen.is_cancelled
        self._drain_at = seen.drain_at or self._drain_at
        if seen.is_ready and not self.ready_at:
            self.ready_at = wall
            self._load_s = max(self._load_s, wall - self._started_at)
        job = seen.successor
        if job is not None and job.phase is not Phase.ENDED:
            self.successor = job.id
        elif self.successor:
            # It has ended before us: whatever it was, it does not follow us.
            self.successor, self._ready_since = 0, 0.0
            self._put_off(wall)
        if not seen.is_successor_ready or not self.successor:
            self._ready_since = 0.0
        elif not self._ready_since:
            self._ready_since = wall
        return self._settle(wall)

    def _settle(self, wall: float) -> list[Action]:
        actions: list[Action] = []
        if self.successor:
            is_settled = wall >= self._ready_since + self._rules.settle_s
            if self._ready_since and is_settled and not self._is_over:
                actions.append(Retire())
        elif not (self._is_cancelled or self.gave_up or self._is_submitting):
            actions += self._seek(wall)
        return actions

    def _seek(self, wall: float) -> list[Action]:
        """Return what is to be done while nobody follows us."""
        if self._is_over and wall >= self._retry_at:
            return self._submit("our replicas have ended")
        if wall >= max(self.submit_at, self._retry_at):
            return self._submit("our time ends")
        is_early = wall < self.submit_at and not self._is_over
        if is_early and wall >= self._asked_at + max(
            self._rules.look_s, 0.02 * (self.submit_at - wall)
        ):
            self._asked_at = wall
            return [AskEstimate()]
        return []

    def _submit(self, reason: str) -> list[Action]:
        unserved = 0 if self.ready_at else self._unserved + 1
        if self._is_over and unserved >= self._rules.unserved_max:
            self.gave_up = True
            return [GiveUp(f"{unserved} jobs in a row were never ready")]
        if not self._is_over and unserved >= self._rules.unserved_max:
            return []  # there is time yet to become ready
        self._is_submitting = True
        return [Submit(reason)]

    def _put_off(self, wall: float) -> None:
        delay_s = min(_RETRY_MAX_S, self._rules.retry_s * 2**self._failures)
        self._failures = min(self._failures + 1, 16)
        self._retry_at = wall + delay_s
