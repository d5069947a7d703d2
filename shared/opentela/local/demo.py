"""`otela demo`: two sites on this machine, a real engine at each, and the death of one."""

import asyncio
import os
import secrets
import shutil
import signal
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp

from opentela import leftovers
from opentela.core.clock import Clock
from opentela.core.errors import UnavailableError
from opentela.local import look, rows, tables
from opentela.local.children import Child
from opentela.local.consumer import Answer, Consumer
from opentela.local.home import Home
from opentela.local.mesh import OTELA, LocalMesh, free_ports
from opentela.local.screen import Screen
from opentela.mesh import access, setup
from opentela.mesh.server import NatsServer
from opentela.service import Lifecycle
from opentela.wire.events import LifecycleEvent

MODEL: Final = "SmolLM2-135M-Instruct"
ENGINE: Final = (sys.executable, "-m", "opentela.testing.llama_engine", "--port", "{port}")
QUESTION: Final = "What is the capital of France? Answer in one short sentence."
TOPICS: Final = ("bread", "rain", "the moon", "tea", "snow")
"""Asked about at the moment of death: enough requests that both engines are busy."""
READY_TIMEOUT_S: Final = 120.0
"""For an engine: at the first run its weights come from disk, and two cores load two engines."""
MARK: Final = "OTELA_DEMO_RUN"
"""Every process of a run carries this variable: by it, what is left at the end is found."""


class Site(NamedTuple):
    """One site of the demonstration, and how its leaf dials the hub."""

    name: str
    carrier: str
    is_websocket: bool


SITES: Final = (
    Site("alps", "TCP", is_websocket=False),
    Site("jura", "websocket", is_websocket=True),
)


