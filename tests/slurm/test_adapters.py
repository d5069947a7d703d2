"""One contract for every way to reach Slurm, on a real one."""

import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.slurm.cluster import Cluster

from opentela.supervisor.slurm.command_line import CommandLine
from opentela.supervisor.slurm.job import Job, JobSpec, Phase, SlurmRefusedError
from opentela.supervisor.slurm.library import Library
from opentela.supervisor.slurm.port import Scheduler
from opentela.supervisor.slurm.rest import Rest
from opentela.testing.waiting import until

pytestmark = pytest.mark.slurm

STARTED_WITHIN_S = 60.0
SpecMaker = Callable[..., JobSpec]


@pytest.fixture(params=["cli", "rest", "rest by a socket", "pyslurm"])
async def scheduler(
    request: pytest.FixtureRequest, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scheduler]:
    """Each adapter in turn; pyslurm only where it is installed for this Slurm."""
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
    made: Scheduler
    if request.param == "cli":
        made = CommandLine(cluster.environ)
    elif request.param.startswith("rest"):
        made = Rest(*cluster.rest(by_socket="socket" in request.param))
    else:
        pytest.importorskip("pyslurm", reason="pyslurm is not installed", exc_type=ImportError)
        made = Library(cluster.environ)
    yield made
    await made.close()


@pytest.fixture
def spec(cluster: Cluster, tmp_path: Path) -> SpecMaker:
    """Makes jobs that leave their traces in a folder of this test."""

    def make(script: str = "sleep 300", **fields: object) -> JobSpec:
        values: dict[str, object] = {
            "name": "otela-contract",
            "script": f"#!/bin/sh\n{script}\n",
            "time_limit_s": 300,
            "directory": str(tmp_path),
            "memory_mb": 100,
            "environment": {
                "PATH": os.environ["PATH"],
                "GREETING": "a b=c",
                "SLURM_CONF": str(cluster.conf),
            },
        }
        return JobSpec(**{**values, **fields})  # type: ignore[arg-type]

    return make


async def seen(scheduler: Scheduler, number: int) -> Job:
    (job,) = await scheduler.jobs(ids=[number])
    return job


async def reached(scheduler: Scheduler, number: int, *phases: Phase) -> Job:
    async def is_there() -> bool:
        return (await seen(scheduler, number)).phase in phases

    await until(is_there, f"{phases} of job {number}", within_s=STARTED_WITHIN_S)
    return await seen(scheduler, number)


async def written(path: Path, words: str) -> None:
    await until(
        lambda: path.exists() and words in path.read_text(),
        f"{words!r} in {path.name}",
        within_s=STARTED_WITHIN_S,
    )


async def test_a_job_is_submitted_told_and_cancelled(scheduler: Scheduler, spec: SpecMaker) -> None:
    """With the name, the place and the instants that Slurm gives it."""
    number = await scheduler.submit(spec(gres="gpu:1"))
    job = await reached(scheduler, number, Phase.RUNNING)
    assert (job.id, job.name, job.state, job.partition) == (
        number, "otela-contract", "RUNNING", "gpu",
    )  # fmt: skip
    assert job.nodes in {"n1", "n2", "n3"}
    assert job.submitted_at <= job.starts_at
    assert job.ends_at == job.starts_at + 300
    assert [one.id for one in await scheduler.jobs(name="otela-contract")][-1] == number
    assert number in [one.id for one in await scheduler.jobs()]
    assert await scheduler.jobs(name="no-such-name") == []
    await scheduler.cancel(number)
    ended = await reached(scheduler, number, Phase.ENDED)
    assert ended.state == "CANCELLED"
    assert 0 < ended.ends_at < job.ends_at
    await scheduler.cancel(number)


