"""A mesh of real servers on loopback, made quickly however many leaves it has."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Literal, NamedTuple

from tests.e2e.processes import Process, free_port, wait_until

from opentela.mesh import access as accesses
from opentela.mesh import setup
from opentela.mesh.access import Access
from opentela.mesh.layout import MeshLayout
from opentela.mesh.listeners import LOOPBACK, Listeners, TlsMode
from opentela.mesh.permissions import Member
from opentela.mesh.server import find_server
from opentela.service import SystemClock
from opentela.telemetry.log import get_logger

log: Final = get_logger()

MeshRole = Literal["registry", "router", "provider"]

READY_WITHIN_S: Final = 60.0
"""For every leaf together; two hundred on two cores start one after the other."""
PROVIDER: Final = "acme"
_CLOCK: Final = SystemClock()
_LINKS: Final = 2
"""Of a leaf: in the mesh's account and in the system's."""


class Server(NamedTuple):
    """A nats-server of the mesh.

    Attributes:
        site: Empty for the hub.
        leaf_port: Where leaves dial it; 0 for a leaf.
    """

    process: Process
    site: str
    port: int
    leaf_port: int = 0


class BenchMesh:
    """A hub, and leaves as they are asked for; gone with *stack*."""

    def __init__(self, stack: ExitStack, folder: Path, *, tls: TlsMode) -> None:
        self._stack = stack
        self._folder = folder
        self._tls: TlsMode = tls
        self._files = 0
        self._reserved: list[int] = []
        port, leaf_port = free_port(), free_port()
        self.layout: MeshLayout = setup.init_mesh(
            folder / "mesh",
            Listeners(port=port, leaf_port=leaf_port, listen=LOOPBACK, hosts=(LOOPBACK,), tls=tls),
            now=_CLOCK.wall(),
        )
        self.leaves: list[Server] = []
        self.hub = Server(self._serve("hub", self.layout.conf), "", port, leaf_port)
        _wait(self.hub.process, "Server is ready", 1)

    def reserve_ports(self, count: int) -> list[int]:
        """Return the ports on which the next leaves will be dialled, for who must know before."""
        while len(self._reserved) < count:
            port = free_port()
            if port not in self._reserved:
                self._reserved.append(port)
        return list(self._reserved)

    def add_leaves(self, members: dict[str, Sequence[Member]]) -> list[Server]:
        """Start a leaf for each site, let its members in, and return when all are linked."""
        made = [self._start_leaf(site, tuple(who)) for site, who in members.items()]
        for server in made:
            _wait(server.process, "Leafnode connection created", _LINKS)
        self.leaves.extend(made)
        return made

    def access(self, role: MeshRole, name: str, at: Server) -> Path:
        """Return a new access file that dials *at*; of a provider, for its site alone."""
        scheme = "nats" if self._tls == "none" else "tls"
        servers = (accesses.Server(scheme, LOOPBACK, at.port).url,)
        now = _CLOCK.wall()
        made: Access
        if role == "provider":
            made = setup.invite(self.layout, provider=name, site=at.site, now=now, servers=servers)
        else:
            made = setup.role_access(self.layout, role=role, name=name, now=now, servers=servers)
        self._files += 1
        path = self._folder / f"access-{self._files}.toml"
        accesses.write(path, made)
        return path

    def start(self, name: str, argv: Sequence[str]) -> Process:
        """Start a process that ends with the mesh at the latest."""
        process = Process(name, argv, log=self._folder / f"{name}.log")
        self._stack.callback(process.end)
        return process

    def _start_leaf(self, site: str, members: tuple[Member, ...]) -> Server:
        port = self._reserved.pop(0) if self._reserved else free_port()
        options = setup.LeafOptions(
            site=site,
            members=members,
            listeners=Listeners(port=port, listen=LOOPBACK, hosts=(LOOPBACK,), tls=self._tls),
        )
        conf = setup.add_leaf(self.layout, options, now=_CLOCK.wall()).conf
        return Server(self._serve(f"leaf-{site}", conf), site, port)

    def _serve(self, name: str, conf: Path) -> Process:
        process = Process(
            name,
            [str(find_server()), "--config", conf.name],
            log=self._folder / f"{name}.log",
            cwd=conf.parent,
        )
        self._stack.callback(process.end)
        return process


def _wait(process: Process, words: str, count: int) -> None:
    wait_until(
        lambda: process.log.read_text(errors="replace").count(words) >= count,
        f"{count} times {words!r} from {process.name}",
        within_s=READY_WITHIN_S,
        detail=process.tail,
    )
