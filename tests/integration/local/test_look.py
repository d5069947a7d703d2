"""The commands that look into a mesh, as processes, on a real server with a real registry."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from opentela.core.record import Lifecycle
from opentela.mesh import access, warrants
from opentela.mesh.bus import Bus
from opentela.mesh.identity import Identity
from opentela.registry.config import DetectorConfig, PeersConfig, RegistryConfig
from opentela.registry.shell import RegistryShell
from opentela.testing.mesh import TestMesh, until
from opentela.testing.owner import Owner
from opentela.wire import control, subjects

pytestmark = pytest.mark.nats


PATIENT = RegistryConfig(
    access="",
    # The owners of these tests do not beat, and are not to be suspected for it.
    detector=DetectorConfig(late_beats=1000.0, lease_beats=2000.0),
    peers=PeersConfig(learn_s=0.1),
)


class Looked:
    """A mesh with one registry, a provider's bus and a tool's access file."""

    def __init__(self, mesh: TestMesh, registry: RegistryShell, provider: Bus, tool: Path) -> None:
        self.mesh = mesh
        self.registry = registry
        self.provider = provider
        self.tool = tool

    async def say(self, owner: Owner) -> None:
        """Publish a claim and return once the registry has it."""
        owner.be_warranted(self.mesh.layout.identity("signing"))
        delta = control.encode(control.Delta(signed=owner.signed))

        async def is_held() -> bool:
            await self.provider.publish(subjects.delta(owner.path), delta)
            held = self.registry.held.get(owner.claim.session)
            return held is not None and held.signed == owner.signed

        await until(is_held)

    async def otela(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start a command with the tool's access."""
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "opentela.cli", *arguments, "--access", str(self.tool)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def output(self, *arguments: str) -> tuple[int, str, str]:
        """Return exit code and what a command printed."""
        process = await self.otela(*arguments)
        out, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()


@pytest_asyncio.fixture
async def looked(tmp_path: Path) -> AsyncIterator[Looked]:
    tool = tmp_path / "tool.toml"
    async with TestMesh(has_jetstream=True) as mesh:
        access.write(tool, mesh.access(role="tool"))
        mine = mesh.access(role="registry")
        bus = await mesh.bus(role="registry")
        is_ready = asyncio.Event()

        def on_ready(flag: bool, _reason: str = "") -> None:  # noqa: FBT001 - the shell's form
            if flag:
                is_ready.set()

        async with RegistryShell.open(
            bus,
            seal=warrants.seal(mine),
            verify=warrants.authority(mine),
            config=PATIENT,
            on_ready=on_ready,
        ) as registry:
            async with asyncio.timeout(30):
                await is_ready.wait()
            await until(lambda: registry.status()["events_kept"] == "yes")
            yield Looked(mesh, registry, await mesh.bus(role="provider"), tool)


def owner(*models: str, number: int = 0) -> Owner:
    """Return the owner of a session that was born now."""
    born_at_ms = int(time.time() * 1000)
    return Owner(Identity.new(), models=models, born_at_ms=born_at_ms, number=number)


async def test_sessions_are_listed(looked: Looked) -> None:
    """Whoever holds a tool's access sees what serves, as a table and as JSON."""
    code, out, _ = await looked.output("sessions")
    assert code == 0
    assert "No model is offered" in out
    await looked.say(owner("tiny"))
    await looked.say(owner("other", number=1))
    code, out, _ = await looked.output("sessions", "--json", "--model", "tiny")
    assert code == 0
    (row,) = msgspec.json.decode(out)
    assert (row["models"], row["state"], row["routable"]) == (["tiny"], "SERVING", True)
    _, out, _ = await looked.output("sessions")
    assert "tiny" in out
    assert "other" in out


async def test_ended_sessions_are_listed_when_asked(looked: Looked) -> None:
    """What has left is remembered, not shown."""
    gone = owner("tiny")
    await looked.say(gone)
    gone.say(Lifecycle.LEFT, ended_at_ms=gone.claim.born_at_ms + 1, reason="walltime is over")
    await looked.say(gone)
    assert msgspec.json.decode((await looked.output("sessions", "--json"))[1]) == []
    (row,) = msgspec.json.decode((await looked.output("sessions", "--json", "--all"))[1])
    assert (row["state"], row["reason"]) == ("LEFT", "walltime is over")