class Demo:
    """One run: a mesh in a folder of its own, told on a screen."""

    def __init__(self, mesh: LocalMesh, screen: Screen, clock: Clock, mark: str) -> None:
        self._mesh = mesh
        self._screen = screen
        self._clock = clock
        self._mark = mark

    async def run(self, *, keep: bool) -> None:
        """Tell the whole story; with *keep*, do not return."""
        await self._connect_sites()
        await self._start_engines()
        tool = self._mesh.home.tool_access
        async with (
            Consumer.open(self._mesh.api, MODEL) as consumer,
            look.into(tool, self._clock, name="otela demo") as mesh,
        ):
            await self._until_routable(mesh, len(SITES))
            events: asyncio.Queue[LifecycleEvent] = asyncio.Queue(look.EVENTS_WAITING_MAX)
            await mesh.follow(events)
            self._screen.title("A consumer asks with the OpenAI SDK; only the base URL is ours")
            await self._ask(consumer)
            self._show_sessions(mesh)
            self._screen.title("An engine dies in the middle of its work")
            lost = await self._lose_an_engine(consumer)
            await self._ask(consumer)
            with self._screen.step(f"{lost} has started its engine again, as a new session"):
                await self._until_routable(mesh, len(SITES))
            self._show_sessions(mesh)
            self._show_events(events)
            if keep:
                await self._stay()

    async def _connect_sites(self) -> None:
        self._screen.title("Two sites dial out to the hub; nothing dials in")
        for site in SITES:
            with self._screen.step(f"leaf of {site.name} over {site.carrier}"):
                await self._connect(site)

    async def _connect(self, site: Site) -> None:
        mesh, now = self._mesh, self._clock.wall()
        (port,) = free_ports(1)
        options = setup.LeafOptions(
            site=site.name,
            is_websocket=site.is_websocket,
            listeners=setup.Listeners(hosts=(setup.LOOPBACK,), port=port),
        )
        leaf = setup.add_leaf(mesh.layout, options, now=now)
        name = f"leaf-{site.name}"
        await mesh.launch(name, lambda: NatsServer.start(leaf.conf, log=mesh.home.log(name)))
        invited = setup.invite(
            mesh.layout,
            provider=f"{site.name}-lab",
            site=site.name,
            servers=leaf.servers,
            now=now,
        )
        access.write(mesh.home.access(site.name), invited)

    async def _start_engines(self) -> None:
        self._screen.title("An engine at each site, wrapped by `otela start`")
        with self._screen.step(f"two llama.cpp engines load {MODEL}"):
            async with aiohttp.ClientSession() as http, asyncio.TaskGroup() as group:
                for site in SITES:
                    group.create_task(self._start_engine(site, http))

    async def _start_engine(self, site: Site, http: aiohttp.ClientSession) -> None:
        home = self._mesh.home
        settings = (
            *("--set", f"node={site.name}-node-1"),
            *("--set", f"health.token_file={home.token_file}"),
            *("--set", "log.form=json"),
        )
        argv = (*OTELA, "start", "--access", str(home.access(site.name)), *settings, "--", *ENGINE)

        async def launch() -> Child:
            child = await Child.start(site.name, argv, log=home.log(site.name))
            try:
                await child.wait_until_ready(http, timeout_s=READY_TIMEOUT_S)
            except BaseException:
                await child.stop()
                raise
            return child

        await self._mesh.launch(site.name, launch)

    async def _until_routable(self, mesh: look.Mesh, count: int) -> None:
        """Return once the mesh knows *count* sessions that requests may be sent to."""
        changed = asyncio.Event()
        unsubscribe = mesh.view.subscribe(lambda _: changed.set())
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                while sum(one.routable for one in self._rows(mesh)) < count:
                    changed.clear()
                    await changed.wait()
        except TimeoutError as error:
            raise UnavailableError(
                f"fewer than {count} sessions serve after {READY_TIMEOUT_S:g} s",
                remedy=f"read the logs in {self._mesh.home.path / 'log'}",
            ) from error
        finally:
            unsubscribe()

    async def _ask(self, consumer: Consumer) -> None:
        screen = self._screen
        screen.quote("you", QUESTION)
        screen.end_quote()
        screen.quote(MODEL.partition("-")[0])
        answer = await consumer.listen(QUESTION, screen.more, lambda _site: None)
        screen.end_quote(f"(from {answer.site})")

    async def _lose_an_engine(self, consumer: Consumer) -> str:
        """Kill an engine while requests run; return whose it was."""
        began: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        asked = [f"Write one sentence about {topic}." for topic in TOPICS]
        count = len(asked) + 1
        with self._screen.step(f"{count} requests in progress, an engine is killed") as step:
            async with asyncio.TaskGroup() as group:
                stream = group.create_task(
                    consumer.listen(QUESTION, lambda _part: None, began.set_result)
                )
                others = [group.create_task(consumer.ask(one)) for one in asked]
                # The stream has begun and cannot be repeated: the other engine is to die.
                spared = await began
                lost = next(site.name for site in SITES if site.name != spared)
                self._kill_engine(lost)
            step.done = f"{count} requests in progress, SIGKILL to the engine of {lost}"
        self._tally([stream.result(), *(one.result() for one in others)])
        return lost

    def _kill_engine(self, site: str) -> None:
        supervisor = self._mesh.parts[site].process.pid
        found = leftovers.below(leftovers.marked(MARK, self._mark), supervisor)
        engines = [one for one in found if "llama_engine" in one.command]
        if not engines:
            raise UnavailableError(f"the engine of {site} cannot be found")
        os.kill(engines[-1].pid, signal.SIGKILL)

    def _tally(self, answers: list[Answer]) -> None:
        by_site = {site.name: 0 for site in SITES}
        for answer in answers:
            by_site[answer.site] += 1
        counts = ", ".join(f"{count} by {site}" for site, count in by_site.items())
        again = sum(answer.attempts > 1 for answer in answers)
        self._screen.say(
            f"✓ {len(answers)} asked, {len(answers)} answered, no error: {counts}; "
            f"{again} after a retry",
            style="green",
        )

    def _rows(self, mesh: look.Mesh) -> list[rows.SessionRow]:
        records = mesh.records(with_ended=True)
        return rows.listed(records, mesh.now_ms, with_ended=True)

    def _show_sessions(self, mesh: look.Mesh) -> None:
        self._screen.title("otela sessions --all")
        console = self._screen.console
        options = console.options.update_width(console.width - 2)
        self._screen.show(tables.sessions(self._rows(mesh), options))

    def _show_events(self, queue: "asyncio.Queue[LifecycleEvent]") -> None:
        self._screen.title("otela events")
        # Every registry tells each change, under the same id.
        told: dict[str, LifecycleEvent] = {}
        while not queue.empty():
            event = queue.get_nowait()
            told.setdefault(event.id, event)
        for event in told.values():
            self._screen.show(tables.event(event))

    async def _stay(self) -> None:
        screen, home = self._screen, self._mesh.home
        screen.title("It stays up until Ctrl-C")
        screen.say(f"OpenAI clients: base_url={self._mesh.api}, model={MODEL}")
        screen.command(
            f"curl {self._mesh.api}/chat/completions -H 'content-type: application/json' -d "
            f'\'{{"model": "{MODEL}", "messages": [{{"role": "user", "content": "Hello"}}]}}\''
        )
        screen.command(f"otela events -f --home {home.path}")
        await asyncio.Event().wait()


async def demo(life: Lifecycle, screen: Screen, clock: Clock, *, keep: bool) -> None:
    """Show the product on this machine, and leave nothing behind.

    Raises:
        OtelaError: Something does not start; the message says where its log is.
    """
    mark = os.environ[MARK] = secrets.token_hex(8)
    folder = Path(tempfile.mkdtemp(prefix="otela-demo-"))
    screen.title("A mesh: hub, registry and router, each a process of its own")
    async with AsyncExitStack() as stack:
        with screen.step("hub, registry and router"):
            mesh = await stack.enter_async_context(
                LocalMesh.open(Home(folder), api="127.0.0.1:0", clock=clock)
            )
        await look.until_stopped(life, Demo(mesh, screen, clock, mark).run(keep=keep))
        screen.title("Shutdown")
        with screen.step("everything stops"):
            await stack.aclose()
    _verify(screen, mark)
    # After a failure the folder stays: its logs say why.
    shutil.rmtree(folder)


def _verify(screen: Screen, mark: str) -> None:
    left = [one for one in leftovers.marked(MARK, mark) if one.pid != os.getpid()]
    for one in left:
        os.kill(one.pid, signal.SIGKILL)
    if left:
        raise UnavailableError(
            f"left behind and ended now: {', '.join(one.command for one in left)}"
        )
    screen.say(f"no process is left; {screen.elapsed_s:.1f} s in all", style="dim")
