"""The folder of a mesh on this machine: private, held by one, and honest about what runs."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from opentela.core.errors import UnavailableError
from opentela.local.home import Home, Running, State, default_home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "mesh of mine")
    made.prepare()
    return made


def state(pid: int) -> State:
    hub = Running(name="hub", pid=1, url="nats://h:1", log="hub.log")
    return State(pid=pid, api="http://h:2/v1", hub="nats://h:1", services=(hub,))


def test_nobody_else_may_enter(home: Home) -> None:
    """Keys, credentials and logs are their owner's."""
    home.record(state(os.getpid()))
    for path in (home.path, *home.path.rglob("*")):
        assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO), path


def test_the_token_stays_the_same(home: Home) -> None:
    """Whoever scrapes metrics is not locked out by a restart."""
    token = home.token_file.read_text()
    home.prepare()
    assert home.token_file.read_text() == token
    assert len(token) > 30


def test_only_one_mesh_is_up_in_a_home(home: Home) -> None:
    """The second is told who holds it and what to do."""
    with home.occupied():
        home.record(state(os.getpid()))
        with pytest.raises(UnavailableError, match=f"already up \\(process {os.getpid()}\\)"):
            home.occupied().__enter__()
    with home.occupied():
        pass


def test_what_runs_is_known_while_it_runs(home: Home) -> None:
    """After `otela up` has ended, in order or not, nothing is said to run."""
    assert home.state() is None
    with home.occupied():
        home.record(state(os.getpid()))
        assert home.state() == state(os.getpid())
    assert home.state() is None
    ended = subprocess.Popen(["true"])
    ended.wait()
    home.record(state(ended.pid))
    assert home.state() is None


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"OTELA_HOME": "/x"}, Path("/x")),
        ({"XDG_DATA_HOME": "/data"}, Path("/data/opentela/default")),
        ({}, Path.home() / ".local/share/opentela/default"),
    ],
)
def test_the_default_home_follows_the_environment(environ: dict[str, str], expected: Path) -> None:
    """OTELA_HOME, then the desktop standard's data folder, then its default."""
    assert default_home(environ) == expected
