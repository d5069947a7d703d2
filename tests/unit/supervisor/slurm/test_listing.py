"""What a person is told of jobs."""

import pytest

from opentela.supervisor.slurm.job import Job, JobSpec
from opentela.supervisor.slurm.ledger import Run, Service
from opentela.supervisor.slurm.listing import ServiceRow, length, progress, service_row

SERVICE = Service(
    name="a",
    spec=JobSpec(name="otela-a", script="", time_limit_s=600, directory="/"),
    replicas=2,
    gpus=4,
    lasts=True,
    drain_before_s=60,
)
NOW = 5_000.0


def row(job: Job, ready: int = 0) -> ServiceRow:
    return service_row(SERVICE, [job], [], {job.id: ready}, wall=NOW, is_cancelled=False)


@pytest.mark.parametrize(
    ("job", "ready", "words"),
    [
        (Job(id=1, name="x", state="PENDING"), 0, "queued"),
        (
            Job(id=1, name="x", state="PENDING", reason="Priority", starts_at=NOW + 3700),
            0,
            "queued (Priority), starts in 1:01:40",
        ),
        (Job(id=1, name="x", state="RUNNING"), 0, "loading"),
        (Job(id=1, name="x", state="RUNNING"), 1, "loading, 1 of 2 ready"),
        (Job(id=1, name="x", state="RUNNING"), 2, "ready"),
        (Job(id=1, name="x", state="COMPLETING"), 2, "ending"),
        (Job(id=1, name="x", state="NODE_FAIL"), 2, "node_fail"),
    ],
)
def test_how_far_a_job_is_is_told_in_a_few_words(job: Job, ready: int, words: str) -> None:
    """In ours before the end, in Slurm's after it."""
    assert progress(row(job, ready).jobs[0]) == words


def test_only_a_running_job_has_time_left() -> None:
    """A limit that is not running yet is no promise."""
    running = row(Job(id=1, name="x", state="RUNNING", starts_at=NOW - 5, ends_at=NOW + 50)).jobs[0]
    assert (running.left_s, running.starts_in_s) == (50, None)
    waiting = row(Job(id=1, name="x", state="PENDING", ends_at=NOW + 50)).jobs[0]
    assert (waiting.left_s, waiting.starts_in_s) == (None, None)


def test_a_service_tells_what_it_learned_and_what_hand_overs_cost() -> None:
    """From its runs."""
    runs = [
        Run(job=1, submitted_at=0, started_at=10, ready_at=40, ended_at=4000, followed_by=2),
        Run(job=2, submitted_at=350, started_at=400, ready_at=430),
    ]
    told = service_row(SERVICE, [], runs, {}, wall=NOW, is_cancelled=True)
    assert (told.load_s, told.queue_s, told.overlap_gpu_h) == (30, 50, 4.0)
    assert (told.lasts, told.is_cancelled, told.jobs) == (True, True, ())


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "0:05"), (61, "1:01"), (3600, "1:00:00"), (90_061, "1-1:01:01")]
)
def test_a_length_is_written_as_slurm_does(seconds: float, text: str) -> None:
    """People compare it with squeue's."""
    assert length(seconds) == text


def test_jobs_that_have_ended_are_told_only_when_none_lives() -> None:
    """Slurm remembers them for a while, those of an earlier life of the service, too."""
    jobs = [Job(id=number, name="otela-a", state="FAILED") for number in (1, 2)]
    told = service_row(SERVICE, jobs, [], {}, wall=NOW, is_cancelled=False)
    assert [one.job for one in told.jobs] == [2]
    jobs.append(Job(id=3, name="otela-a", state="PENDING"))
    told = service_row(SERVICE, jobs, [], {}, wall=NOW, is_cancelled=False)
    assert [one.job for one in told.jobs] == [3]
