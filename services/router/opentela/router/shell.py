"""A router on a real mesh: a view feeds the directory, a link carries the requests."""

import asyncio
import ipaddress
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from opentela.core.errors import MeshUnavailableError
from opentela.core.record import SessionRecord
from opentela.mesh import data_client, nats_bus, warrants
from opentela.mesh.access import Access
from opentela.mesh.data_client import DataClient
from opentela.mesh.keeper import BusState
from opentela.mesh.nats_bus import NatsBus
from opentela.router.carriers import Carriers
from opentela.router.config import INHERITED, RouterConfig
from opentela.router.desk import Desk
from opentela.router.front import Front
from opentela.router.link import MeshLink
from opentela.service import Lifecycle, SystemClock
from opentela.telemetry import metrics
from opentela.telemetry.health import read_token, split_address
from opentela.telemetry.log import get_logger
from opentela.view.shell import View
from opentela.wire import control, subjects

log: Final = get_logger()

IN_FLIGHT: Final = metrics.gauge("otela_router_in_flight", "Requests in progress.")
CONNECTIONS: Final = metrics.gauge("otela_router_connections", "Open client connections.")
WAITING: Final = metrics.gauge(
    "otela_router_waiting", "Requests that wait for a session to load their model, or for room."
)
SESSIONS: Final = metrics.gauge("otela_router_sessions", "Sessions that can get requests.")
USAGE_WAITING: Final = metrics.gauge(
    "otela_router_usage_waiting", "Usage records not yet handed to the mesh."
)

BOOKS_S: Final = 1.0
"""For requests that are broken off to end; that takes a few turns of the loop."""


