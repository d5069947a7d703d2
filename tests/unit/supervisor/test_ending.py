"""Who tells the end of our time, and who is believed."""

import os
from pathlib import Path

import pytest

from opentela.supervisor import pod
from opentela.supervisor.ending import EndFinder
from opentela.supervisor.slurm.sbatch import SEPARATOR

NOON = 1_800_000_000.0


@pytest.fixture
def podded(tmp_path: Path) -> dict[str, str]:
    """A pod that began at noon and has an hour."""
    (tmp_path / "deadline_s").write_text("3600")
    os.utime(tmp_path / "deadline_s", (NOON, NOON))
    return {pod.FOLDER_VARIABLE: str(tmp_path)}


@pytest.fixture
def podless(tmp_path: Path) -> dict[str, str]:
    """No pod."""
    return {pod.FOLDER_VARIABLE: str(tmp_path / "none")}


async def test_without_anybody_who_tells_there_is_no_end(podless: dict[str, str]) -> None:
    """And nothing that could move."""
    finder = EndFinder("", podless, NOON)
    assert await finder.first() == 0.0
    assert not finder.can_move
    assert await finder.again() is None


async def test_of_a_flag_and_slurms_word_the_earlier_counts(podless: dict[str, str]) -> None:
    """A flag cannot prolong a job."""
    slurm = {**podless, "SLURM_JOB_END_TIME": str(int(NOON) + 600)}
    assert await EndFinder("", slurm, NOON).first() == NOON + 600
    assert await EndFinder("1h", slurm, NOON).first() == NOON + 600
    assert await EndFinder("5m", slurm, NOON).first() == NOON + 300


async def test_a_pods_deadline_counts_from_its_start(podded: dict[str, str]) -> None:
    """However late the container began."""
    finder = EndFinder("", podded, NOON + 500)
    assert await finder.first() == NOON + 3600
    assert finder.can_move


async def test_in_a_pod_the_flag_wins(podded: dict[str, str]) -> None:
    """Its manifest only repeats what Kubernetes was told."""
    finder = EndFinder("2h", podded, NOON + 500)
    assert await finder.first() == NOON + 7700
    assert not finder.can_move


async def test_a_deadline_that_is_edited_is_noticed(podded: dict[str, str]) -> None:
    """What cannot be read is no news."""
    finder = EndFinder("", podded, NOON)
    file = Path(podded[pod.FOLDER_VARIABLE]) / "deadline_s"
    file.write_text("1800")
    assert await finder.again() == NOON + 1800
    file.write_text("soon")
    assert await finder.again() is None


async def test_a_slurm_that_does_not_answer_is_no_news(podless: dict[str, str]) -> None:
    """What was known stays."""
    finder = EndFinder("", {**podless, "SLURM_JOB_ID": "7", "PATH": "/nonexistent"}, NOON)
    assert finder.can_move
    assert await finder.again() is None


@pytest.mark.parametrize("told", ["4294967295", "9" * 40, "9" * 400, "NONE"])
async def test_an_end_in_another_century_is_none(
    tmp_path: Path, podless: dict[str, str], told: str
) -> None:
    """Slurm has numbers for no end; a flag counts beside them."""
    fields = ("7", "otela-a", "RUNNING", "None", "main", "n1", "1", "2", told)
    squeue = tmp_path / "squeue"
    squeue.write_text(f"#!/bin/sh\nprintf '%s\\n' '{SEPARATOR.join(fields)}'\n")
    squeue.chmod(0o755)
    job = {**podless, "SLURM_JOB_ID": "7", "PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert await EndFinder("", job, NOON).again() == 0.0
    assert await EndFinder("1h", job, NOON).again() == NOON + 3600
