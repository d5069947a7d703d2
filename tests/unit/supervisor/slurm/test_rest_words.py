"""slurmrestd is spoken to in its old form and its new one."""

import json
from typing import Any

import pytest

from opentela.core.errors import WireError
from opentela.supervisor.slurm import rest_words
from opentela.supervisor.slurm.job import Job, JobSpec

SPEC = JobSpec(
    name="otela-a",
    script="#!/bin/sh\ntrue\n",
    time_limit_s=600,
    directory="/d",
    environment={"PATH": "/bin", "A": "b=c"},
    nodes=2,
    tasks_per_node=4,
    cpus_per_task=3,
    memory_mb=100,
    gres="gpu:4,lic:1",
    partition="p",
    warn_s=60,
)


def body(number: int, spec: JobSpec = SPEC) -> Any:
    return json.loads(rest_words.submission(spec, number))


def test_the_newest_form_that_the_server_lists_is_spoken() -> None:
    """Whether its description escapes slashes or not; what is older than ours is not."""
    listed = (
        b'{"/slurm/v0.0.37/job/submit": 0, "/slurm/v0.0.44/job/submit": 0, "/slurm/v0.0.45/x": 0}'
    )
    assert rest_words.version(listed) == 44
    assert rest_words.version(rb'"\/slurm\/v0.0.38\/job\/submit"') == 38
    for wrong in (b"", b"<html>", b'"/slurm/v0.0.37/job/submit"'):
        with pytest.raises(WireError, match=r"v0\.0\.38"):
            rest_words.version(wrong)


def test_the_old_form_takes_plain_numbers_and_a_map_of_variables() -> None:
    """As Slurm 22.05 does."""
    told = body(38)
    assert told["script"] == SPEC.script
    job = told["job"]
    assert job["environment"] == SPEC.environment
    assert (job["nodes"], job["tasks"], job["tasks_per_node"]) == ([2, 2], 8, 4)
    assert (job["time_limit"], job["memory_per_node"], job["cpus_per_task"]) == (10, 100, 3)
    assert (job["gres"], job["signal"], job["requeue"]) == ("gpu:4,lic:1", "USR1@60", True)
    assert "account" not in job


def test_the_new_form_says_of_each_number_that_it_is_set() -> None:
    """As Slurm does from 23.11 on."""
    job = body(44)["job"]
    assert job["script"] == SPEC.script
    assert job["environment"] == ["PATH=/bin", "A=b=c"]
    assert job["time_limit"] == {"set": True, "infinite": False, "number": 10}
    assert job["memory_per_node"]["number"] == 100
    assert (job["minimum_nodes"], job["maximum_nodes"]) == (2, 2)
    assert job["tres_per_node"] == "gres/gpu:4,gres/lic:1"
    assert (job["kill_warning_signal"], job["kill_warning_delay"]["number"]) == ("USR1", 60)


@pytest.mark.parametrize("number", [38, 44])
def test_what_is_not_asked_for_is_not_said(number: int) -> None:
    """Slurm's own defaults hold."""
    least = JobSpec(name="x", script="#!/bin/sh\n", time_limit_s=60, directory="/")
    job = body(number, least)["job"]
    assert not set(job) & {
        *("gres", "tres_per_node", "signal", "kill_warning_signal", "partition", "comment"),
        *("memory_per_node", "cpus_per_task"),
    }


def told(**fields: object) -> bytes:
    return json.dumps({"jobs": [{"job_id": 7, "name": "a", "user_name": "me", **fields}]}).encode()


def test_jobs_are_read_in_both_forms() -> None:
    """The same job, whoever tells it."""
    old = told(
        job_state="RUNNING", state_reason="None", partition="p", nodes="n1",
        submit_time=900, start_time=950, end_time=1550,
    )  # fmt: skip
    new = told(
        job_state=["RUNNING"], state_reason="None", partition="p", nodes="n1",
        submit_time={"set": True, "infinite": False, "number": 900},
        start_time={"set": True, "infinite": False, "number": 950},
        end_time={"set": True, "infinite": False, "number": 1550},
    )  # fmt: skip
    job = Job(
        id=7, name="a", state="RUNNING", partition="p", nodes="n1",
        submitted_at=900, starts_at=950, ends_at=1550,
    )  # fmt: skip
    assert rest_words.read_jobs(old) == rest_words.read_jobs(new) == [job]


def test_a_waiting_job_has_a_reason_and_no_instants() -> None:
    """No time is written in several ways."""
    waiting = told(
        job_state=["PENDING"], state_reason="Resources", start_time={"set": False, "number": 5},
        end_time={"set": True, "infinite": True, "number": 5}, submit_time=1 << 33,
    )  # fmt: skip
    (job,) = rest_words.read_jobs(waiting)
    assert (job.reason, job.submitted_at, job.starts_at, job.ends_at) == ("Resources", 0, 0, 0)


def test_jobs_of_others_are_left_out() -> None:
    """Slurm tells everybody's."""
    assert rest_words.read_jobs(told(job_state="RUNNING"), user="you") == []
    assert len(rest_words.read_jobs(told(job_state="RUNNING"), user="me")) == 1
    assert rest_words.read_jobs(b"{}") == []


@pytest.mark.parametrize(
    "wrong", [b"", b"[]", b'{"jobs": 5}', b'{"jobs": [5]}', b'{"jobs": [{"job_state": "R"}]}']
)
def test_what_are_no_jobs_is_refused(wrong: bytes) -> None:
    """A proxy's page is no list of jobs."""
    with pytest.raises(WireError):
        rest_words.read_jobs(wrong)


def test_the_number_of_the_new_job_is_read() -> None:
    """Nothing else is one."""
    assert rest_words.read_number(b'{"job_id": 5}') == 5
    for wrong in (b"{}", b'{"job_id": 0}', b'{"job_id": "5"}'):
        with pytest.raises(WireError, match="named no job"):
            rest_words.read_number(wrong)


def test_errors_are_read_in_both_forms() -> None:
    """Number and words; an answer that is none tells no error."""
    assert rest_words.errors(b'{"errors": [{"error": "no", "error_code": 9}]}') == [(9, "no")]
    assert rest_words.errors(
        b'{"errors": [{"error": "Invalid job id", "description": "d", "error_number": 2017}]}'
    ) == [(2017, "Invalid job id: d")]
    assert rest_words.errors(b'{"errors": []}') == []
    assert rest_words.errors(b"<html>") == []
    assert rest_words.errors(b'{"errors": 5}') == []