async def test_a_job_gets_what_was_asked_for_and_nothing_else(
    scheduler: Scheduler, spec: SpecMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes, tasks and GPUs as they were named; no variable of the submitting process."""
    monkeypatch.setenv("LEAKED", "1")
    script = "env >env.txt; srun --mem=0 sh -c 'echo \"$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES\"'"
    number = await scheduler.submit(
        spec(script, nodes=2, tasks_per_node=2, gres="gpu:2", output="said-%j.txt", comment="x y")
    )
    ended = await reached(scheduler, number, Phase.ENDED)
    assert ended.state == "COMPLETED"
    lines = sorted((tmp_path / f"said-{number}.txt").read_text().split("\n"))
    assert lines == ["", "n1 0,1", "n1 0,1", "n2 0,1", "n2 0,1"]
    environ = dict(
        line.split("=", 1)
        for line in (tmp_path / "env.txt").read_text().splitlines()
        if "=" in line
    )
    assert environ["GREETING"] == "a b=c"
    assert environ["SLURM_JOB_NUM_NODES"] == "2"
    assert "LEAKED" not in environ


async def test_a_warning_reaches_the_processes_of_the_steps(
    scheduler: Scheduler, spec: SpecMaker, tmp_path: Path
) -> None:
    """A script need not pass it on; an old slurmrestd tells it, too, so it must not mind."""
    step = 'trap "echo step >>heard; exit 0" USR1; touch up; while :; do sleep 0.1; done'
    script = f"trap 'echo script >>heard' USR1\nsrun --mem=0 sh -c '{step}'\necho over >>heard"
    number = await scheduler.submit(spec(script))
    await until((tmp_path / "up").exists, "the step", within_s=STARTED_WITHIN_S)
    await scheduler.warn(number)
    await written(tmp_path / "heard", "over")
    heard = (tmp_path / "heard").read_text().splitlines()
    assert [word for word in heard if word != "script"] == ["step", "over"]
    ended = await reached(scheduler, number, Phase.ENDED)
    assert ended.state == "COMPLETED"


async def test_a_job_that_cannot_run_yet_waits_with_a_reason(
    scheduler: Scheduler, spec: SpecMaker
) -> None:
    """It is told why, and started when it can be."""
    first = await scheduler.submit(spec(nodes=3, gres="gpu:2"))
    await reached(scheduler, first, Phase.RUNNING)
    second = await scheduler.submit(spec("true", gres="gpu:1"))

    async def has_reason() -> bool:
        job = await seen(scheduler, second)
        return job.phase is Phase.QUEUED and job.reason in {"Resources", "Priority"}

    await until(has_reason, "a reason", within_s=STARTED_WITHIN_S)
    await scheduler.cancel(first)
    assert (await reached(scheduler, second, Phase.ENDED)).state == "COMPLETED"


async def test_what_slurm_refuses_is_one_line_in_its_own_words(
    scheduler: Scheduler, spec: SpecMaker
) -> None:
    """A partition that is not there."""
    with pytest.raises(SlurmRefusedError, match=r"(?i)partition"):
        await scheduler.submit(spec(partition="nowhere"))


async def test_a_job_that_nobody_knows_needs_no_ending(scheduler: Scheduler) -> None:
    """It may have been forgotten just now."""
    assert await scheduler.jobs(ids=[99_999]) == []
    await scheduler.warn(99_999)
    await scheduler.cancel(99_999)


async def test_a_start_is_estimated_or_unknown(scheduler: Scheduler, spec: SpecMaker) -> None:
    """Never guessed."""
    number = await scheduler.submit(spec(nodes=3, gres="gpu:2"))
    job = await reached(scheduler, number, Phase.RUNNING)
    at = await scheduler.start_estimate(spec(gres="gpu:1"))
    if isinstance(scheduler, CommandLine):
        # Not before the nodes are free, which they are by its limit at the latest.
        assert job.ends_at <= at <= job.ends_at + 120
    else:
        assert at == 0.0


def test_the_tools_of_these_tests_are_here() -> None:
    """Otherwise they would pass by testing nothing."""
    assert shutil.which("sbatch") is not None
