"""`otela start` on a real mesh, seen as a registry and a router see it."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from opentela.core.record import Claim, Lifecycle, read_claim
from opentela.core.warrant import Authority
from opentela.mesh import access, warrants
from opentela.supervisor import proctree
from opentela.supervisor.proctree import Process
from opentela.testing.mesh import TestMesh
from opentela.testing.waiting import UNTIL_S, until
from opentela.wire import control, frames, subjects
from opentela.wire.control import Beat
from opentela.wire.subjects import SessionPath

FAKE = (sys.executable, "-m", "opentela.testing.fake_engine", "--port", "{port}", "--model", "tiny")
PROVIDER, SITE = "p", "a"
# Decisions within tenths of a second instead of seconds; none of them changes what is decided.
# Silence is waited for as long as ever: on shared cores an engine may well be silent for a second.
BRISK = (
    "watch.probe_s=0.1",
    "watch.loading_probe_s=0.05",
    "watch.offer_s=0.2",
    "watch.offer_retry_s=0.1",
    "watch.load_s=0.1",
    "restart.delay_s=0.2",
    "engine.hung_stop_s=0.2",
    "drain.linger_s=0.1",
    "beat_s=0.2",
)


class Witness:
    """What a registry hears of every session, each word of it verified."""

    def __init__(self, verify: Authority) -> None:
        self._verify = verify
        self.claims: list[Claim] = []
        self.beats: list[tuple[SessionPath, Beat]] = []

    def on_delta(self, message: Any) -> None:
        signed = control.read_delta(message.payload).signed
        claim = read_claim(signed.body)
        assert self._verify(claim, signed) == ""
        assert subjects.path_of(message.subject) == (claim.provider, claim.site, claim.session)
        self.claims.append(claim)

    def on_beat(self, message: Any) -> None:
        beat = control.read_beat(message.payload)
        self.beats.append((subjects.path_of(message.subject), beat))

    def lives(self) -> dict[str, list[str]]:
        """Return the lifecycles of each session, in order, repetitions left out."""
        lives: dict[str, list[str]] = {}
        for claim in self.claims:
            life = lives.setdefault(claim.session, [])
            if life[-1:] != [claim.lifecycle.name]:
                life.append(claim.lifecycle.name)
        return lives

    async def lived(self, session: str, *life: str) -> None:
        """Return once this is the whole life of a session, as it was told."""

        def is_so() -> bool:
            return self.lives()[session] == list(life)

        with contextlib.suppress(AssertionError):
            await until(is_so, "it")
        assert self.lives()[session] == list(life)

    async def heard(
        self, lifecycle: Lifecycle, *, not_of: str = "", within_s: float = UNTIL_S
    ) -> Claim:
        """Return the first claim of *lifecycle*, once there is one."""

        def found() -> list[Claim]:
            return [
                claim
                for claim in self.claims
                if claim.lifecycle is lifecycle and claim.session != not_of
            ]

        await until(lambda: bool(found()), f"a claim of {lifecycle.name}", within_s=within_s)
        return found()[0]


class Supervisor:
    """A running `otela start`."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self.log = log
        self.family: list[Process] = []

    def said(self) -> str:
        return self.log.read_text()

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = [line for line in self.said().splitlines() if line.startswith("{")]
        return [event for event in map(json.loads, lines) if event["event"] == name]

    async def event(self, name: str) -> dict[str, Any]:
        await until(lambda: bool(self.events(name)), f"the event {name}")
        return self.events(name)[-1]

    async def engine(self) -> tuple[int, str]:
        """Return the pid and the URL of the latest engine."""
        event = await self.event("engine_started")
        self.remember()
        return event["pid"], f"http://127.0.0.1:{event['port']}"

    async def page(self, path: str, token: str = "") -> tuple[int, dict[str, Any]]:
        url = (await self.event("health_page_opened"))["url"]
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with (
            aiohttp.ClientSession(headers=headers) as http,
            http.get(url + path) as answer,
        ):
            return answer.status, await answer.json()

    async def ready(self) -> None:
        """Return once its page says that it is: it says so a moment after its session serves."""

        async def is_ready() -> bool:
            return (await self.page("/readyz"))[0] == 200

        await until(is_ready, "readiness")

    async def ended(self, within_s: float = UNTIL_S) -> int:
        try:
            async with asyncio.timeout(within_s):
                return await self.process.wait()
        except TimeoutError:
            raise AssertionError(f"it did not end:\n{self.said()}") from None

    def remember(self) -> None:
        known = {(one.pid, one.started) for one in self.family}
        for one in proctree.descendants(self.process.pid):
            if (one.pid, one.started) not in known:
                self.family.append(one)

    def alive(self) -> list[int]:
        return [one.pid for one in self.family if proctree.is_same(one)]


