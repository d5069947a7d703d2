"""What Slurm says of a job means one of four things for us."""

import pytest

from opentela.supervisor.slurm.job import Job, JobSpec, Phase, one_state, phase_of


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("PENDING", Phase.QUEUED),
        ("REQUEUED", Phase.QUEUED),
        ("CONFIGURING", Phase.QUEUED),
        ("RUNNING", Phase.RUNNING),
        ("SUSPENDED", Phase.RUNNING),
        ("COMPLETING", Phase.ENDING),
        ("COMPLETED", Phase.ENDED),
        ("TIMEOUT", Phase.ENDED),
        ("NODE_FAIL", Phase.ENDED),
        ("A_WORD_OF_TOMORROW", Phase.ENDED),
    ],
)
def test_a_word_of_slurms_is_a_phase(state: str, phase: Phase) -> None:
    """What waits may yet run; what nobody knows has ended."""
    assert phase_of(state) is phase
    assert Job(id=1, name="x", state=state).phase is phase


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (["RUNNING"], "RUNNING"),
        (["RUNNING", "CONFIGURING"], "CONFIGURING"),
        (["CANCELLED", "COMPLETING"], "COMPLETING"),
        (["PENDING", "REQUEUED"], "REQUEUED"),
        ([], "FORGOTTEN"),
    ],
)
def test_of_a_state_and_its_flags_one_word_counts(words: list[str], state: str) -> None:
    """A job that is cleaned up after has not ended yet."""
    assert one_state(words) == state


@pytest.mark.parametrize(("seconds", "minutes"), [(1, 1), (60, 1), (61, 2), (3600, 60)])
def test_a_started_minute_is_a_whole_one(seconds: float, minutes: int) -> None:
    """A job never gets less than was asked for."""
    spec = JobSpec(name="x", script="#!/bin/sh\n", time_limit_s=seconds, directory="/")
    assert spec.time_limit_min == minutes
