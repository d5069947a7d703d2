"""nats-server as our child: known to be ready, told apart by its faults, never left behind."""

import asyncio
import contextlib
import os
import signal
import socket
import stat
import sys
from pathlib import Path

import pytest

from opentela.core.errors import ConfigError, MeshUnavailableError, PortInUseError
from opentela.mesh import server as servers
from opentela.mesh.server import NatsServer, find_server
from opentela.testing.mesh import until

pytestmark = pytest.mark.nats

OPEN = 'listen: "127.0.0.1:-1"\n'


def conf_of(folder: Path, text: str) -> Path:
    """Return a configuration file that says *text*."""
    path = folder / "server.conf"
    path.write_text(text)
    return path


async def test_a_started_server_takes_connections_where_it_says(tmp_path: Path) -> None:
    """All four listeners, on ports that the system chose."""
    conf = conf_of(
        tmp_path,
        OPEN
        + 'http: "127.0.0.1:-1"\nleafnodes { listen: "127.0.0.1:-1" }\n'
        + 'websocket { listen: "0.0.0.0:-1", no_tls: true }\n',
    )
    server = await NatsServer.start(conf, log=tmp_path / "log")
    try:
        for listener in ("client", "leaf", "websocket", "monitor"):
            _, writer = await asyncio.open_connection("127.0.0.1", server.port(listener))
            writer.close()
            await writer.wait_closed()
        assert server.url == f"nats://127.0.0.1:{server.port('client')}"
        assert server.leaf_url == f"nats-leaf://127.0.0.1:{server.port('leaf')}"
        assert server.websocket_url == f"ws://127.0.0.1:{server.port('websocket')}"
        assert server.is_running
        assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600
    finally:
        await server.stop()
    assert not server.is_running


async def test_a_stopped_server_ends_in_order_and_a_killed_one_at_once(tmp_path: Path) -> None:
    """And both are reaped; either may be repeated."""
    conf = conf_of(tmp_path, OPEN)
    server = await NatsServer.start(conf, log=tmp_path / "log")
    await server.stop()
    await server.stop()
    assert await server.wait() in (0, 1)
    server = await NatsServer.start(conf, log=tmp_path / "log")
    await server.kill()
    assert await server.wait() == -signal.SIGKILL


async def test_a_frozen_server_is_stopped_all_the_same(tmp_path: Path) -> None:
    """SIGTERM cannot reach it; the grace ends, and then SIGKILL does."""
    server = await NatsServer.start(conf_of(tmp_path, OPEN), log=tmp_path / "log")
    server.send(signal.SIGSTOP)
    await server.stop(grace_s=0.05)
    assert await server.wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    "text",
    [
        'listen: "127.0.0.1:PORT"',
        OPEN + 'leafnodes { listen: "127.0.0.1:PORT" }',
        OPEN + 'websocket { listen: "127.0.0.1:PORT", no_tls: true }',
        OPEN + 'http: "127.0.0.1:PORT"',
    ],
    ids=["client", "leaf", "websocket", "monitor"],
)
async def test_a_taken_port_is_named_with_what_to_do(tmp_path: Path, text: str) -> None:
    """Whichever of the listeners wanted it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        conf = conf_of(tmp_path, text.replace("PORT", str(port)))
        with pytest.raises(PortInUseError) as caught:
            await NatsServer.start(conf, log=tmp_path / "log")
    assert f"port {port} of 127.0.0.1 is taken" in str(caught.value)
    assert str(conf) in caught.value.remedy


@pytest.mark.parametrize(
    "text", ["bogus_field: 3\n", "listen: {\n", 'tls { cert_file: "no.pem", key_file: "no" }\n']
)
async def test_a_configuration_that_is_refused_says_why_in_one_line(
    tmp_path: Path, text: str
) -> None:
    """The server's own words, with the file."""
    with pytest.raises(ConfigError, match=r"does not start with .*server\.conf: ") as caught:
        await NatsServer.start(conf_of(tmp_path, text), log=tmp_path / "log")
    assert "\n" not in str(caught.value)


async def test_an_old_log_is_not_taken_for_this_servers(tmp_path: Path) -> None:
    """A log is appended to; a server that was ready yesterday is not ready now."""
    log = tmp_path / "log"
    log.write_text("Listening for client connections on 127.0.0.1:1\nServer is ready\n")
    server = await NatsServer.start(conf_of(tmp_path, OPEN), log=log)
    try:
        assert server.port("client") != 1
    finally:
        await server.kill()


async def test_a_server_that_does_not_become_ready_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left behind by a start that failed or was called off."""
    mute = tmp_path / "mute"
    mute.write_text("#!/bin/sh\necho $$ > pid\nexec sleep 1000\n")
    mute.chmod(0o700)
    monkeypatch.setattr(servers, "find_server", lambda: mute)
    conf = conf_of(tmp_path, OPEN)
    with pytest.raises(MeshUnavailableError, match="was not ready within 2 s"):
        await NatsServer.start(conf, log=tmp_path / "log", timeout_s=2.0)
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    (tmp_path / "pid").unlink()
    async with asyncio.TaskGroup() as tasks:
        starting = tasks.create_task(NatsServer.start(conf, log=tmp_path / "log"))
        await until(lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text()))
        starting.cancel()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children of a parent's death")
async def test_a_server_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    """Even by SIGKILL, after which nobody can clean up."""
    script = (
        "import asyncio, sys, pathlib\n"
        "from opentela.mesh.server import NatsServer\n"
        "async def main():\n"
        "    conf, log = map(pathlib.Path, sys.argv[1:])\n"
        "    print((await NatsServer.start(conf, log=log)).pid, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    conf = conf_of(tmp_path, OPEN)
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, conf, tmp_path / "log", stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    parent.kill()
    await parent.wait()
    await until(lambda: not is_alive(child))


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that nobody has reaped yet does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_the_newest_server_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old one on PATH does not shadow the wheel's; none, or only an old one, is a clear line."""
    find_server.cache_clear()
    wheel = find_server()
    try:
        for version, expected in (("2.9.10", wheel), ("99.0.0", tmp_path / "nats-server")):
            fake(tmp_path, version)
            monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
            find_server.cache_clear()
            assert find_server() == expected
        monkeypatch.setattr(servers, "_DISTRIBUTION", "not-installed")
        fake(tmp_path, "2.9.10")
        find_server.cache_clear()
        with pytest.raises(ConfigError, match=r"nats-server 2\.9\.10, which is too old") as caught:
            find_server()
        assert "pip install" in caught.value.remedy
        (tmp_path / "nats-server").write_text("#!/bin/sh\nexit 1\n")
        monkeypatch.setenv("PATH", str(tmp_path))
        find_server.cache_clear()
        with pytest.raises(ConfigError, match="there is no nats-server"):
            find_server()
    finally:
        find_server.cache_clear()


def fake(folder: Path, version: str) -> None:
    """Put a program there that says it is nats-server."""
    path = folder / "nats-server"
    path.write_text(f"#!/bin/sh\necho 'nats-server: v{version}'\n")
    path.chmod(0o700)