# What a frozen engine is found by, for those who freeze one.
SOON_HUNG = ("--set", "watch.probe_timeout_s=0.3", "--set", "watch.hang_s=0.8")

Start = Callable[..., Awaitable[Supervisor]]


@pytest.fixture
async def mesh() -> AsyncIterator[TestMesh]:
    async with TestMesh(leaves=(SITE,)) as mesh:
        yield mesh


@pytest.fixture
async def witness(mesh: TestMesh) -> Witness:
    bus = await mesh.bus(role="registry")
    witness = Witness(warrants.authority(mesh.access(role="registry")))
    await bus.subscribe(subjects.ALL_DELTAS, witness.on_delta)
    await bus.subscribe(subjects.ALL_BEATS, witness.on_beat)
    return witness


@pytest.fixture
def access_file(mesh: TestMesh, tmp_path: Path) -> Path:
    file = tmp_path / "access.toml"
    access.write(file, mesh.access(role="provider", provider=PROVIDER, site=SITE, at=SITE))
    return file


@pytest.fixture
async def start(tmp_path: Path, access_file: Path) -> AsyncIterator[Start]:
    """Start supervisors; whatever is left of them is ended."""
    started: list[Supervisor] = []

    async def start(
        *argv: str, options: tuple[str, ...] = (), environ: dict[str, str] | None = None
    ) -> Supervisor:
        log = tmp_path / f"supervisor{len(started)}.log"
        settings = [word for one in (*BRISK, "log.form=json") for word in ("--set", one)]
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "opentela.cli", "start", "--access", str(access_file)),
                *settings,
                *options,
                "--",
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(environ or {})},
            )
        started.append(Supervisor(process, log))
        return started[-1]

    yield start
    for supervisor in started:
        if supervisor.process.returncode is None:
            supervisor.remember()
            supervisor.process.kill()
            await supervisor.process.wait()
    await until(lambda: not any(one.alive() for one in started), "the end of every process")


class Asker:
    """A router, as far as one request is concerned."""

    def __init__(self, stream: int, send: Callable[[frames.Frame], Awaitable[None]]) -> None:
        self.frames: list[frames.Frame] = []
        self._stream = stream
        self._send = send

    async def cancel(self) -> None:
        """Say that the client has gone."""
        await self._send(frames.Cancel(stream=self._stream, reason="client_gone"))

    async def finished(self, within_s: float = UNTIL_S) -> None:
        """Return once the answer is complete: at its end, or all of it in one frame."""

        def is_complete() -> bool:
            return any(
                isinstance(one, frames.End)
                or (isinstance(one, frames.Head) and one.end is not None)
                for one in self.frames
            )

        await until(is_complete, "a whole answer", within_s=within_s)

    async def got(self, kind: type, within_s: float = UNTIL_S) -> Any:
        def found() -> list[frames.Frame]:
            return [frame for frame in self.frames if isinstance(frame, kind)]

        with contextlib.suppress(AssertionError):
            await until(lambda: bool(found()), kind.__name__, within_s=within_s)
        assert found(), self.frames
        return found()[0]


Ask = Callable[..., Awaitable[Asker]]


@pytest.fixture
async def ask(mesh: TestMesh) -> Ask:
    """Send a request to a session."""
    bus = await mesh.bus(role="router")
    askers: dict[int, Asker] = {}

    def take(message: Any) -> None:
        if message.payload:
            frame = frames.decode(message.payload)
            askers[frame.stream].frames.append(frame)

    await bus.subscribe(subjects.replies("router1", "i"), take)

    async def ask(claim: Claim, **fields: Any) -> Asker:
        body = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], **fields}
        stream = len(askers) + 1
        path = SessionPath(claim.provider, claim.site, claim.session)
        reply = subjects.reply("router1", claim.provider, "i", f"{stream:x}")

        async def send(frame: frames.Frame) -> None:
            await bus.publish(subjects.data(path), frames.encode(frame), reply=reply)

        asker = askers[stream] = Asker(stream, send)
        request = frames.Open(
            stream=stream,
            method="POST",
            path="/v1/chat/completions",
            headers=(("content-type", "application/json"),),
            body=json.dumps(body).encode(),
            deadline_s=60.0,
        )
        await send(request)
        return asker

    return ask
