"""The state file: what a registry without peers knows after a restart."""

import os
import random
import resource
import stat
from pathlib import Path

import msgspec
import pytest

from opentela.core.errors import ConfigError
from opentela.core.record import SessionRecord
from opentela.core.session_map import SessionMap
from opentela.registry import state
from opentela.registry.state import State
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.testing.sim.keys import FakeIdentity, vouch


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "registry.state"


def test_a_map_is_read_back_as_it_was_written(path: Path) -> None:
    """With what it has forgotten, and for its owner alone."""
    owner = Owner(FakeIdentity(random.Random(1)))
    held = SessionMap(vouch())
    held.apply([owner.record], wall=BORN_AT_MS / 1000, source="test")
    held.adopt_horizon(cut_ms=5, horizon_ms=7)
    state.write(path, state.state_of(held))
    assert state.read(path) == State(records=(owner.record,), cut_ms=5, horizon_ms=7)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_a_later_map_takes_the_place_of_the_earlier(path: Path) -> None:
    """In one step: there is always a whole file."""
    state.write(path, State(cut_ms=1))
    state.write(path, State(cut_ms=2))
    assert state.read(path) == State(cut_ms=2)


def test_no_file_is_no_state(path: Path) -> None:
    """The first start."""
    assert state.read(path) is None


@pytest.mark.parametrize(
    "content",
    [b"rubbish", msgspec.msgpack.encode(State(version=2))],
    ids=["rubbish", "later version"],
)
def test_a_damaged_file_is_refused_with_its_remedy(path: Path, content: bytes) -> None:
    """A registry that silently forgot would be worse than one that does not start."""
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"registry\.state") as caught:
        state.read(path)
    assert "remove the file" in caught.value.remedy


def test_an_unreadable_file_is_refused(path: Path) -> None:
    """Such as a folder in its place."""
    path.mkdir()
    with pytest.raises(ConfigError, match="directory"):
        state.read(path)


def test_a_file_that_ends_early_is_refused_wherever_it_ends(path: Path) -> None:
    """Half a map would be taken for all there is."""
    owner = Owner(FakeIdentity(random.Random(1)))
    state.write(path, State(records=(owner.record,), cut_ms=5))
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ConfigError, match=r"registry\.state"):
            state.read(path)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_could_have_written_is_refused(path: Path, mode: int) -> None:
    """It could say of any session that it has left."""
    state.write(path, State(cut_ms=1))
    path.chmod(mode)
    with pytest.raises(ConfigError, match="could have been written by others"):
        state.read(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_somebody_elses_file_is_refused(path: Path) -> None:
    """Whatever its mode."""
    state.write(path, State(cut_ms=1))
    os.chown(path, 65_534, 65_534)
    with pytest.raises(ConfigError, match="owner 65534, mode 0600"):
        state.read(path)


def test_a_link_is_not_written_through(path: Path, tmp_path: Path) -> None:
    """Nothing but the registry's own file is ever changed."""
    precious = tmp_path / "precious"
    precious.write_bytes(b"keep")
    path.with_name(f".{path.name}.new").symlink_to(precious)
    state.write(path, State(cut_ms=1))
    assert precious.read_bytes() == b"keep"
    assert state.read(path) == State(cut_ms=1)


def test_a_full_disk_leaves_the_earlier_map(path: Path) -> None:
    """Whole, with no half of the new one beside it; with room again, it is written."""
    old, new = State(cut_ms=1), State(records=tuple(crowd(64)))
    state.write(path, old)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            state.write(path, new)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert state.read(path) == old
    assert list(path.parent.iterdir()) == [path]
    state.write(path, new)
    assert state.read(path) == new


def crowd(count: int) -> list[SessionRecord]:
    signer = FakeIdentity(random.Random(1))
    return [Owner(signer, number=number).record for number in range(count)]