async def test_a_session_says_why_it_is_as_it_is(looked: Looked) -> None:
    """By the end of its id; what is not there is one clear line."""
    gone = owner("tiny")
    gone.say(Lifecycle.DOWN, ended_at_ms=gone.claim.born_at_ms + 1, reason="the engine hung")
    await looked.say(gone)
    session = gone.claim.session
    code, out, _ = await looked.output("sessions", "--explain", session[-8:].lower())
    first, said, *_, last = out.splitlines()
    assert (code, first, last) == (0, session, "therefore: DOWN")
    assert said.endswith("(the engine hung)")
    _, out, _ = await looked.output("sessions", "--explain", session, "--json")
    assert msgspec.json.decode(out)["session"] == session
    code, out, err = await looked.output("sessions", "--explain", "nobody")
    assert (code, out) == (2, "")
    assert "--explain 'nobody' matches no session;" in err


async def test_the_status_of_a_mesh_elsewhere(looked: Looked) -> None:
    """It works, and this is what it serves."""
    await looked.say(owner("tiny"))
    code, out, err = await looked.output("status", "--json")
    assert (code, err) == (0, "")
    status = msgspec.json.decode(out)
    assert status["ok"]
    assert [(one["name"], one["routable"]) for one in status["models"]] == [("tiny", 1)]


async def test_the_status_says_what_is_wrong(looked: Looked) -> None:
    """A model that nobody can use is a problem, and so is the exit code."""
    joining = owner("tiny")
    joining.say(Lifecycle.JOINING)
    await looked.say(joining)
    code, out, _ = await looked.output("status")
    assert code == 1
    assert "no session of tiny can be used" in out


async def test_events_are_followed(looked: Looked) -> None:
    """The past first, then what happens, each change once."""
    first = owner("tiny")
    await looked.say(first)
    process = await looked.otela("events", "-f", "--json")
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            assert kind(await process.stdout.readline()) == ("SERVING", ["tiny"])
            await looked.say(owner("other", number=1))
            assert kind(await process.stdout.readline()) == ("SERVING", ["other"])
            first.say(Lifecycle.DRAINING)
            await looked.say(first)
            assert kind(await process.stdout.readline()) == ("DRAINING", ["tiny"])
            process.terminate()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_the_past_is_shown_as_far_as_it_is_asked_for(looked: Looked) -> None:
    """By type, model, site and time; without -f the command ends."""
    first = owner("tiny")
    await looked.say(first)
    first.say(Lifecycle.DRAINING)
    await looked.say(first)
    await looked.say(owner("other", number=1))
    for options, kinds in (
        ((), ["SERVING", "DRAINING", "SERVING"]),
        (("--type", "draining"), ["DRAINING"]),
        (("--model", "other"), ["SERVING"]),
        (("--site", "elsewhere"), []),
        (("--since", "0s"), []),
    ):
        code, out, err = await looked.output("events", "--json", *options)
        assert (code, err) == (0, "")
        assert [kind(line)[0] for line in out.encode().splitlines()] == kinds


async def test_without_a_stream_it_fails_and_says_who_can_do_what(looked: Looked) -> None:
    """An empty answer would look as if nothing had happened."""
    async with TestMesh() as bare:
        access.write(looked.tool, bare.access(role="tool"))
        code, out, err = await looked.output("events", "--json")
    assert (code, out) == (1, "")
    assert err.startswith("otela events: events are not kept: no hub that keeps events can be")
    assert "otela mesh upgrade" in err
    assert err.count("\n") == 1


def kind(line: bytes) -> tuple[str, list[str]]:
    event = msgspec.json.decode(line)
    return event["kind"], event["models"]


async def test_a_mesh_without_a_registry_says_so(looked: Looked) -> None:
    """A server that answers is not yet a mesh that works."""
    async with TestMesh() as empty:
        access.write(looked.tool, empty.access(role="tool"))
        code, out, err = await looked.output("sessions")
    assert (code, out) == (1, "")
    assert err.startswith("otela sessions: nats://")
    assert "answers, but no registry does; look at the registry's log" in err
    assert err.count("\n") == 1


async def test_a_mesh_that_is_gone_says_so(looked: Looked) -> None:
    """Nobody answers: one line, no traceback."""
    await looked.mesh.server().kill()
    code, out, err = await looked.output("sessions")
    assert (code, out) == (1, "")
    assert err.startswith("otela sessions: ")
    assert err.count("\n") == 1
