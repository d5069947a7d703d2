"""Slurm is reached by what is there, or as was asked."""

from pathlib import Path

import pytest

from opentela.core.errors import ConfigError
from opentela.supervisor.slurm import inside
from opentela.supervisor.slurm.choice import scheduler
from opentela.supervisor.slurm.command_line import CommandLine, is_slurms
from opentela.supervisor.slurm.job import JobSpec, SlurmUnavailableError
from opentela.supervisor.slurm.library import description, load
from opentela.supervisor.slurm.rest import Rest
from opentela.supervisor.slurm.sbatch import SEPARATOR


@pytest.fixture
def commands(tmp_path: Path) -> str:
    """Return a folder that has sbatch."""
    (tmp_path / "sbatch").touch(0o755)
    return str(tmp_path)


def test_commands_are_taken_where_they_are(commands: str) -> None:
    """Every release has them."""
    assert isinstance(scheduler("auto", "", {"PATH": commands}), CommandLine)
    assert isinstance(scheduler("auto", "http://h:1", {"PATH": commands}), CommandLine)
    assert isinstance(scheduler("rest", "http://h:1", {"PATH": commands}), Rest)


def test_slurmrestd_is_taken_where_its_address_is_known() -> None:
    """From a machine that is none of the cluster's."""
    environ = {"PATH": "/nowhere", "OTELA_SLURM_URL": "unix:/run/s.sock"}
    assert isinstance(scheduler("auto", "", environ), Rest)
    with pytest.raises(SlurmUnavailableError, match="no address") as caught:
        scheduler("rest", "", {"PATH": "/nowhere"})
    assert "OTELA_SLURM_URL" in caught.value.remedy
    with pytest.raises(ConfigError, match="--slurm-url 'h:1'"):
        scheduler("rest", "h:1", {})


def test_without_any_slurm_the_reader_learns_where_to_go(tmp_path: Path) -> None:
    """One line, no traceback; pyslurm itself would end the process."""
    nothing = {"PATH": "/nowhere", "SLURM_CONF": str(tmp_path / "slurm.conf")}
    with pytest.raises(SlurmUnavailableError, match="no Slurm here"):
        scheduler("auto", "", nothing)
    with pytest.raises(SlurmUnavailableError, match=r"no slurm\.conf"):
        load(nothing)


def test_a_job_is_told_nothing_of_the_job_that_submits_it() -> None:
    """Variables of Slurm's steer its commands."""
    assert is_slurms("SLURM_JOB_ID")
    assert is_slurms("SBATCH_PARTITION")
    assert not is_slurms("SLURM_CONF")
    assert not is_slurms("PATH")


def test_pyslurm_is_told_what_was_asked_for_alone() -> None:
    """In its own words."""
    spec = JobSpec(name="x", script="#!/bin/sh\n", time_limit_s=61, directory="/", warn_s=60)
    told = description(spec)
    assert told["time_limit"] == 2
    assert told["signal"] == {"signal": 10, "time": 60}
    assert not {"gres_per_node", "partitions", "comment", "memory_per_node"} & set(told)


@pytest.mark.parametrize(
    ("environ", "number"),
    [
        ({}, 0),
        ({"SLURM_JOB_ID": "12"}, 12),
        ({"SLURM_JOBID": "7"}, 7),
        ({"SLURM_JOB_ID": "x"}, 0),
        ({"SLURM_JOB_ID": "9" * 5000}, 0),
    ],
)
def test_our_own_job_is_known_by_its_variable(environ: dict[str, str], number: int) -> None:
    """Or we are in none."""
    assert inside.job_id(environ) == number


async def test_outside_a_job_nobody_is_asked() -> None:
    """Most supervisors in tests and on workstations."""
    assert await inside.ends_at({"PATH": "/nowhere"}) == 0


async def test_a_job_whose_slurm_cannot_be_asked_serves_without_an_end(tmp_path: Path) -> None:
    """As in a container without the commands."""
    environ = {"PATH": "/nowhere", "SLURM_JOB_ID": "5", "SLURM_CONF": str(tmp_path / "none")}
    assert await inside.ends_at(environ) == 0


@pytest.mark.parametrize(
    ("state", "ends", "known"),
    [
        ("RUNNING", "1800000000", 1_800_000_000.0),
        ("RUNNING", "NONE", 0.0),
        ("PENDING", "N/A", None),
        ("", "", None),
    ],
    ids=["an end", "lifted to UNLIMITED", "requeued", "forgotten"],
)
async def test_an_end_that_was_lifted_is_another_answer_than_none(
    tmp_path: Path, state: str, ends: str, known: float | None
) -> None:
    """What nobody says changes nothing."""
    fields = ("5", "otela-a", state, "None", "main", "n1", "1", "2", ends)
    squeue = tmp_path / "squeue"
    squeue.write_text(f"#!/bin/sh\nprintf '%s\\n' '{SEPARATOR.join(fields) if state else ''}'\n")
    squeue.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "5", "SLURM_CONF": "/none"}
    assert await inside.asked_end(environ) == known
