"""When a successor is asked for, and when it takes over; all instants are literal."""

import math

from opentela.supervisor.slurm.job import Job
from opentela.supervisor.slurm.succession import (
    AskEstimate,
    Estimated,
    GiveUp,
    Looked,
    NotSubmitted,
    Over,
    Retire,
    Rules,
    Submit,
    Submitted,
    Succession,
)

RULES = Rules(
    look_s=10, load_guess_s=300, load_factor=1.5, queue_factor=2, slack_s=50, settle_s=10,
    retry_s=30, lead_share_max=0.5, unserved_max=2,
)  # fmt: skip
START, DRAIN = 1_000.0, 11_000.0
QUEUED = Job(id=8, name="otela-a", state="PENDING")
RUNNING = Job(id=8, name="otela-a", state="RUNNING")
FAILED = Job(id=8, name="otela-a", state="FAILED")
READY = Looked(is_ready=True)


def made(*, load_s: float = 0.0, queue_s: float = 0.0, unserved: int = 0) -> Succession:
    return Succession(
        RULES, started_at=START, drain_at=DRAIN, load_s=load_s, queue_s=queue_s, unserved=unserved
    )


def test_the_lead_is_guessed_before_anything_was_learned() -> None:
    """Load, slack and the time that routers take to know the successor."""
    assert made().submit_at == DRAIN - (300 + 50 + 10)


def test_the_lead_is_learned_from_earlier_jobs() -> None:
    """The worst that was seen, and more of it."""
    assert made(load_s=200, queue_s=100).submit_at == DRAIN - (300 + 200 + 50 + 10)


def test_our_own_load_teaches_too() -> None:
    """A file system that has become slow is slow for the successor, too."""
    one = made(load_s=200)
    one.step(START + 400, READY)
    assert one.ready_at == START + 400
    assert one.submit_at == DRAIN - (600 + 50 + 10)
    one.step(START + 900, READY)
    assert one.ready_at == START + 400


def test_a_keeper_that_was_started_again_does_not_take_uptime_for_load() -> None:
    """An earlier one noted when we were ready."""
    one = Succession(RULES, started_at=START, drain_at=DRAIN, ready_at=START + 100)
    one.step(START + 5_000, READY)
    assert one.ready_at == START + 100
    assert one.submit_at == DRAIN - (150 + 50 + 10)


def test_slurms_own_estimate_counts_if_it_is_worse() -> None:
    """And is dropped when Slurm can no longer say."""
    one = made(load_s=200, queue_s=100)
    one.step(2_000, Estimated(starts_at=2_000 + 1_000))
    assert one.submit_at == DRAIN - (300 + 1_000 + 50 + 10)
    one.step(2_000, Estimated(starts_at=0))
    assert one.submit_at == DRAIN - (300 + 200 + 50 + 10)


def test_an_end_that_moves_moves_the_successor() -> None:
    """A job that is cut short is followed sooner, one whose limit was lifted not at all."""
    one = made(load_s=200, queue_s=100)
    one.step(START, Looked(drain_at=DRAIN - 1_000))
    assert one.submit_at == DRAIN - 1_000 - (300 + 200 + 50 + 10)
    one.step(START, Looked())
    assert one.submit_at == DRAIN - 1_000 - (300 + 200 + 50 + 10)
    assert one.step(DRAIN, Looked(drain_at=math.inf)) == []
    assert one.submit_at == math.inf


def test_the_lead_is_at_most_a_share_of_the_job() -> None:
    """Otherwise each job would ask for the next as soon as it is ready."""
    assert made(load_s=9_000).submit_at == DRAIN - 5_000


def test_slurm_is_asked_more_often_the_nearer_the_end_is() -> None:
    """Every look at the end, every few minutes before."""
    one = made(load_s=200)
    assert one.step(START, READY) == [AskEstimate()]
    assert one.step(START + 100, READY) == []
    assert one.step(START + 250, READY) == [AskEstimate()]
    late = one.submit_at - 20
    assert one.step(late, READY) == [AskEstimate()]
    assert one.step(late + 10, READY) == [AskEstimate()]


