"""The state file: what a registry without peers knows after a restart."""

import random
import stat
from pathlib import Path

import msgspec
import pytest

from opentela.core.errors import ConfigError
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
