"""`otela agent` on a real mesh, told by a placer and seen by a registry."""

import asyncio
import contextlib
import itertools
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.supervisor.conftest import (
    BRISK,
    SITE,
    Supervisor,
    Witness,
    access_file,
    ask,
    mesh,
    witness,
)

from opentela.core.record import Claim, Lifecycle
from opentela.mesh.nats_bus import NatsBus
from opentela.supervisor import proctree
from opentela.supervisor.agent.replica import START_VARIABLE, mark
from opentela.testing.mesh import TestMesh
from opentela.testing.waiting import UNTIL_S, until
from opentela.wire import command, subjects
from opentela.wire.command import COMMAND, ENGINE, Command, Holding, Look, Replica, Start, Stop
from opentela.wire.subjects import SessionPath

__all__ = ["access_file", "ask", "mesh", "witness"]

AGAIN_S = 1.0
"""Interest travels between servers after a session has said that it listens."""
TEMPLATE = f"""
builtin = false
slots = 4

[template.fake]
command = [
  "{sys.executable}", "-m", "opentela.testing.fake_engine", "--port", "{{port}}",
  "--model", "{{model}}",
]
models = ["tiny", "tiny-*", "slow"]
env = {{ TOLD = "by the template" }}

[template.fake.options]
tp = []
context_max = ["--context-max", "{{context_max}}"]

[template.long]
command = [
  "{sys.executable}", "-m", "opentela.testing.fake_engine", "--port", "{{port}}",
  "--model", "{{model}}", "--tokens", "40", "--tpot-ms", "25",
]

[template.broken]
command = ["{sys.executable}", "-c", "import sys; sys.exit(3)", "{{model}}"]
"""


class Agent(Supervisor):
    """A running `otela agent`."""

    path: SessionPath
    mark: str

    def born(self, start: str) -> list[int]:
        """Return the processes of a replica."""
        marked = start + self.mark
        return [one.pid for one in proctree.marked(marked, by=START_VARIABLE)]

    def engine_of(self, start: str) -> int:
        """Return the engine's process of a replica."""
        (found,) = [
            pid
            for pid in self.born(start)
            if b"\0opentela.testing.fake_engine\0" in _proc(pid, "cmdline")
            and b"guardian" not in _proc(pid, "cmdline")
            and b"opentela.cli" not in _proc(pid, "cmdline")
        ]
        return found

    def told_of(self, start: str, variable: str) -> str:
        """Return what a variable is to the engine of a replica."""
        prefix = f"{variable}=".encode()
        words = _proc(self.engine_of(start), "environ").split(b"\0")
        return next(one[len(prefix) :].decode() for one in words if one.startswith(prefix))


def _proc(pid: int, name: str) -> bytes:
    return Path(f"/proc/{pid}/{name}").read_bytes()


StartAgent = Callable[..., Awaitable[Agent]]


class Placer:
    """Speaks to agents with a placer's own credentials."""

    def __init__(self, bus: NatsBus, name: str) -> None:
        self._bus = bus
        self._name = name
        self._numbers = itertools.count(1)
        self._answers: asyncio.Queue[Any] = asyncio.Queue()
        self.term = 1

    async def open(self) -> None:
        await self._bus.subscribe(subjects.replies(self._name, "i"), self._answers.put_nowait)

    def ulid(self) -> str:
        return f"01J{next(self._numbers):023d}"

    async def shout(self, agent: Agent, payload: bytes, reply: str) -> None:
        """Send an agent anything, and wait for nothing."""
        await self._bus.publish(subjects.command(agent.path), payload, reply=reply)

    async def say(self, agent: SessionPath, message: Command) -> Holding:
        """Return the agent's answer; what is not answered is said again, which is no harm."""
        reply = subjects.reply(self._name, agent.provider, "i", "t")
        async with asyncio.timeout(UNTIL_S):
            while True:
                await self._bus.publish(
                    subjects.command(agent), command.encode(message), reply=reply
                )
                with contextlib.suppress(TimeoutError):
                    return await self._answer(agent, message)

    async def _answer(self, agent: SessionPath, message: Command) -> Holding:
        said = "" if isinstance(message, Look) else message.command
        async with asyncio.timeout(AGAIN_S):
            while True:
                answer = await self._answers.get()
                if answer.payload:
                    assert answer.subject.endswith(agent.session)
                    holding = command.read_holding(answer.payload)
                    if holding.command == said:
                        return holding

    async def start(self, agent: Agent, template: str = "fake", **fields: Any) -> Holding:
        named = {"model": "tiny", "term": self.term, **fields}
        return await self.say(agent.path, Start(command=self.ulid(), template=template, **named))

    async def stop(self, agent: Agent, start: str) -> Holding:
        return await self.say(agent.path, Stop(command=self.ulid(), term=self.term, start=start))

    async def replica(self, agent: Agent, start: str) -> Replica:
        """Return what the agent tells of a replica."""
        told = await self.say(agent.path, Look())
        return next(one for one in told.replicas if one.start == start)

    async def wait_for(self, agent: Agent, start: str, *states: str) -> Replica:
        """Return the replica once it is in one of *states*."""
        found: list[Replica] = []

        async def is_so() -> bool:
            found[:] = [await self.replica(agent, start)]
            return found[0].state in states

        await until(is_so, f"{start} to be {states}")
        return found[0]


@pytest.fixture
async def placer(mesh: TestMesh) -> Placer:
    made = Placer(await mesh.bus(role="placer"), "placer1")
    await made.open()
    return made


@pytest.fixture
async def agent(tmp_path: Path, access_file: Path, witness: Witness) -> AsyncIterator[StartAgent]:
    """Start agents; whatever is left of them is ended."""
    started: list[Agent] = []

    async def begin(*options: str) -> Agent:
        config = tmp_path / "agent.toml"
        config.write_text(TEMPLATE)
        log = tmp_path / f"agent{len(started)}.log"
        brisk = (f"supervisor.{one}" for one in (*BRISK, "log.form=json"))
        settings = [word for one in brisk for word in ("--set", one)]
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "opentela.cli", "agent", "--access", str(access_file)),
                *("--config", str(config), *settings, *options),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=os.environ,
            )
        one = Agent(process, log)
        one.mark = mark("", process.pid)
        started.append(one)
        known: set[str] = {claim.session for claim in witness.claims}
        claim = await served(witness, one, known)
        one.path = SessionPath(claim.provider, claim.site, claim.session)
        return one

    yield begin
    for one in started:
        if one.process.returncode is None:
            one.remember()
            one.process.kill()
            await one.process.wait()
    await until(lambda: not any(one.alive() for one in started), "the end of every process")


async def served(witness: Witness, agent: Agent, known: set[str]) -> Claim:
    """Return the claim of a new agent that takes commands."""

    def found() -> list[Claim]:
        return [
            claim
            for claim in witness.claims
            if claim.offer.engine == ENGINE
            and claim.lifecycle is Lifecycle.SERVING
            and claim.session not in known
        ]

    try:
        await until(lambda: bool(found()), "an agent")
    except AssertionError as error:
        error.add_note(agent.said())
        raise
    assert found()[0].site == SITE
    return found()[0]


def of_start(witness: Witness, start: str) -> list[Claim]:
    """Return the claims of the sessions that a command made, in order."""
    return [one for one in witness.claims if one.offer.labels.get(COMMAND) == start]
