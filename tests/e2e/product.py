"""The product as an operator and a provider run it: installed commands, a process each.

Everything is started by `otela …` in a place: this machine's loopback, or a namespace of a lab.
Waits are on conditions: lines of logs, health pages, `/v1/models`. At the end every process is
ended by pid, and on failure the logs' ends are shown.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.e2e.netns import HUB_IP, Lab
from tests.e2e.processes import Process, free_port, wait_until

READY_WITHIN_S: Final = 20.0
"""A service is ready in a second or two on idle cores; the two here are shared."""
OTELA: Final = (sys.executable, "-m", "opentela.cli")
PROVIDER: Final = "acme"

_FETCH: Final = """
import sys, urllib.error, urllib.request
request = urllib.request.Request(sys.argv[1], data=sys.argv[2].encode() or None)
try:
    with urllib.request.urlopen(request, timeout=5) as answer:
        sys.stdout.buffer.write(answer.read())
except (OSError, urllib.error.HTTPError) as error:
    sys.exit(str(error))
"""


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
        """Return the JSON at *url*, dialled from here; with *data*, after posting it.

        Raises:
            AssertionError: There was no answer of status 200.
        """
        return json.loads(self.run([sys.executable, "-c", _FETCH, url, data], timeout_s=10.0))


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
        access: The provider's access file for this site.
        site: Its name.
    """

    access: Path
    site: str
    conf: Path


class Product:
    """A mesh of real processes.

    Args:
        folder: Where everything is written.
        public: Where hub, registries and routers run.
        tls: Whether every link of the mesh is encrypted; outside loopback it must be.
    """

    def __init__(self, folder: Path, *, public: Place | None = None, tls: bool = True) -> None:
        self._folder = folder
        self.public = public or Place()
        self._tls = "auto" if tls else "none"
        self.mesh = folder / "mesh"
        self.services: list[Service] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            error.add_note("\n".join(service.process.tail() for service in self.services))
        for service in reversed(self.services):
            service.process.end()

    # The public side

    def start_hub(self) -> Service:
        """Make a mesh and start its hub."""
        self.otela(
            *("mesh", "init", "--dir", str(self.mesh), "--host", self.public.address),
            *("--listen", self.public.address, "--tls", self._tls),
            *("--port", str(free_port()), "--leaf-port", str(free_port())),
            *("--websocket-port", str(free_port())),
        )
        hub = self._launch("hub", self.public, "mesh", "serve", str(self.mesh / "hub.conf"))
        self._wait_for_server(hub)
        return hub

    def start_registry(self, name: str = "registry", *settings: str) -> Service:
        """Start a registry and wait until it takes work."""
        access = self._role("registry", name)
        service = self._launch(
            *(name, self.public, "registry"), *_set(f"access={access}", *settings)
        )
        service.wait_for("registry_started")
        return service

    def start_router(self, name: str = "router", *settings: str, address: str = "") -> Service:
        """Start a router and wait until it knows the mesh; `url` is where clients connect."""
        access = self._role("router", name)
        address = address or f"{self.public.address}:0"
        service = self._launch(
            *(name, self.public, "router"),
            *_set(f"access={access}", f"listen.address={address}", *settings),
        )
        service.url = service.wait_for("router_opened")["url"]
        service.wait_for("readiness_changed", ready=True)
        return service

    # A site

    def start_leaf(self, site: str, place: Place | None = None, *, websocket: bool = False) -> Leaf:
        """Make and start a site's own server, and invite a provider to it."""
        place = place or Place()
        root = self._folder / f"leaf-{site}"
        made = json.loads(
            self.otela(
                *("mesh", "leaf", "--dir", str(self.mesh), "--site", site, "--json"),
                *("--port", str(free_port()), "--out", str(root)),
                *(("--websocket",) if websocket else ()),
            )
        )
        access = self._folder / f"provider-{site}.toml"
        self.otela(
            *("mesh", "invite", "--dir", str(self.mesh), "--provider", PROVIDER, "--site", site),
            *("--out", str(access)),
            *(word for url in made["servers"] for word in ("--server", url)),
        )
        leaf = self._serve_leaf(site, place, root / "leaf.conf")
        leaf.access = access
        return leaf

    def restart_leaf(self, leaf: Leaf) -> Leaf:
        """Start a leaf again that has ended."""
        again = self._serve_leaf(leaf.site, leaf.place, leaf.conf)
        again.access = leaf.access
        return again

    def start_engine(
        self,
        name: str,
        leaf: Leaf,
        argv: Sequence[str],
        *settings: str,
        env: Mapping[str, str] | None = None,
    ) -> Service:
        """Start an engine by `otela start -- ARGV`; it is not yet ready."""
        return self._launch(
            *(name, leaf.place, "start", "--access", str(leaf.access), "--node", name),
            *_set(*settings),
            *("--", *argv),
            env=env,
        )

    # All of them

    def otela(self, *arguments: str) -> str:
        """Return what a command of ours prints, run on this machine."""
        return Place().run([*OTELA, *arguments])

    def launch_again(self, service: Service) -> Service:
        """Start a service that has ended, with the same words."""
        return self._started(service.process.name, service.place, service.process.argv)

    def _launch(
        self, name: str, place: Place, *arguments: str, env: Mapping[str, str] | None = None
    ) -> Service:
        return self._started(name, place, [*OTELA, *arguments], env)

    def _started(
        self, name: str, place: Place, argv: Sequence[str], env: Mapping[str, str] | None = None
    ) -> Service:
        count = sum(service.process.name == name for service in self.services)
        log = self._folder / (f"{name}-{count}.log" if count else f"{name}.log")
        service = Service(place.start(name, argv, log=log, env=env), place)
        self.services.append(service)
        return service

    def _serve_leaf(self, site: str, place: Place, conf: Path) -> Leaf:
        service = self._launch(f"leaf-{site}", place, "mesh", "serve", str(conf))
        self._wait_for_server(service)
        leaf = Leaf(service.process, place)
        leaf.site, leaf.conf = site, conf
        return leaf

    def _role(self, role: str, name: str) -> Path:
        path = self.mesh / "access" / f"{name}.toml"
        self.otela(
            *("mesh", "role", "--dir", str(self.mesh), "--role", role, "--name", name),
            *("--out", str(path)),
        )
        return path

    def _wait_for_server(self, service: Service) -> None:
        def is_ready() -> bool:
            return "Server is ready" in service.process.log.read_text()

        wait_until(
            is_ready,
            f"readiness of {service.process.name}",
            within_s=READY_WITHIN_S,
            detail=service.process.tail,
        )


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


def _set(*settings: str) -> Iterator[str]:
    for setting in settings:
        yield from ("--set", setting)
