"""What is written to Slurm's commands, and what is read from them."""

import pytest
from msgspec.structs import replace

from opentela.core.errors import ConfigError, WireError
from opentela.supervisor.slurm import sbatch
from opentela.supervisor.slurm.job import Job, JobSpec

LEAST = JobSpec(name="x", script="#!/bin/sh\ntrue\n", time_limit_s=60, directory="/tmp")


def line(*fields: str) -> str:
    return sbatch.SEPARATOR.join(fields) + "\n"


def test_the_least_job_leaves_everything_else_to_slurm() -> None:
    """No empty option is given."""
    assert sbatch.options(LEAST) == [
        *("--job-name=x", "--time=0-00:01:00", "--chdir=/tmp", "--output=slurm-%j.out"),
        *("--nodes=1", "--ntasks-per-node=1", "--requeue", "--open-mode=append"),
    ]


def test_everything_that_can_be_asked_for_is_an_option() -> None:
    """The job's steps are warned, not its script alone."""
    spec = JobSpec(
        name="otela-a",
        script="#!/bin/sh\n",
        time_limit_s=86_400 + 3600 + 90,
        directory="/d",
        output="o",
        nodes=2,
        tasks_per_node=4,
        cpus_per_task=8,
        memory_mb=1000,
        gres="gpu:4",
        partition="p",
        account="a",
        qos="q",
        reservation="r",
        constraint="c",
        warn_s=60,
        requeue=False,
        comment="two words",
        extra=("--exclusive", "--nice=100"),
    )
    words = sbatch.options(spec)
    for wanted in (
        *("--time=1-01:02:00", "--nodes=2", "--ntasks-per-node=4", "--cpus-per-task=8"),
        *("--mem=1000M", "--gres=gpu:4", "--partition=p", "--account=a", "--qos=q"),
        *("--reservation=r", "--constraint=c", "--signal=USR1@60", "--comment=two words"),
        *("--no-requeue", "--exclusive", "--nice=100"),
    ):
        assert wanted in words


def test_a_whole_script_can_be_given_to_sbatch_by_hand() -> None:
    """Options stand behind the first line, blanks in quotes."""
    text = sbatch.whole_script(replace(LEAST, comment="two words"))
    lines = text.splitlines()
    assert lines[0] == "#!/bin/sh"
    assert lines[1] == "#SBATCH --job-name=x"
    assert '#SBATCH --comment="two words"' in lines
    assert lines[-1] == "true"


@pytest.mark.parametrize("wrong", ["exclusive", "-x", "--", "--a b\n#SBATCH", "--A=1", ""])
def test_what_is_no_option_is_refused(wrong: str) -> None:
    """A line that could end the header early never gets into it."""
    with pytest.raises(ConfigError, match="--sbatch") as caught:
        sbatch.options(replace(LEAST, extra=(wrong,)))
    assert "--sbatch=--exclusive" in caught.value.remedy


def test_jobs_are_read_as_squeue_prints_them() -> None:
    """Slurm has several words for nothing."""
    printed = line(
        *("12", "otela-b", "PENDING", "Priority", "gpu", "", "1000", "N/A", "N/A")
    ) + line(*("7", "a | b", "RUNNING", "None", "gpu", "n[1-2]", "900", "950", "1550"))
    assert sbatch.read_jobs(printed) == [
        Job(
            id=7, name="a | b", state="RUNNING", partition="gpu", nodes="n[1-2]",
            submitted_at=900, starts_at=950, ends_at=1550,
        ),
        Job(
            id=12, name="otela-b", state="PENDING", reason="Priority", partition="gpu",
            submitted_at=1000,
        ),
    ]  # fmt: skip
    assert sbatch.read_jobs("") == []


@pytest.mark.parametrize("wrong", ["slurm_load_jobs error", line("x", *"abcdefgh"), line("1", "a")])
def test_what_is_no_job_is_refused(wrong: str) -> None:
    """Nothing is guessed from half a line."""
    with pytest.raises(WireError, match="squeue printed no job"):
        sbatch.read_jobs(wrong)


def test_the_number_of_a_job_is_read() -> None:
    """Also behind a warning, and with the cluster's name."""
    assert sbatch.read_number("123\n") == 123
    assert sbatch.read_number("a site's greeting\n123;alps\n") == 123
    for wrong in ("", "Submitted batch job 5\n"):
        with pytest.raises(WireError, match="no number"):
            sbatch.read_number(wrong)


def test_an_estimate_is_read_or_unknown() -> None:
    """From the line that --test-only prints on stderr."""
    said = "sbatch: Job 5 to start at 1796007360 using 1 processors on nodes n2 in partition gpu\n"
    assert sbatch.read_estimate(said) == 1_796_007_360
    assert sbatch.read_estimate("sbatch: allocation failure") == 0
    assert sbatch.read_estimate("Job 5 to start at 2026-11-30T03:02:01 using") == 0


def test_a_complaint_is_the_line_that_says_what_is_wrong() -> None:
    """The last error; without one, the last line; and never nothing."""
    said = (
        "sbatch: error: invalid partition specified: nowhere\n"
        "sbatch: error: Batch job submission failed: Invalid partition name specified\n"
    )
    assert sbatch.complaint(said) == "Batch job submission failed: Invalid partition name specified"
    assert sbatch.complaint("hm\nno\n\n") == "no"
    assert sbatch.complaint("") == "it said nothing"