class RouterShell:
    """One router that serves while the context of `open` lasts."""

    def __init__(
        self, life: Lifecycle, config: RouterConfig, access: Access, *, bus: NatsBus
    ) -> None:
        self._life = life
        self._config = config
        self._access = access
        self._bus = bus
        # Spreads load and makes ids that are only unique: nothing here is secret.
        self._rng = random.Random()  # noqa: S311
        self._data: DataClient | None = None
        self._view: View | None = None
        self._front: Front | None = None
        self._carriers: Carriers | None = None
        self._was_connected = True

    @classmethod
    @asynccontextmanager
    async def open(
        cls, life: Lifecycle, config: RouterConfig, access: Access
    ) -> AsyncIterator["RouterShell"]:
        """Serve clients with what *access* lets this router reach.

        Raises:
            CredentialError: The mesh refuses the access.
            MeshUnavailableError: No server of the mesh answers.
            PortInUseError: Somebody else listens where clients should connect.
        """
        shells: list[RouterShell] = []

        def on_state(_state: BusState, _why: str) -> None:
            for shell in shells:
                shell.mesh_changed()

        async with AsyncExitStack() as stack:
            bus = await stack.enter_async_context(
                await nats_bus.connect(access, name=access.name, on_state=on_state)
            )
            shell = cls(life, config, access, bus=bus)
            data = await stack.enter_async_context(
                await data_client.connect(access, name=f"{access.name}-data", on_state=on_state)
            )
            await shell._start(stack, data)
            shells.append(shell)
            stack.callback(shells.clear)
            shell.mesh_changed()
            yield shell

    @property
    def url(self) -> str:
        """Where clients connect."""
        assert self._front is not None
        return self._front.url

    def mesh_changed(self) -> None:
        """Say whether requests can be served as things are now."""
        view, data, front = self._view, self._data, self._front
        if view is None or data is None or front is None:
            return
        was_connected, self._was_connected = self._was_connected, self._bus.is_connected
        if self._was_connected and not was_connected:
            view.mesh_back()
        if not data.is_connected or not self._bus.is_connected:
            reason = "the mesh does not answer"
        elif not view.caught_up:
            reason = "no registry has told yet who is there"
        else:
            reason = ""
        front.set_ready(not reason, reason)
        self._life.ready(not reason, reason)

    async def drain(self) -> None:
        """Finish what runs, and tell the books."""
        front, data = self._front, self._data
        assert front is not None
        assert data is not None
        front.set_ready(False, "stopping")  # noqa: FBT003 - reads as a fact
        self._life.ready(flag=False, reason="stopping")
        await front.drain()
        await front.journal.flush_usage(data.publish)

    async def _book_the_rest(self, front: Front, data: DataClient) -> None:
        """Hand over the records of what was broken off, too: they end when their clients do."""
        with suppress(TimeoutError):
            async with asyncio.timeout(BOOKS_S):
                await front.desk.wait_idle()
        await front.journal.flush_usage(data.publish)
        if front.journal.waiting:
            log.warning("usage_lost", count=front.journal.waiting)

    def status(self) -> dict[str, object]:
        """Return what `/status` tells."""
        front, view = self._front, self._view
        assert front is not None
        assert view is not None
        return {
            "name": self._access.name,
            "api": front.url,
            "policy": self._config.policy,
            "in_flight": front.desk.in_flight,
            "connections": len(front.gate),
            "caught_up": view.caught_up,
            "models": {
                name: len(pool.candidates) for name, pool in front.directory.models().items()
            },
        }

    async def _start(self, stack: AsyncExitStack, data: DataClient) -> None:
        config, access = self._config, self._access
        self._data = data
        link = MeshLink(data, role=access.name, rng=self._rng)
        await link.start()
        stack.callback(link.close)
        view = self._view = await stack.enter_async_context(
            View.open(
                self._bus, verify=warrants.authority(access), name=access.name, config=config.view
            )
        )
        front = self._front = Front(
            config,
            name=access.name,
            link=link,
            clock=SystemClock(),
            rng=self._rng,
            metrics_token=_metrics_token(config),
        )
        carriers = self._carriers = Carriers(
            config, link, router=access.identity, records=lambda: view.records
        )
        front.directory.vouches_for = carriers.vouching.vouches_for
        await carriers.start(stack, front.sessions_changed)
        front.directory.is_complete = view.caught_up
        self._on_change(list(view.records.values()))
        stack.callback(view.subscribe(self._on_change))
        IN_FLIGHT.set_function(lambda: front.desk.in_flight)
        CONNECTIONS.set_function(lambda: len(front.gate))
        WAITING.set_function(lambda: len(front.desk.waiting))
        SESSIONS.set_function(lambda: front.directory.session_count)
        USAGE_WAITING.set_function(lambda: front.journal.waiting)
        stack.push_async_callback(self._book_the_rest, front, data)
        stack.push_async_callback(front.stop)
        await front.start()
        self._life.health.status = self.status
        await self._run_tasks(stack, front, view, data)

    async def _run_tasks(
        self, stack: AsyncExitStack, front: Front, view: View, data: DataClient
    ) -> None:
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        for work in (
            front.journal.publish_usage(data.publish),
            self._await_view(view),
            self._tell_sightings(front.desk),
        ):
            stack.callback(tasks.create_task(work).cancel)

    async def _tell_sightings(self, desk: Desk) -> None:
        sighting = control.encode(control.Sighting(router=self._access.name))
        while True:
            await desk.has_sighted.wait()
            desk.has_sighted.clear()
            for path in desk.sightings.taken():
                # Lost with the mesh, it would be no news any more.
                with suppress(MeshUnavailableError):
                    await self._bus.publish(subjects.sighting(path), sighting)

    async def _await_view(self, view: View) -> None:
        await view.wait_caught_up()
        assert self._front is not None
        self._front.directory.is_complete = True
        self.mesh_changed()

    def _on_change(self, changed: list[SessionRecord]) -> None:
        front = self._front
        assert front is not None
        assert self._carriers is not None
        self._carriers.take(changed)
        front.sessions_changed(changed)


def _metrics_token(config: RouterConfig) -> bytes | None:
    """Return who may read metrics on the API's port: as on the health page, or nobody."""
    if config.health.token_file:
        return read_token(Path(config.health.token_file))
    if config.listen.address == INHERITED:
        return None  # wherever that may listen
    host, _ = split_address(config.listen.address, field="listen.address")
    try:
        is_local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = False
    return b"" if is_local else None
