"""A mesh on this machine: hub, registry, router and, if asked, a placer; ended in reverse."""

import asyncio
import contextlib
import os
import random
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import aiohttp

from opentela.core.clock import Clock
from opentela.local import recipe
from opentela.local.children import Child
from opentela.local.home import Home, Running, State
from opentela.local.parts import Launch, Part
from opentela.mesh import access, files, setup
from opentela.mesh.layout import MeshLayout
from opentela.mesh.server import NatsServer
from opentela.mesh.upgrade import upgraded
from opentela.telemetry import health

OTELA: Final = (sys.executable, "-m", "opentela.cli")
"""How our own command is run: by this very Python, wherever it is installed."""
PROVIDER: Final = "local"
"""The provider that a new mesh invites: whoever owns this machine's home."""

_PORTS: Final = 10_000, 20_000
"""Below those of engines, which are below those that a system gives away."""
_random: Final = random.SystemRandom()

_Role = Literal["registry", "router", "tool", "placer"]
_ROLES: Final[tuple[_Role, ...]] = ("registry", "router", "tool")
_Parts = dict[str, Part]

_AWAITED: Final[dict[str, Literal["readyz", "livez"]]] = {
    "registry": "livez",
    "router": "readyz",
    "placer": "readyz",
}
"""A registry is also unready while sessions that it remembers are silent, which is no reason not to
start; that it knows the map is seen by the router, which is not ready before it does."""


