"""What runs leave behind teaches the next one, and tells what hand-overs cost."""

from opentela.supervisor.slurm.ledger import Learned, Run, learned, overlap_gpu_h, overlap_s


def run(job: int, start: float, **fields: float) -> Run:
    values = {"submitted_at": start - 10, "started_at": start, "ready_at": start + 60, **fields}
    return Run(job=job, **values)  # type: ignore[arg-type]


def test_nothing_teaches_nothing() -> None:
    """A first job guesses."""
    assert learned([]) == Learned()
    assert learned([Run(job=1, submitted_at=5)]) == Learned()


def test_of_the_last_runs_the_worst_is_reckoned_with() -> None:
    """What was long ago is forgotten."""
    slow = [run(1, 1000, ready_at=1900, submitted_at=100)]
    quick = [run(number, number * 1000.0) for number in range(2, 6)]
    assert learned([*quick, *slow]) == Learned(load_s=900, queue_s=900)
    assert learned([*slow, *quick, run(6, 6000)]) == Learned(load_s=60, queue_s=10)


def test_a_job_that_slurm_started_again_teaches_nothing_of_the_queue() -> None:
    """It waited for what had failed."""
    assert learned([run(1, 5000, restart=1, submitted_at=100)]).queue_s == 0


def test_runs_that_were_never_ready_are_counted_from_the_last() -> None:
    """A run that has not ended yet says nothing."""
    dead = [run(number, 100.0, ready_at=0, ended_at=200) for number in (2, 3)]
    assert learned([run(1, 50, ended_at=90), *dead]).unserved == 2
    assert learned([*dead, run(4, 300, ended_at=400)]).unserved == 0
    assert learned([*dead, run(4, 300, ready_at=0)]).unserved == 2


def test_an_overlap_is_what_both_held() -> None:
    """From the successor's start to the predecessor's end, or to now."""
    first = run(1, 1000, ended_at=5000)
    assert overlap_s(first, run(2, 4000), 9000) == 1000
    assert overlap_s(run(1, 1000), run(2, 4000), 4600) == 600
    assert overlap_s(first, run(2, 4000, ended_at=4500), 9000) == 500
    assert overlap_s(first, run(2, 6000), 9000) == 0
    assert overlap_s(first, Run(job=2, submitted_at=4000), 9000) == 0


def test_overlaps_are_told_in_gpu_hours() -> None:
    """Of all hand-overs; a successor that is not known yet has cost nothing."""
    runs = [
        run(1, 1, ended_at=7200, followed_by=2),
        run(2, 3600, ended_at=10_800, followed_by=3),
        run(3, 9000, followed_by=4),
    ]
    assert overlap_gpu_h(runs, gpus=4, now=20_000) == 4 * (3600 + 1800) / 3600
    assert overlap_gpu_h([], gpus=4, now=0) == 0
