"""The product as an operator and a provider run it: installed commands, a process each.

Everything is started by `otela …` in a place: this machine's loopback, or a namespace of a lab.
Waits are on conditions: lines of logs, health pages, `/v1/models`. At the end every process is
ended by pid, and on failure the logs' ends are shown.
"""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Self

from click.testing import CliRunner
from tests.e2e.netns import HUB_IP, Lab
from tests.e2e.processes import Process, free_port, wait_until

from opentela.cli import otela

READY_WITHIN_S: Final = 60.0
"""A service is ready in a second or two on idle cores; the two here are shared."""
OTELA: Final = (sys.executable, "-m", "opentela.cli")
PROVIDER: Final = "acme"
NOTHING_TO_LEARN: Final = "peers.learn_s=0.3"
"""For the first registry of a mesh without sessions: it need not listen long before it answers."""
_WRITERS: Final = {("mesh", name) for name in ("init", "role", "leaf", "invite")}
FETCH_WITHIN_S: Final = 20.0
_FETCH: Final = "import sys; from tests.e2e.product import fetch; print(fetch(*sys.argv[1:]))"


class Place:
    """Where processes run: this machine, reached at its loopback address."""

    address: str = "127.0.0.1"

    def start(
        self, name: str, argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None
    ) -> Process:
        """Start a process here."""
        return Process(name, argv, log=log, env=env)

    def run(self, argv: Sequence[str], *, timeout_s: float = 60.0) -> str:
        """Return what a command here prints.

        Raises:
            AssertionError: It failed; the message holds what it said.
        """
        done = subprocess.run(
            self.argv(argv), capture_output=True, text=True, timeout=timeout_s, check=False
        )
        assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
        return done.stdout

    def argv(self, argv: Sequence[str]) -> list[str]:
        """Return *argv* so that it runs here."""
        return list(argv)

    def fetch(self, url: str, data: str = "") -> Any:
        """Return the JSON at *url*, dialled from here; with *data*, after posting it."""
        return json.loads(fetch(url, data))


class Namespace(Place):
    """A place in a lab."""

    def __init__(self, lab: Lab, place: str) -> None:
        self._lab = lab
        self._place = place
        addresses = {"hub": HUB_IP}
        self.address = addresses.get(place) or (
            lab.address(place) if place in lab.nodes else "127.0.0.1"
        )

    def argv(self, argv: Sequence[str]) -> list[str]:
        """Return *argv* so that it runs in the namespace."""
        return self._lab.argv(self._place, argv)

    def fetch(self, url: str, data: str = "") -> Any:
        """Return the JSON at *url*, dialled from the namespace; with *data*, after posting it."""
        return json.loads(self.run([sys.executable, "-c", _FETCH, url, data]))

    def start(
        self, name: str, argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None
    ) -> Process:
        """Start a process in the namespace."""
        return self._lab.start(self._place, name, argv, log=log, env=env)


class Service:
    """One process of the product, and what it told in its log.

    Attributes:
        url: Where it is dialled, if it is.
    """

    def __init__(self, process: Process, place: Place) -> None:
        self.process = process
        self.place = place
        self.url = ""

    def events(self, event: str = "") -> Iterator[dict[str, Any]]:
        """Return the lines of its log, or those of one event."""
        for line in self.process.log.read_text(errors="replace").splitlines():
            if line.startswith("{") and line.endswith("}"):
                told = json.loads(line)
                if not event or told.get("event") == event:
                    yield told

    def wait_for(
        self, event: str, *, within_s: float = READY_WITHIN_S, **values: object
    ) -> dict[str, Any]:
        """Return the first line of *event* that holds *values*, once it is there."""
        found: list[dict[str, Any]] = []

        def is_told() -> bool:
            found.extend(
                line
                for line in self.events(event)
                if all(line.get(key) == value for key, value in values.items())
            )
            return bool(found) or self.process.returncode is not None

        wait_until(
            is_told,
            f"{event} {values} of {self.process.name}",
            within_s=within_s,
            detail=self.process.tail,
        )
        assert found, f"{self.process.name} ended\n{self.process.tail()}"
        return found[0]

    def wait_for_words(self, words: str, *, within_s: float = READY_WITHIN_S) -> None:
        """Return once *words* stand in its log."""
        wait_until(
            lambda: words in self.process.log.read_text(errors="replace"),
            f"{words!r} from {self.process.name}",
            within_s=within_s,
            detail=self.process.tail,
        )

    @property
    def health(self) -> str:
        """The base URL of its health page, reachable from where it runs."""
        return str(self.wait_for("health_page_opened")["url"])

    def status(self) -> Any:
        """Return what it tells of itself."""
        return self.place.fetch(f"{self.health}/status")


