"""A pod's end is read from what its manifest says and the kubelet wrote."""

import os
from pathlib import Path

import pytest

from opentela.core.errors import ConfigError
from opentela.supervisor import pod
from opentela.supervisor.pod import Pod

NOON = 1_800_000_000.0


def informed(folder: Path, **files: str) -> dict[str, str]:
    """Write a downward volume at noon; return the environment that names it."""
    for name, text in files.items():
        (folder / name).write_text(text)
        os.utime(folder / name, (NOON, NOON))
    return {pod.FOLDER_VARIABLE: str(folder)}


@pytest.mark.parametrize(("text", "seconds"), [("14400", 14400), ("4h\n", 14400), ("90m", 5400)])
def test_the_deadline_counts_from_when_the_volume_was_written(
    tmp_path: Path, text: str, seconds: float
) -> None:
    """That is the pod's start, not the container's; bare numbers are seconds, as in a manifest."""
    found = pod.read(informed(tmp_path, deadline_s=text))
    assert found == Pod(NOON, seconds, 0.0)
    assert found.ends_at == NOON + seconds


def test_a_pod_may_have_a_grace_alone() -> None:
    """It has no end of its own then."""
    assert Pod(NOON, 0.0, 600.0).ends_at == 0.0


def test_outside_of_a_pod_nothing_is_known(tmp_path: Path) -> None:
    """Also with a volume that tells nothing of this."""
    assert pod.read({pod.FOLDER_VARIABLE: str(tmp_path / "missing")}) is None
    assert pod.read(informed(tmp_path, labels="a=b")) is None
    assert pod.read(informed(tmp_path, deadline_s="")) is None


def test_an_edited_deadline_still_counts_from_the_start(tmp_path: Path) -> None:
    """The kubelet writes the file anew."""
    environ = informed(tmp_path, deadline_s="3600")
    first = pod.read(environ)
    assert first is not None
    (tmp_path / "deadline_s").write_text("1800")
    again = pod.read(environ, started_at=first.started_at)
    assert again == Pod(NOON, 1800.0, 0.0)


def test_what_is_no_length_of_time_is_refused_by_the_files_name(tmp_path: Path) -> None:
    """Nothing is guessed."""
    with pytest.raises(ConfigError, match="deadline_s = 'soon'"):
        pod.read(informed(tmp_path, deadline_s="soon"))


def test_a_file_that_cannot_be_read_says_so_in_words(tmp_path: Path) -> None:
    """A folder of that name, for example."""
    (tmp_path / "grace_s").mkdir()
    with pytest.raises(ConfigError, match="grace_s cannot be read: Is a directory"):
        pod.read({pod.FOLDER_VARIABLE: str(tmp_path)})


def test_the_grace_is_shared_between_requests_and_the_engines_end() -> None:
    """And some of it is ours."""
    assert pod.drain_limit_s(Pod(NOON, grace_s=600.0), stop_s=8.0) == 590.0
    with pytest.raises(ConfigError, match="too short") as caught:
        pod.drain_limit_s(Pod(NOON, grace_s=10.0), stop_s=8.0)
    assert "terminationGracePeriodSeconds" in caught.value.remedy
