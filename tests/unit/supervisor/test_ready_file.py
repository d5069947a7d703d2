"""A file says whether requests are taken, to whoever cannot ask."""

import shutil
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from opentela.core.errors import ConfigError
from opentela.supervisor.ready_file import ReadyFile

NOON = 1_800_000_000.0


def made(path: str, told: list[tuple[bool, str]]) -> ReadyFile:
    return ReadyFile(path, wall=lambda: NOON, on_ready=lambda *words: told.append(words))


def test_the_file_is_there_while_requests_are_taken(tmp_path: Path) -> None:
    """It holds since when, and nothing else lies beside it."""
    told: list[tuple[bool, str]] = []
    path = tmp_path / "ready-0"
    path.write_text("of an earlier life")
    file = made(str(path), told)
    assert not path.exists()
    file.tell(flag=False, reason="loading")
    assert not path.exists()
    file.tell(flag=True)
    assert float(path.read_text()) == NOON
    file.tell(flag=True)
    file.tell(flag=False, reason="leaving")
    assert list(tmp_path.iterdir()) == []
    assert told == [(False, "loading"), (True, ""), (True, ""), (False, "leaving")]


def test_without_a_file_readiness_is_passed_on_alone() -> None:
    """As most supervisors run."""
    told: list[tuple[bool, str]] = []
    made("", told).tell(flag=True)
    assert told == [(True, "")]


def test_a_file_that_cannot_be_written_is_found_at_once(tmp_path: Path) -> None:
    """Not when the engine has loaded for an hour."""
    with pytest.raises(ConfigError, match=r"ready_file = .*No such file") as caught:
        made(str(tmp_path / "no" / "ready"), [])
    assert "folder" in caught.value.remedy


def test_a_disk_that_fails_later_ends_nothing(tmp_path: Path) -> None:
    """The engine serves; the file follows once it can."""
    told: list[tuple[bool, str]] = []
    path = tmp_path / "folder" / "ready-0"
    path.parent.mkdir()
    file = made(str(path), told)
    shutil.rmtree(path.parent)
    with capture_logs() as logged:
        file.tell(flag=True)
        file.tell(flag=True)
    assert [one["event"] for one in logged] == ["ready_file_unwritten"]
    assert told == [(True, ""), (True, "")]
    path.parent.mkdir()
    file.tell(flag=True)
    assert float(path.read_text()) == NOON
