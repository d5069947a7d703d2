"""Files with secrets: nobody else reads them, nobody sees half of them."""

import errno
import os
import stat
from pathlib import Path

import pytest

from opentela.core.errors import ConfigError, CredentialError
from opentela.mesh import files


def test_a_written_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    """A public one is public."""
    old = os.umask(0)
    try:
        files.write(tmp_path / "secret", "s")
        os.umask(0o077)
        files.write(tmp_path / "public", "p", mode=files.PUBLIC_FILE)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "public").stat().st_mode) == 0o644


def test_a_file_that_was_public_becomes_private_when_replaced(tmp_path: Path) -> None:
    """And a reader who has it open keeps the old text."""
    path = tmp_path / "x"
    path.write_text("old")
    path.chmod(0o644)
    with path.open() as reader:
        files.write(path, "new")
        assert reader.read() == "old"
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    """Neither half a file nor its beginnings."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match="cannot write"):
        files.write(tmp_path / "folder", "text")
    with pytest.raises(ConfigError, match="cannot write"):
        files.write(tmp_path / "no" / "such" / "folder", "text")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_a_private_folder_is_made_or_made_private(tmp_path: Path) -> None:
    """A file in its place is told."""
    path = tmp_path / "a" / "b"
    files.make_private_dir(path)
    path.chmod(0o755)
    assert files.make_private_dir(path) == path
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot make the folder"):
        files.make_private_dir(tmp_path / "file")


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o601, 0o644, 0o777])
def test_a_secret_that_others_can_touch_is_refused(tmp_path: Path, mode: int) -> None:
    """With the command that puts it right."""
    path = tmp_path / "secret"
    path.write_text("s")
    path.chmod(mode)
    with pytest.raises(CredentialError, match=f"mode {mode:04o}") as caught:
        files.read_private(path, what="key")
    assert caught.value.remedy == f"run: chmod 600 {path}"


def test_a_secret_of_someone_else_may_be_read_through_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is how container platforms hand secrets over; the world still may not."""
    path = tmp_path / "secret"
    path.write_text("s")
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    path.chmod(0o440)
    assert files.read_private(path, what="key") == "s"
    path.chmod(0o444)
    with pytest.raises(CredentialError, match="read by others"):
        files.read_private(path, what="key")


def test_a_secret_that_is_missing_or_no_text_is_told(tmp_path: Path) -> None:
    """By name, with where to get one."""
    with pytest.raises(CredentialError, match=r"cannot read key .*No such file"):
        files.read_private(tmp_path / "none", what="key")
    path = tmp_path / "bytes"
    path.touch(0o600)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(CredentialError, match="it is not text"):
        files.read_private(path, what="key")


def test_a_full_disk_is_no_matter_of_ownership(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What helps is room."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left on device") as caught:
        files.write(tmp_path / "file", "text")
    assert caught.value.remedy.startswith("make room")
    assert list(tmp_path.iterdir()) == []
