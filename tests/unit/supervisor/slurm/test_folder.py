"""A service's folder is what its jobs know of each other."""

from pathlib import Path

import pytest

from opentela.core.errors import ConfigError
from opentela.supervisor.slurm.folder import Folder, folders, root
from opentela.supervisor.slurm.job import JobSpec
from opentela.supervisor.slurm.ledger import Run, Service

SERVICE = Service(
    name="a",
    spec=JobSpec(name="otela-a", script="#!/bin/sh\n", time_limit_s=600, directory="/"),
    replicas=1,
    gpus=1,
    lasts=True,
    drain_before_s=60,
)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "jobs" / "a")
    made.found(SERVICE)
    return made


def ready(folder: Folder, job: str, **replicas: str) -> None:
    for name, text in replicas.items():
        path = folder.path / job / name.replace("_", "-")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_a_service_is_found_again(folder: Folder) -> None:
    """By whoever looks, and by nobody else's eyes."""
    assert folder.service() == SERVICE
    assert [one.path for one in folders(folder.path.parent)] == [folder.path]
    assert folder.path.stat().st_mode & 0o077 == 0
    assert folders(folder.path / "nothing") == []


def test_a_missing_or_damaged_service_names_its_file(folder: Folder, tmp_path: Path) -> None:
    """And what makes it."""
    with pytest.raises(ConfigError, match=r"service\.json") as caught:
        Folder(tmp_path).service()
    assert "otela submit" in caught.value.remedy
    (folder.path / "service.json").write_text("{")
    with pytest.raises(ConfigError, match=r"service\.json"):
        folder.service()


def test_a_new_beginning_is_no_longer_cancelled(folder: Folder) -> None:
    """Whoever submits a service again wants it."""
    folder.cancel()
    assert folder.is_cancelled
    folder.found(SERVICE)
    assert not folder.is_cancelled


def test_runs_are_told_in_order_and_damaged_ones_left_out(folder: Folder) -> None:
    """Each start of each job is one."""
    for run in (Run(job=10), Run(job=9, restart=1, ready_at=5), Run(job=9)):
        folder.note(run)
    (folder.path / "run-11.0.json").write_text("half")
    (folder.path / "run-x.json").write_text("{}")
    assert [(run.job, run.restart) for run in folder.runs()] == [(9, 0), (9, 1), (10, 0)]
    assert folder.run(9, 1).ready_at == 5
    assert folder.run(12, 3) == Run(job=12, restart=3)


def test_a_submission_is_noted_unless_the_job_was_quicker(folder: Folder) -> None:
    """The job itself knows more."""
    folder.note_submitted(5, 100.0)
    assert folder.run(5, 0).submitted_at == 100
    folder.note(Run(job=6, submitted_at=90, started_at=95))
    folder.note_submitted(6, 100.0)
    assert folder.run(6, 0).started_at == 95


def test_ready_replicas_are_those_of_the_latest_start(folder: Folder) -> None:
    """What an earlier one left behind counts no more."""
    assert folder.ready(7) == []
    ready(folder, "job-7.0", ready_0="100.5\n", ready_1="90\n")
    assert folder.ready(7) == [90, 100.5]
    ready(folder, "job-7.1", ready_0="200\n", ready_1="half a", status="0\n")
    assert folder.ready(7) == [200]
    assert folder.ready(7, 0) == [90, 100.5]
    assert (folder.have_ended(7, 0), folder.have_ended(7, 1)) == (False, True)


def test_services_lie_where_nodes_see_them() -> None:
    """In the home, which clusters share, unless told otherwise."""
    assert root({"OTELA_JOBS": "/scratch/jobs"}) == Path("/scratch/jobs")
    assert root({"XDG_DATA_HOME": "/data"}) == Path("/data/opentela/jobs")
    assert root({}) == Path.home() / ".local" / "share" / "opentela" / "jobs"
