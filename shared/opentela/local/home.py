"""The folder that holds one mesh of this machine: keys, configuration, logs, what runs."""

import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from opentela.core.errors import UnavailableError
from opentela.mesh import files

_TOKEN_BYTES: Final = 24


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """One process of a mesh that is up.

    Attributes:
        url: Where it serves its users.
        health: Base URL of its health page; empty for nats-server, which has none.
    """

    name: str
    pid: int
    url: str
    log: str
    health: str = ""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What `otela up` writes for the other commands; mode 0600.

    Attributes:
        pid: Of `otela up` itself.
        api: Base URL for OpenAI clients, `/v1` included.
        hub: Where supervisors and leaf servers of this machine dial.
    """

    pid: int
    api: str
    hub: str
    services: tuple[Running, ...] = ()


_STATE: Final = msgspec.json.Decoder(State)


class Home:
    """Where everything of one mesh lies. Nobody but its owner may enter."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mesh = path / "mesh"
        self.tool_access = path / "access" / "tool.toml"
        self.token_file = path / "health.token"
        self._state = path / "state.json"

    def prepare(self) -> None:
        """Make the folders and the token of the health pages, if they are not there."""
        for folder in (self.path, self.path / "access", self.path / "log"):
            files.make_private_dir(folder)
        if not self.token_file.exists():
            files.write(self.token_file, secrets.token_urlsafe(_TOKEN_BYTES) + "\n")

    def access(self, role: str) -> Path:
        """Return the access file of a role."""
        return self.path / "access" / f"{role}.toml"

    def config(self, service: str) -> Path:
        """Return the configuration file of a service."""
        return self.path / f"{service}.toml"

    def log(self, service: str) -> Path:
        """Return the log file of a service."""
        return self.path / "log" / f"{service}.log"

    @contextmanager
    def occupied(self) -> Iterator[None]:
        """Hold the home for one `otela up`.

        Raises:
            UnavailableError: Another one holds it.
        """
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, files.PRIVATE_FILE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            state = self.state()
            who = f" (process {state.pid})" if state else ""
            raise UnavailableError(
                f"the mesh in {self.path} is already up{who}",
                remedy="look at it with otela status, or choose another --home",
            ) from error
        try:
            yield
        finally:
            self._state.unlink(missing_ok=True)
            os.close(descriptor)

    def record(self, state: State) -> None:
        """Write what runs."""
        files.write(self._state, msgspec.json.format(msgspec.json.encode(state)).decode() + "\n")

    def state(self) -> State | None:
        """Return what runs here; None when nothing does."""
        try:
            state = _STATE.decode(self._state.read_bytes())
        except (OSError, msgspec.DecodeError):
            return None
        return state if _is_alive(state.pid) else None


def default_home(environ: Mapping[str, str]) -> Path:
    """Return the home that commands use unless told otherwise."""
    if chosen := environ.get("OTELA_HOME"):
        return Path(chosen).expanduser()
    data = environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "opentela" / "default"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