class Leaf(Service):
    """A site's own server.

    Attributes:
        site: Its name.
        access: The provider's access file for this site.
        servers: Where its own clients dial it.
        leaf_url: Where further leaves dial it, if they may.
    """

    def __init__(self, server: Service, site: str, access: Path) -> None:
        super().__init__(server.process, server.place)
        self.site = site
        self.access = access
        self.servers: tuple[str, ...] = ()
        self.leaf_url = ""


class Product:
    """A mesh of real processes.

    Args:
        folder: Where everything is written.
        public: Where hub, registries and routers run.
        tls: Whether every link of the mesh is encrypted; outside loopback it must be.
    """

    def __init__(self, folder: Path, *, public: Place | None = None, tls: bool = True) -> None:
        self.folder = folder
        self.public = public or Place()
        self._tls = "auto" if tls else "none"
        self.mesh = folder / "mesh"
        self.services: list[Service] = []

    running: ClassVar[list["Product"]] = []
    """Those that have not ended, for the report of a failure."""

    def __enter__(self) -> Self:
        self.running.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.running.remove(self)
        if error is not None:
            error.add_note(self.tails())
        # Nobody looks at how they leave; the tests of that end what they look at themselves.
        for service in reversed(self.services):
            service.process.end_at_once()

    def tails(self) -> str:
        """Return the end of what each process said."""
        return "\n".join(service.process.tail() for service in self.services)

    # The public side

    def start_hub(self) -> Service:
        """Make a mesh and start its hub."""
        self.otela(
            *("mesh", "init", "--dir", str(self.mesh), "--host", self.public.address),
            *("--listen", self.public.address, "--tls", self._tls),
            *("--port", str(free_port()), "--leaf-port", str(free_port())),
            *("--websocket-port", str(free_port())),
        )
        return self._serve("hub", self.public, self.mesh / "hub.conf")

    def start_registry(
        self, name: str = "registry", *settings: str, at: "Leaf | None" = None
    ) -> Service:
        """Start a registry, at the hub or *at* a leaf that lets it in; wait until it takes work."""
        access = self.admit("registry", name, at)
        place = at.place if at else self.public
        service = self.launch(*(name, place, "registry"), *_set(f"access={access}", *settings))
        service.wait_for("registry_started")
        return service

    def start_router(
        self,
        name: str = "router",
        *settings: str,
        address: str = "",
        at: "Leaf | None" = None,
        place: Place | None = None,
    ) -> Service:
        """Start a router and wait until it knows the mesh; `url` is where clients connect."""
        access = self.admit("router", name, at)
        place = place or (at.place if at else self.public)
        address = address or f"{place.address}:0"
        service = self.launch(
            *(name, place, "router"),
            *_set(f"access={access}", f"listen.address={address}", *settings),
        )
        service.url = service.wait_for("router_opened")["url"]
        service.wait_for("readiness_changed", ready=True)
        return service

    def admit(self, role: str, name: str, at: "Leaf | None" = None) -> Path:
        """Return a new access file for a registry, router or tool, to the hub or *at* a leaf."""
        path = self.mesh / "access" / f"{name}.toml"
        self.otela(
            *("mesh", "role", "--dir", str(self.mesh), "--role", role, "--name", name),
            *("--out", str(path)),
            *(word for url in (at.servers if at else ()) for word in ("--server", url)),
            *(("--site", at.site) if at and role == "registry" else ()),
        )
        return path

    # A site

    def start_leaf(
        self,
        site: str,
        place: Place | None = None,
        *,
        websocket: bool = False,
        behind: Sequence[str] = (),
        through: Leaf | None = None,
        members: Sequence[tuple[str, str]] = (),
    ) -> Leaf:
        """Make and start a site's own server, and invite a provider to it.

        Args:
            site: Its name.
            place: Where it runs.
            websocket: Whether it dials the hub's websocket port.
            behind: Sites whose leaves dial this one.
            through: The leaf that it dials instead of the hub.
            members: Role and name of registries and routers that work there.
        """
        place = place or Place()
        root = self.folder / f"leaf-{site}"
        leaf_port = free_port()
        listen = ("--tls", self._tls, "--host", place.address, "--listen", place.address)
        made = json.loads(
            self.otela(
                *("mesh", "leaf", "--dir", str(self.mesh), "--site", site, "--json"),
                *("--port", str(free_port()), "--out", str(root)),
                *(("--websocket",) if websocket else ()),
                *(("--leaf-port", str(leaf_port), *listen) if behind else ()),
                *(word for other in behind for word in ("--behind", other)),
                *(("--hub", through.leaf_url) if through else ()),
                *(word for role, name in members for word in (f"--{role}", name)),
            )
        )
        access = self.folder / f"provider-{site}.toml"
        self.otela(
            *("mesh", "invite", "--dir", str(self.mesh), "--provider", PROVIDER, "--site", site),
            *("--out", str(access)),
            *(word for url in made["servers"] for word in ("--server", url)),
        )
        leaf = Leaf(self._serve(f"leaf-{site}", place, root / "leaf.conf"), site, access)
        leaf.servers = tuple(made["servers"])
        scheme = "nats" if self._tls == "none" else "tls"
        leaf.leaf_url = f"{scheme}://{place.address}:{leaf_port}"
        return leaf

    def restart_leaf(self, leaf: Leaf) -> None:
        """Start a leaf again that has ended."""
        started = self._serve(
            f"leaf-{leaf.site}", leaf.place, self.folder / f"leaf-{leaf.site}" / "leaf.conf"
        )
        leaf.process = started.process

    def start_engine(
        self,
        name: str,
        leaf: Leaf,
        argv: Sequence[str],
        *settings: str,
        env: Mapping[str, str] | None = None,
    ) -> Service:
        """Start an engine by `otela start -- ARGV`; it is not yet ready."""
        return self.launch(
            *(name, leaf.place, "start", "--access", str(leaf.access), "--node", name),
            *_set(*settings),
            *("--", *argv),
            env=env,
        )

    # All of them

    def otela(self, *arguments: str) -> str:
        """Return what a command of ours prints, run on this machine.

        Those that only write files run in this process: to start one for each of the hundreds of
        files that the tests need takes minutes.
        """
        if arguments[:2] not in _WRITERS:
            return Place().run([*OTELA, *arguments])
        done = CliRunner().invoke(otela, arguments)
        assert done.exit_code == 0, f"{' '.join(arguments)}: {done.output}"
        return done.stdout

    def launch_again(self, service: Service) -> Service:
        """Start a service that has ended, with the same words."""
        return self.started(service.process.name, service.place, service.process.argv)

    def launch(
        self, name: str, place: Place, *arguments: str, env: Mapping[str, str] | None = None
    ) -> Service:
        """Start a command of ours; it ends with the product at the latest."""
        return self.started(name, place, [*OTELA, *arguments], env)

    def started(
        self, name: str, place: Place, argv: Sequence[str], env: Mapping[str, str] | None = None
    ) -> Service:
        """Start any process; it ends with the product at the latest."""
        count = sum(service.process.name == name for service in self.services)
        log = self.folder / (f"{name}-{count}.log" if count else f"{name}.log")
        service = Service(place.start(name, argv, log=log, env=env), place)
        self.services.append(service)
        return service

    def _serve(self, name: str, place: Place, conf: Path) -> Service:
        server = self.launch(name, place, "mesh", "serve", str(conf))
        server.wait_for_words("Server is ready")
        return server


def wait_for_models(
    router: Service, model: str, *, sessions: int = 1, within_s: float = READY_WITHIN_S
) -> None:
    """Return once *router* lists *model* with so many live sessions."""

    def is_listed() -> bool:
        models = router.place.fetch(f"{router.url}/v1/models")["data"]
        return any(one["id"] == model and one["otela"]["sessions"] >= sessions for one in models)

    wait_until(
        is_listed, f"{sessions} sessions of {model}", within_s=within_s, detail=router.process.tail
    )


def fetch(url: str, data: str = "") -> str:
    """Return what *url* answers; with *data*, to a POST of it."""
    request = urllib.request.Request(url, data=data.encode() or None)
    with urllib.request.urlopen(request, timeout=FETCH_WITHIN_S) as answer:
        return str(answer.read().decode())


def _set(*settings: str) -> Iterator[str]:
    for setting in settings:
        yield from ("--set", setting)