class LocalMesh:
    """A mesh whose servers and services are children of this process.

    Attributes:
        home: Where its files lie.
        parts: What runs, by name, in order of start.
        layout: The mesh's keys, for letting more sites and providers in.
    """

    def __init__(self, home: Home, http: aiohttp.ClientSession, clock: Clock) -> None:
        self.home = home
        self.layout = MeshLayout(home.mesh)
        self.parts: _Parts = {}
        self._http = http
        self._clock = clock
        self._stack = AsyncExitStack()
        self._api = ""
        self._placer: Path | None = None
        self._is_new = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls, home: Home, *, api: str, clock: Clock, placer: Path | None = None
    ) -> AsyncIterator["LocalMesh"]:
        """Run the mesh of *home*, made now if there is none; the router listens at *api*.

        With *placer*, a placer runs too, which that file configures.

        Raises:
            UnavailableError: Somebody runs it already, a part does not start, a port is taken.
            ConfigError: *api* is no address, or none of this host.
        """
        host, port = health.split_address(api, field="--api")
        home.prepare()
        async with AsyncExitStack() as stack:
            stack.enter_context(home.occupied())
            _see_free(host, port, api)
            http = await stack.enter_async_context(aiohttp.ClientSession())
            mesh = cls(home, http, clock)
            mesh._api, mesh._placer = api, placer
            await stack.enter_async_context(mesh._stack)
            await mesh._start()
            mesh.record()
            yield mesh

    @property
    def hub(self) -> NatsServer:
        """The hub's server."""
        server = self.parts["hub"].process
        assert isinstance(server, NatsServer)
        return server

    @property
    def api(self) -> str:
        """Base URL for OpenAI clients."""
        return f"http://{self._api}/v1"

    @property
    def state(self) -> State:
        """What runs where."""
        return State(
            pid=os.getpid(),
            api=self.api,
            hub=self.hub.url,
            services=tuple(self._running(part) for part in self.parts.values()),
        )

    def record(self) -> None:
        """Write down what runs where, for other commands."""
        self.home.record(self.state)

    async def launch(self, name: str, launch: Launch) -> Part:
        """Start one more part of the mesh; it ends before those that were started earlier."""
        part = self.parts[name] = await Part.start(name, launch)
        self._stack.push_async_callback(part.stop)
        return part

    async def _start(self) -> None:
        self._set_up()
        await self.launch("hub", self._server(self.layout.conf, "hub"))
        self._let_in()
        async with asyncio.TaskGroup() as group:
            for name in ("registry", "router"):
                group.create_task(self.launch(name, self._service(name)))
        self._api = await self._router_address()
        # Started again, it must be found where it was.
        self._configure()
        if self._placer is not None:
            await self.launch("placer", self._child("placer", self._placer_words(self._placer)))

    def _set_up(self) -> None:
        """Make the mesh, if there is none; its ports stay the same from then on."""
        for old in self.home.path.glob("log/*.log"):
            old.replace(old.with_suffix(".log.old"))
        self._is_new = not self.layout.exists
        if not self._is_new:
            # It may be of an earlier version; the hub does not run yet.
            upgraded(self.layout, now=self._clock.wall(), folders=[self.home.path / "access"])
        if self._is_new:
            port, leaf_port, websocket_port = free_ports(3)
            setup.init_mesh(
                self.home.mesh,
                setup.Listeners(
                    hosts=(setup.LOOPBACK,),
                    port=port,
                    leaf_port=leaf_port,
                    websocket_port=websocket_port,
                ),
                name="local",
                now=self._clock.wall(),
                has_jetstream=True,
            )

    def _let_in(self) -> None:
        now = self._clock.wall()
        for role in (*_ROLES, *(("placer",) if self._placer else ())):
            path = self.home.access(role)
            if not path.exists() or (role == "registry" and not access.read(path).warrant):
                # Registries of earlier versions did not sign.
                access.write(path, setup.role_access(self.layout, role=role, name=role, now=now))
        path = self.home.access("provider")
        if not path.exists():
            access.write(path, setup.invite(self.layout, provider=PROVIDER, now=now))
        self._configure()

    def _configure(self) -> None:
        home = self.home
        files.write(
            home.config("registry"),
            recipe.registry(
                access=home.access("registry"),
                token_file=home.token_file,
                state_file=home.path / "registry.state",
                is_new=self._is_new,
            ),
        )
        files.write(
            home.config("router"),
            recipe.router(access=home.access("router"), token_file=home.token_file, api=self._api),
        )

    def _server(self, conf: Path, name: str) -> Callable[[], Any]:
        return lambda: NatsServer.start(conf, log=self.home.log(name))

    def _service(self, name: str) -> Callable[[], Any]:
        return self._child(name, ("--config", str(self.home.config(name))))

    def _placer_words(self, config: Path) -> tuple[str, ...]:
        """Return what is said to a placer beside what stands in its own file."""
        mine = (
            f"access={self.home.access('placer')}",
            f"health.token_file={self.home.token_file}",
            "log.form=json",
        )
        return ("--config", str(config), *(word for one in mine for word in ("--set", one)))

    def _child(self, name: str, words: tuple[str, ...]) -> Callable[[], Any]:
        async def launch() -> Child:
            child = await Child.start(name, (*OTELA, name, *words), log=self.home.log(name))
            try:
                await child.wait_until_ready(self._http, page=_AWAITED[name])
            except BaseException:
                await child.stop()
                raise
            return child

        return launch

    async def _router_address(self) -> str:
        """Return where the router listens; it may have chosen the port."""
        child = self.parts["router"].process
        assert isinstance(child, Child)
        token = health.read_token(self.home.token_file).decode()
        headers = {"Authorization": f"Bearer {token}"}
        async with self._http.get(f"{child.health}/status", headers=headers) as answer:
            body = await answer.json()
        return urlsplit(str(body["api"])).netloc

    def _running(self, part: Part) -> Running:
        process = part.process
        url, page = "", ""
        if isinstance(process, NatsServer):
            url = process.url
        elif isinstance(process, Child):
            page = process.health
            url = self.api if part.name == "router" else page
        return Running(name=part.name, pid=process.pid, url=url, log=str(process.log), health=page)


def _see_free(host: str, port: int, api: str) -> None:
    # The router would say the same, but of a field that nobody sets here.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise health.listen_error(error, api, field="--api") from error


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listens on, and that stay so until somebody does.

    Of those that the system gives away, each could be given to another process before a server
    of ours has it, or while it is down; these it never gives.
    """
    found: list[int] = []
    while len(found) < count:
        port = _random.randrange(*_PORTS)
        # Without SO_REUSEADDR: what was in use a moment ago may come back.
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((setup.LOOPBACK, port))
            found += [port] if port not in found else []
    return found
