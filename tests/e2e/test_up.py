"""`otela up` as somebody uses it: one command, one place, nothing left behind."""

import asyncio
import os
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from tests.e2e.processes import signal_all

from opentela import leftovers
from opentela.local.home import Home, State
from opentela.local.mesh import free_ports
from opentela.mesh import access as accesses
from opentela.mesh import setup
from opentela.service import SystemClock
from opentela.testing.mesh import until

pytestmark = pytest.mark.nats

MARK = "OTELA_TEST_RUN"
READY_S = 60.0


class Up:
    """A running `otela up`, and commands on its home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.mark = secrets.token_hex(8)
        self._environ = {**os.environ, MARK: self.mark, "OTELA_HOME": str(home)}
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, *words: str) -> State:
        """Start it; return what it says that runs."""
        self._process = await self.command("up", "--api", "127.0.0.1:0", "--json", *words)
        assert self._process.stdout is not None
        async with asyncio.timeout(READY_S):
            return msgspec.json.decode(await self._process.stdout.readline(), type=State)

    async def said(self) -> str:
        """Return the next line of what it reports."""
        assert self._process is not None
        assert self._process.stderr is not None
        async with asyncio.timeout(READY_S):
            return (await self._process.stderr.readline()).decode()

    async def interrupt(self) -> tuple[int, str]:
        """Press Ctrl-C; return exit code and what else it reported."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        async with asyncio.timeout(READY_S):
            _, err = await self._process.communicate()
        assert self._process.returncode is not None
        return self._process.returncode, err.decode()

    async def command(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start a command on the same home."""
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "opentela.cli", *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environ,
        )

    async def output(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command; return exit code and what it printed."""
        process = await self.command(*arguments)
        out, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    def left(self) -> list[leftovers.Found]:
        """Return every process of this run."""
        return leftovers.marked(MARK, self.mark)

    async def end(self) -> None:
        """End whatever still runs, however the test went."""
        # Who ends takes others along, or starts one again: until nobody is left.
        while left := self.left():
            signal_all([one.pid for one in left], signal.SIGKILL)
        if self._process is not None:
            await self._process.wait()


@pytest_asyncio.fixture
async def up(tmp_path: Path) -> AsyncIterator[Up]:
    made = Up(tmp_path / "home")
    yield made
    await made.end()


async def test_one_command_runs_it_all_and_ctrl_c_ends_it(up: Up) -> None:
    """The API answers, the status is well, and afterwards no process is left."""
    state = await up.start()
    assert next(service.name for service in state.services) == "hub"
    assert {service.name for service in state.services} == {"hub", "registry", "router"}
    async with aiohttp.ClientSession() as http, http.get(f"{state.api}/models") as answer:
        assert answer.status == 200
        assert (await answer.json())["data"] == []
    code, out, err = await up.output("status")
    assert (code, err) == (0, "")
    assert "No model is offered" in out
    assert f"{up.home}/log/*.log" in out
    elsewhere = ("status", "--access", str(up.home / "access" / "tool.toml"))
    code, out, err = await up.output(*elsewhere)
    assert (code, err) == (0, "")
    assert "registry" not in out, "of a mesh elsewhere, this machine's services say nothing"
    assert await up.interrupt() == (0, "")
    assert up.left() == []


async def test_a_placer_runs_beside_the_rest_if_asked_for(up: Up, tmp_path: Path) -> None:
    """It leads, and its plan can be looked at."""
    models = tmp_path / "models.toml"
    models.write_text('[[models]]\nname = "tiny"\n')
    state = await up.start("--placer", str(models))
    assert [service.name for service in state.services] == ["hub", "registry", "router", "placer"]

    async def leads() -> bool:
        code, out, err = await up.output("placements", "--json")
        assert code == 0, err
        return bool(msgspec.json.decode(out)["leads"])

    await until(leads, timeout_s=READY_S)
    code, out, _ = await up.output("placements")
    assert code == 0
    assert "placer leads" in out
    code, _, err = await up.output("placements", "--url", state.api)
    assert code == 2
    assert "is not a placer's page" in err


async def test_a_service_that_dies_is_started_again_where_it_was(up: Up) -> None:
    """One line says so; clients find the router at the same address."""
    state = await up.start()
    for service in state.services:
        os.kill(service.pid, signal.SIGKILL)
        said = await up.said()
        assert said == f"otela up: {service.name} ended (signal 9); starting it again\n"
        assert await up.said() == f"otela up: {service.name} runs again\n"

    async def is_well() -> bool:
        code, _, _ = await up.output("status")
        return code == 0

    await until(is_well, timeout_s=READY_S)
    async with aiohttp.ClientSession() as http, http.get(f"{state.api}/models") as answer:
        assert answer.status == 200
    assert await up.interrupt() == (0, "")
    assert up.left() == []


async def test_a_home_of_an_earlier_version_goes_on_as_one_of_this(up: Up) -> None:
    """Without streams and warrants, as it was made; with the access files that it handed out."""
    now, home = SystemClock().wall(), Home(up.home)
    home.prepare()
    port, leaf_port = free_ports(2)
    listeners = setup.Listeners(hosts=(setup.LOOPBACK,), port=port, leaf_port=leaf_port)
    layout = setup.init_mesh(home.mesh, listeners, now=now, name="local")
    access = setup.invite(layout, provider="local", now=now)
    accesses.write(home.access("provider"), msgspec.structs.replace(access, warrant=""))
    await up.start()
    engine = ("-m", "opentela.testing.fake_engine", "--port", "{port}", "--model", "tiny")
    start = ("start", "--access", str(home.access("provider")), "--", sys.executable, *engine)
    supervisor = await up.command(*start)

    async def is_serving() -> bool:
        code, out, _ = await up.output("events", "--json")
        return code == 0 and '"SERVING"' in out

    await until(is_serving, timeout_s=READY_S)
    supervisor.send_signal(signal.SIGTERM)
    await supervisor.communicate()
    assert supervisor.returncode == 0
    assert await up.interrupt() == (0, "")
    code, out, err = await up.output("status")
    assert (code, out) == (1, "")
    assert err.startswith(f"otela status: the mesh in {up.home} is not up; start it with otela up")


async def test_a_home_holds_one_mesh(up: Up) -> None:
    """The second start says who is there and ends."""
    await up.start()
    code, out, err = await up.output("up", "--api", "127.0.0.1:0")
    assert (code, out) == (1, "")
    assert err.startswith(f"otela up: the mesh in {up.home} is already up (process ")


async def test_a_taken_port_is_named(up: Up) -> None:
    """The message names the address and the option; nothing that was started is left."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, out, err = await up.output("up", "--api", address)
    assert (code, out) == (1, "")
    assert err.startswith(f"otela up: {address} is already in use; choose another port for --api")
    assert err.count("\n") == 1
    assert up.left() == []
    code, _, err = await up.output("up", "--api", "nobody.invalid:80")
    assert code == 2
    assert err.startswith("otela up: --api: cannot listen on nobody.invalid:80: ")
    assert "rror -" not in err


async def test_nothing_survives_a_killed_up(up: Up) -> None:
    """What cannot tidy up leaves nothing behind either."""
    state = await up.start()
    os.kill(state.pid, signal.SIGKILL)
    await until(lambda: not up.left(), timeout_s=READY_S)