def test_the_successor_is_submitted_once_and_in_time() -> None:
    """Not before, and not twice while the answer is under way."""
    one = made(load_s=200)
    one.step(START, READY)
    assert one.step(one.submit_at, READY) == [Submit("our time ends")]
    assert one.step(one.submit_at + 5, READY) == []
    assert one.step(one.submit_at + 6, Submitted(8)) == []
    assert one.successor == 8
    assert one.step(one.submit_at + 10, Looked(is_ready=True, successor=QUEUED)) == []


def test_a_successor_that_is_ready_retires_us_once_routers_know_it() -> None:
    """And again at each look, in case the signal was lost."""
    one = made()
    one.step(START, READY)
    at = one.submit_at
    one.step(at, READY)
    one.step(at, Submitted(8))
    ready = Looked(is_ready=True, successor=RUNNING, is_successor_ready=True)
    assert one.step(at + 100, ready) == []
    assert one.step(at + 109, ready) == []
    assert one.step(at + 110, ready) == [Retire()]
    assert one.step(at + 120, ready) == [Retire()]
    assert one.step(at + 130, Over()) == []


def test_a_successor_that_is_ready_no_more_does_not_take_over() -> None:
    """Its readiness must be whole and last."""
    one = made()
    one.step(START, READY)
    ready = Looked(is_ready=True, successor=RUNNING, is_successor_ready=True)
    one.step(5_000, ready)
    assert one.step(5_020, Looked(is_ready=True, successor=RUNNING)) == []
    assert one.step(5_025, ready) == []
    assert one.step(5_034, ready) == []
    assert one.step(5_035, ready) == [Retire()]


def test_a_successor_that_somebody_else_submitted_is_taken() -> None:
    """We were started again, and had asked for one before."""
    one = made()
    one.step(START, Looked(is_ready=True, successor=QUEUED))
    assert one.successor == 8
    assert one.step(one.submit_at, Looked(is_ready=True, successor=QUEUED)) == []


def test_a_successor_that_failed_is_replaced_after_a_while() -> None:
    """The wait doubles: what fails at once fails again."""
    one = made()
    one.step(START, READY)
    at = one.submit_at
    one.step(at, READY)
    one.step(at, Submitted(8))
    assert one.step(at + 10, Looked(is_ready=True, successor=FAILED)) == []
    assert one.successor == 0
    assert one.step(at + 39, READY) == []
    assert one.step(at + 40, READY) == [Submit("our time ends")]
    one.step(at + 40, Submitted(9))
    assert one.step(at + 50, READY) == []
    assert Submit("our time ends") not in one.step(at + 109, READY)
    assert one.step(at + 110, READY) == [Submit("our time ends")]


def test_a_refused_submission_is_tried_again() -> None:
    """Slurm may be away just then."""
    one = made()
    one.step(START, READY)
    at = one.submit_at
    one.step(at, READY)
    assert one.step(at, NotSubmitted("no controller")) == []
    assert Submit("our time ends") not in one.step(at + 29, READY)
    assert one.step(at + 30, READY) == [Submit("our time ends")]


def test_replicas_that_end_early_are_followed_at_once() -> None:
    """A service that should last does."""
    one = made()
    one.step(START, READY)
    assert one.step(START + 500, Over()) == [Submit("our replicas have ended")]
    assert one.step(START + 500, NotSubmitted("no controller")) == []
    assert one.step(START + 531, Looked()) == [Submit("our replicas have ended")]


def test_jobs_that_are_never_ready_are_not_followed_for_ever() -> None:
    """One failure may be the node's; a second one in a row is the command's."""
    assert made().step(START + 50, Over()) == [Submit("our replicas have ended")]
    second = made(unserved=1)
    assert second.step(START + 50, Over()) == [GiveUp("2 jobs in a row were never ready")]
    assert second.gave_up
    assert second.step(START + 60, Looked()) == []


def test_a_job_that_may_yet_be_ready_waits_with_its_successor() -> None:
    """When the last one was not ready either, more of the same helps nobody."""
    one = made(unserved=1)
    one.step(START, Looked())
    assert one.step(one.submit_at, Looked()) == []
    assert one.step(one.submit_at + 10, READY) == [Submit("our time ends")]


def test_a_cancelled_service_has_no_successor() -> None:
    """Neither in time nor at the end."""
    one = made()
    one.step(START, Looked(is_ready=True, is_cancelled=True))
    assert one.step(one.submit_at, READY) == []
    assert one.step(one.submit_at + 5, Over()) == []
