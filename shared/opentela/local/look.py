"""Looking into a mesh from a terminal: what serves, what happens, whether all is well."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import aiohttp
import msgspec
from rich.console import Console

from opentela.core.clock import Clock
from opentela.core.errors import MeshUnavailableError, UnavailableError
from opentela.core.record import SessionRecord
from opentela.events import Wanted, subscribe
from opentela.local import rows, tables
from opentela.local.home import Home, State
from opentela.mesh import access, nats_bus, warrants
from opentela.mesh.bus import Bus, Message
from opentela.service import Lifecycle
from opentela.telemetry import health
from opentela.view.shell import View
from opentela.wire import events as wire
from opentela.wire import subjects
from opentela.wire.events import LifecycleEvent

CONNECT_TIMEOUT_S: Final = 5.0
"""A person waits; a server that is there answers within milliseconds, on a busy host in seconds."""
CATCH_UP_TIMEOUT_S: Final = 6.0
"""For the first snapshot of a registry: a view asks again after two seconds, and once more."""
EVENTS_WAITING_MAX: Final = 10_000
"""Events that arrived and are not printed yet: a terminal is slow, a mesh may be stormy."""
_PAGE_TIMEOUT_S: Final = 2.0
MAY_LOOK: Final = ("tool", "registry", "router", "placer")
"""Whose access files show what others offer."""


class Mesh:
    """A mesh that is looked into.

    Attributes:
        view: Its sessions, kept up to date.
    """

    def __init__(self, bus: Bus, view: View, clock: Clock) -> None:
        self.view = view
        self._bus = bus
        self._clock = clock

    @property
    def now_ms(self) -> int:
        """Unix milliseconds."""
        return int(self._clock.wall() * 1000)

    def records(self, *, with_ended: bool) -> Sequence[SessionRecord]:
        """Return what is known of each session; ended ones as long as the mesh remembers them."""
        held = self.view.held
        return tuple(held.records.values() if with_ended else self.view.records.values())

    async def follow(self, queue: "asyncio.Queue[LifecycleEvent]") -> None:
        """Put events into *queue* from now on; a full one drops the newest."""

        def on_event(message: Message) -> None:
            try:
                queue.put_nowait(wire.DECODER.decode(message.payload))
            except msgspec.DecodeError as error:
                sys.stderr.write(f"otela events: dropped what is no event: {error}\n")
            except asyncio.QueueFull:
                sys.stderr.write("otela events: dropped an event: too many at once\n")

        await self._bus.subscribe(subjects.ALL_EVENTS, on_event)


@asynccontextmanager
async def into(path: Path, clock: Clock, *, name: str) -> AsyncIterator[Mesh]:
    """Look into the mesh that the access file *path* opens.

    Raises:
        CredentialError: The file is missing or refused.
        MeshUnavailableError: No server, or no registry, answers.
    """
    mine = access.read_for(path, *MAY_LOOK)
    bus = await nats_bus.connect(mine, name=name, timeout_s=CONNECT_TIMEOUT_S)
    try:
        async with View.open(
            bus, verify=warrants.authority(mine), name=mine.name, clock=clock, relays=False
        ) as view:
            try:
                async with asyncio.timeout(CATCH_UP_TIMEOUT_S):
                    await view.wait_caught_up()
            except TimeoutError as error:
                raise MeshUnavailableError(
                    f"{mine.servers[0]} answers, but no registry does",
                    remedy="look at the registry's log, or start one with otela registry",
                ) from error
            yield Mesh(bus, view, clock)
    finally:
        await bus.close()


async def until_stopped(life: Lifecycle, work: Awaitable[None]) -> None:
    """Return when *work* is done, or end it at the first signal."""
    task = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(life.stopping.wait())
    await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if task.done():
        await task
        return
    task.cancel()
    await asyncio.wait((task,))


class ServiceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One service of this machine; `state` is `ready`, or why not."""

    name: str
    state: str
    url: str
    pid: int


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What `otela status --json` prints.

    Attributes:
        ok: Whether everything works; the exit code says the same.
        problems: What does not, and what to do.
        api: Base URL for OpenAI clients; empty when the mesh is not of this machine.
    """

    ok: bool
    problems: tuple[str, ...]
    api: str
    services: tuple[ServiceStatus, ...]
    models: tuple[rows.ModelRow, ...]
    sessions: int


async def status(home: Home | None, path: Path, clock: Clock) -> Status:
    """Return whether the mesh works and what it serves.

    Args:
        home: Folder of a mesh of this machine; None for one elsewhere.
        path: The access file that opens it.
        clock: By which ages are told.
    """
    state = home.state() if home else None
    services = await readiness(home, state) if home and state else ()
    problems = [f"{one.name}: {one.state}" for one in services if one.state != "ready"]
    listed: list[rows.SessionRow] = []
    try:
        async with into(path, clock, name="otela status") as mesh:
            listed = rows.listed(mesh.records(with_ended=False), mesh.now_ms)
    except UnavailableError as error:
        problems.append(error.line())
    models = tuple(rows.models(listed))
    problems += [f"no session of {one.name} can be used" for one in models if not one.routable]
    return Status(
        ok=not problems,
        problems=tuple(problems),
        api=state.api if state else "",
        services=services,
        models=models,
        sessions=len(listed),
    )


async def readiness(home: Home, state: State) -> tuple[ServiceStatus, ...]:
    """Return how each service of this machine is."""
    token = health.read_token(home.token_file).decode()
    timeout = aiohttp.ClientTimeout(total=_PAGE_TIMEOUT_S)
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(timeout=timeout, headers=headers) as http:
        found = []
        for service in state.services:
            said = await _ready(http, service.health) if service.health else "ready"
            found.append(
                ServiceStatus(name=service.name, state=said, url=service.url, pid=service.pid)
            )
    return tuple(found)


async def _ready(http: aiohttp.ClientSession, page: str) -> str:
    try:
        async with http.get(f"{page}/readyz") as answer:
            body = await answer.json()
    except (aiohttp.ClientError, TimeoutError) as error:
        return f"does not answer ({type(error).__name__})"
    return "ready" if answer.ok else str(body.get("reason") or "not ready")


def print_status(console: Console, one: Status, home: Home | None) -> None:
    """Print *one* for people; *home* as for `status`."""
    state = home.state() if home else None
    if home and state:
        readiness = [service.state for service in one.services]
        tables.show(console, tables.services(state, readiness), tables.logs(home))
    if one.models:
        tables.show(console, tables.models(one.models))
    elif not one.problems:
        access_file = str(home.access("provider")) if home and state else "FILE"
        tables.show(console, tables.no_session(access_file))
    for problem in one.problems:
        tables.show(console, tables.problem(problem))
    if one.models and state:
        tables.show(console, tables.invitation(state))


async def events(
    path: Path,
    wanted: Wanted,
    since: timedelta,
    tell: Callable[[LifecycleEvent], None],
    *,
    follow: bool,
) -> None:
    """Tell the events that are *wanted*: stored ones, then, if asked to *follow*, new ones."""
    unkept = ""
    mine = access.read_for(path, *MAY_LOOK)

    def on_notice(why: str) -> None:
        nonlocal unkept
        unkept = why
        if not follow:
            return
        sys.stderr.write(f"otela events: events are not kept: {why}; only new ones are shown\n")

    stream = subscribe(
        mine, since=since, wanted=wanted, follow=follow, name="otela events", on_notice=on_notice
    )
    async for event in stream:
        tell(event)
    if unkept and not follow:
        raise UnavailableError(
            f"events are not kept: {unkept}",
            remedy="-f shows new ones; for past ones, the operator can run "
            "otela mesh upgrade and restart the hub",
        )
