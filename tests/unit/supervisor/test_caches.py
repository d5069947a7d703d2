"""Caches go to this node, or the user hears why not."""

import os
import tempfile
from pathlib import Path

import pytest

from opentela.core.errors import ConfigError
from opentela.supervisor import caches
from opentela.supervisor.caches import Mount
from opentela.supervisor.config import CacheConfig

MOUNTS = [
    Mount("/", "ext4"),
    Mount("/net", "nfs4"),
    Mount("/net/fast", "ext4"),
    Mount("/scratch", "lustre"),
    Mount("/data", "fuse.sshfs"),
    Mount("/over", "nfs"),
    Mount("/over", "tmpfs"),
]


@pytest.fixture
def config(tmp_path: Path) -> CacheConfig:
    return CacheConfig(directory=str(tmp_path), free_mb_min=0)


def test_every_cache_gets_a_folder_of_this_user(config: CacheConfig, tmp_path: Path) -> None:
    """Private, and under one roof."""
    made = caches.variables(config, {})
    assert set(made) == set(caches.VARIABLES)
    root = tmp_path / f"otela-cache-{os.getuid()}"
    assert made["VLLM_CACHE_ROOT"] == str(root / "vllm")
    assert root.stat().st_mode & 0o777 == 0o700
    assert caches.variables(config, {}) == made


def test_what_the_user_has_set_is_left_alone(config: CacheConfig, tmp_path: Path) -> None:
    """If everything is set, nothing is even looked for."""
    made = caches.variables(config, {"TRITON_CACHE_DIR": "/mine"})
    assert "TRITON_CACHE_DIR" not in made
    everything = dict.fromkeys(caches.VARIABLES, "/mine")
    assert caches.variables(CacheConfig(directory="/nowhere"), everything) == {}
    assert caches.variables(CacheConfig(enabled=False, directory="/nowhere"), {}) == {}


def test_places_of_the_job_come_before_those_of_the_host() -> None:
    """A configured directory is the only candidate."""
    environ = {"SLURM_TMPDIR": "/slurm", "TMPDIR": "/tmp"}
    found = caches.candidates(CacheConfig(), environ)
    assert found == ("/slurm", "/tmp", "/var/tmp", "/dev/shm")
    assert caches.candidates(CacheConfig(directory="/x"), environ) == ("/x",)


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/net/me", "nfs4"),
        ("/net", "nfs4"),
        ("/scratch/x", "lustre"),
        ("/data", "fuse.sshfs"),
        ("/net/fast/x", ""),
        ("/network", ""),
        ("/tmp", ""),
        ("/over", ""),
    ],
)
def test_a_file_system_that_nodes_share_is_passed_over(place: str, kind: str) -> None:
    """The nearest mount decides; of two at one place the later one."""
    fault = caches.shared_fault(place, MOUNTS)
    assert fault == (f"is on {kind}, which other nodes share" if kind else "")


def test_without_any_mount_nothing_is_shared() -> None:
    """Such a /proc exists in some sandboxes."""
    assert caches.shared_fault("/tmp", []) == ""


def test_this_host_lists_its_mounts() -> None:
    """There is always a root."""
    assert "/" in [mount.at for mount in caches.mounts()]


def test_the_next_place_is_tried_when_one_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No inode left shows only when a file is made."""
    full, good = tmp_path / "full", tmp_path / "good"
    for place in (full, good):
        place.mkdir()
    real = tempfile.NamedTemporaryFile

    def refuse(**options: Path) -> object:
        if full in options["dir"].parents:
            raise OSError(122, "Disk quota exceeded")
        return real(dir=options["dir"])

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refuse)
    monkeypatch.setattr(caches, "_PLACES", (str(good),))
    monkeypatch.setattr(caches, "mounts", list)
    found = caches.find(CacheConfig(free_mb_min=0), {"TMPDIR": str(full)})
    assert found.parent == good


def test_no_place_at_all_is_an_error_that_says_why_of_each(tmp_path: Path) -> None:
    """And what to set."""
    with pytest.raises(ConfigError) as caught:
        caches.find(CacheConfig(directory=str(tmp_path / "missing")), {})
    assert "missing cannot be written (no such file or directory)" in str(caught.value)
    assert "cache.directory" in caught.value.remedy


def test_a_place_without_room_is_refused(tmp_path: Path) -> None:
    """A compiler that fills the disk fails late and badly."""
    with pytest.raises(ConfigError, match="MiB free, less than 999999999"):
        caches.find(CacheConfig(directory=str(tmp_path), free_mb_min=999_999_999), {})


def test_a_folder_that_is_not_ours_is_not_used(config: CacheConfig, tmp_path: Path) -> None:
    """In /tmp anybody can put a link where we would write."""
    (tmp_path / f"otela-cache-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(ConfigError, match="which is not ours"):
        caches.find(config, {})


def test_a_folder_that_others_can_read_is_closed(config: CacheConfig, tmp_path: Path) -> None:
    """It may be older than this rule."""
    folder = tmp_path / f"otela-cache-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o755)
    caches.find(config, {})
    assert folder.stat().st_mode & 0o777 == 0o700
