"""A real mesh for integration tests: a hub and leaf servers on ports of the system's choosing.

    async with TestMesh(leaves=("a", "b"), websocket=("b",)) as mesh:
        provider = mesh.access(role="provider", provider="p", at="a")
        async with await nats_bus.connect(provider, name="p") as bus: ...

Interest travels between servers after a subscription has returned: wait for what you need, for
example with `until`, and not for a time.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Literal, Self, TypeAlias

from opentela.mesh import nats_bus, setup
from opentela.mesh.access import Access, Server
from opentela.mesh.layout import MeshLayout
from opentela.mesh.listeners import Listeners, TlsMode
from opentela.mesh.nats_bus import NatsBus
from opentela.mesh.permissions import Member, Role
from opentela.mesh.server import NatsServer
from opentela.mesh.setup import LeafOptions
from opentela.service import SystemClock
from opentela.testing import warden

TestRole: TypeAlias = Literal["registry", "router", "placer", "tool", "provider", "sys"]

CLOCK: Final = SystemClock()
HUB: Final = "hub"
UNTIL_TIMEOUT_S: Final = 30.0
"""Only what will never come true takes so long; cores may be shared, and machines stand still."""
_POLL_S: Final = 0.005
_LINKS: Final = 2
"""Of a leaf: in the mesh's account and in the system's."""

EVERYBODY: Final = tuple(
    Member(role=role, name=f"{role}{number}")
    for role in (Role.REGISTRY, Role.ROUTER, Role.PLACER, Role.TOOL)
    for number in (1, 2)
)
"""Members that may work behind every leaf of a test, unless it says otherwise."""


class TestMesh:
    """A hub and its leaf servers, started by `async with` and gone after it.

    Args:
        leaves: Sites; each gets a leaf server that dials the hub.
        websocket: Those of them that dial the hub's websocket.
        behind: Site to site: the first's leaf dials the second's instead of the hub's.
        providers: Site to the providers that its leaf is limited to.
        members: Who else may work behind leaves.
        tls: `auto` encrypts everything.
        has_jetstream: Whether the hub keeps lifecycle events.
    """

    __test__ = False  # pytest: not a test

    def __init__(
        self,
        *,
        leaves: tuple[str, ...] = (),
        websocket: tuple[str, ...] = (),
        behind: dict[str, str] | None = None,
        providers: dict[str, tuple[str, ...]] | None = None,
        members: tuple[Member, ...] = EVERYBODY,
        tls: TlsMode = "none",
        has_jetstream: bool = False,
    ) -> None:
        self._has_jetstream = has_jetstream
        self._leaves = leaves
        self._websocket = websocket
        self._behind = behind or {}
        self._providers = providers or {}
        self._members = members
        self._tls: TlsMode = tls
        self._stack = contextlib.AsyncExitStack()
        self._servers: dict[str, NatsServer] = {}
        self._root = Path()
        self.layout = MeshLayout(Path())

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            folder = tempfile.TemporaryDirectory(prefix=warden.folder_prefix())
            self._root = Path(stack.enter_context(folder))
            self.layout = setup.init_mesh(
                self._root / "mesh",
                self._listeners(leaf_port=0),
                now=CLOCK.wall(),
                has_jetstream=self._has_jetstream,
            )
            await self._start(stack, HUB, self.layout.conf)
            for site in self._leaves:
                await self._add_leaf(stack, site, self._uplink(site))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def server(self, at: str = HUB) -> NatsServer:
        """Return a running server: `hub`, or a leaf's site."""
        return self._servers[at]

    def url(self, at: str = HUB) -> str:
        """Return where clients dial a server."""
        return self._client_url(at).url

    def access(
        self,
        *,
        role: TestRole,
        at: str = HUB,
        provider: str = "",
        site: str = "",
        name: str = "",
        expires_in_s: float = 0.0,
        websocket: bool = False,
    ) -> Access:
        """Return a new access file's content.

        Args:
            role: What it may do.
            at: The server that it dials.
            provider: Whose sessions, for the role `provider`.
            site: The only site of that provider; empty for any.
            name: `<role>1` when empty.
            expires_in_s: Rounded to whole seconds by the servers; 0 for never.
            websocket: Whether it dials the hub's websocket.
        """
        now = CLOCK.wall()
        expires_at = now + expires_in_s if expires_in_s else 0.0
        servers = (self.server(at).websocket_url,) if websocket else (self.url(at),)
        if role == "provider":
            return setup.invite(
                self.layout,
                provider=provider or "p",
                site=site,
                now=now,
                servers=servers,
                expires_at=expires_at,
            )
        return setup.role_access(
            self.layout,
            role=role,
            name=name or f"{role}1",
            now=now,
            servers=servers,
            expires_at=expires_at,
        )

    async def bus(
        self,
        *,
        role: TestRole,
        at: str = HUB,
        provider: str = "",
        site: str = "",
        name: str = "",
        websocket: bool = False,
    ) -> NatsBus:
        """Return a bus that is closed with the mesh; the arguments are those of `access`."""
        access = self.access(
            role=role, at=at, provider=provider, site=site, name=name, websocket=websocket
        )
        return await self.adopt(await nats_bus.connect(access, name=access.name))

    async def adopt(self, bus: NatsBus) -> NatsBus:
        """Return *bus*, which is from now on closed with the mesh."""
        self._stack.push_async_callback(bus.close)
        return bus

    async def restart(self, at: str) -> None:
        """Crash a server and start it again on the same ports."""
        await self._servers[at].kill()
        await self.start_again(at)

    async def start_again(self, at: str) -> None:
        """Start a server that has ended on the ports that it had."""
        old = self._servers[at]
        conf = self.layout.conf if at == HUB else self.layout.leaf(at) / "leaf.conf"
        _pin_ports(conf, old)
        await self._start(self._stack, at, conf)

    async def add_leaf(self, site: str, *, port: int) -> None:
        """Start a leaf that dials the hub by another port of loopback, such as a proxy's."""
        scheme = "nats" if self._tls == "none" else "tls"
        await self._add_leaf(self._stack, site, f"{scheme}://127.0.0.1:{port}")

    def _uplink(self, site: str) -> str:
        parent = self._servers[self._behind.get(site, HUB)]
        if site in self._websocket:
            return parent.websocket_url
        return parent.leaf_url.replace("nats-leaf", "nats" if self._tls == "none" else "tls")

    async def _add_leaf(self, stack: contextlib.AsyncExitStack, site: str, uplink: str) -> None:
        options = LeafOptions(
            site=site,
            providers=self._providers.get(site, ()),
            members=self._members,
            behind=tuple(one for one, other in self._behind.items() if other == site),
            hubs=(uplink,),
            listeners=self._listeners(leaf_port=0 if site in self._behind.values() else None),
        )
        leaf = setup.add_leaf(self.layout, options, now=CLOCK.wall())
        await self._start(stack, site, leaf.conf)
        await self.linked(site)

    async def linked(self, site: str) -> None:
        """Return once a leaf has both its links to the server above it."""
        log = self._servers[site].log

        def links() -> int:
            told = log.read_text()
            created, closed = (f"Leafnode connection {word}" for word in ("created", "closed"))
            return told.count(created) - told.count(closed)

        await until(lambda: links() >= _LINKS)

    async def _start(self, stack: contextlib.AsyncExitStack, at: str, conf: Path) -> None:
        log = self._root / f"{at}.log"
        log.write_text("")
        server = await NatsServer.start(conf, log=log)
        stack.push_async_callback(server.kill)
        self._servers[at] = server

    def _listeners(self, *, leaf_port: int | None) -> Listeners:
        return Listeners(
            port=0,
            leaf_port=leaf_port,
            websocket_port=0,
            monitor_port=0,
            listen="127.0.0.1",
            tls=self._tls,
        )

    def _client_url(self, at: str) -> Server:
        port = self._servers[at].port("client")
        return Server("nats" if self._tls == "none" else "tls", "127.0.0.1", port)


async def until(
    holds: Callable[[], bool] | Callable[[], Awaitable[bool]],
    *,
    timeout_s: float = UNTIL_TIMEOUT_S,
) -> None:
    """Return once *holds* does; it is asked every few milliseconds.

    Raises:
        TimeoutError: It never did.
    """
    loop = asyncio.get_running_loop()
    late_at = loop.time() + timeout_s
    while True:
        # Looked at first: what came true while this process stood still is true.
        is_late = loop.time() > late_at
        answer = holds()
        if await answer if not isinstance(answer, bool) else answer:
            return
        if is_late:
            raise TimeoutError(f"it did not come true within {timeout_s:g} s")
        await asyncio.sleep(_POLL_S)


def _pin_ports(conf: Path, server: NatsServer) -> None:
    """Write the ports that the system chose into a configuration."""
    text = conf.read_text()
    sections = {"leafnodes": "leaf", "websocket": "websocket"}
    lines, current = [], "client"
    for line in text.splitlines():
        head = line.split(" ")[0]
        if not line.startswith(" "):
            current = sections.get(head, "client" if head == "listen:" else "monitor")
        lines.append(line.replace(':-1"', f':{server.port(current)}"') if ":-1" in line else line)
    conf.write_text("\n".join(lines) + "\n")
