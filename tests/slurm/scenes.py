"""What the tests of services in jobs have in common: a mesh beside a Slurm, engines that tell."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.e2e.processes import wait_until
from tests.e2e.product import NOTHING_TO_LEARN, OTELA, Leaf, Product
from tests.e2e.scenes import MODEL, fake_engine
from tests.slurm.cluster import USER, Cluster

SERVICE: Final = "tiny"
SERVED_WITHIN_S: Final = 80.0
_LIFECYCLES: Final = {
    "session_joined": "JOINING",
    "session_served": "SERVING",
    "session_drained": "DRAINING",
    "session_went_down": "DOWN",
    "session_left": "LEFT",
}


class Site:
    """A mesh of one site whose compute nodes are a Slurm's.

    Attributes:
        product: The mesh.
        router: Where clients connect.
        cluster: The Slurm.
        services: The folder of services, which belongs to the ordinary user.
    """

    def __init__(self, product: Product, cluster: Cluster) -> None:
        self.product = product
        self.cluster = cluster
        product.start_hub()
        self.registry = product.start_registry("registry", NOTHING_TO_LEARN)
        self.router = product.start_router()
        leaf = product.start_leaf("site-a")
        self._leaf = leaf
        self._count = 0
        self._tool: Path | None = None
        self._known: set[str] = set()
        self.begin()

    def begin(self) -> None:
        """Begin a test: a new folder of services, and no session that it would know."""
        self._known |= set(self._told_lives())
        self._count += 1
        self.services = self.cluster.jobs / f"{self.product.folder.name}-{self._count}"
        self.services.mkdir()
        self.access = self._given(self._leaf)
        self._environ = {
            "OTELA_JOBS": str(self.services),
            "HOME": str(self.services),
            "OTELA_KEEP__LOOK_S": "1",
            "OTELA_KEEP__SLACK_S": "2",
            "OTELA_KEEP__SETTLE_S": "2",
            "OTELA_KEEP__LOAD_GUESS_S": "10",
            "TMPDIR": "/tmp",
        }
        shutil.chown(self.services, USER)

    def lives(self) -> dict[str, list[str]]:
        """Return the lifecycles of this test's sessions in order, as a registry told them."""
        told = self._told_lives()
        return {session: life for session, life in told.items() if session not in self._known}

    def wait_for_lives(self, count: int, *life: str) -> None:
        """Return once there were so many sessions, each with this life."""
        wait_until(
            lambda: list(self.lives().values()) == [list(life)] * count,
            f"{count} times {life}",
            within_s=SERVED_WITHIN_S,
            detail=lambda: f"{self.lives()}",
        )

    def _told_lives(self) -> dict[str, list[str]]:
        told: dict[str, list[str]] = {}
        for line in self.registry.events():
            if word := _LIFECYCLES.get(str(line.get("event"))):
                told.setdefault(str(line["session"]), []).append(word)
        return told

    def otela(self, *arguments: str, check: bool = True) -> str:
        """Return what a command of ours says to the ordinary user."""
        done = self.cluster.run(*OTELA, *arguments, env=self._environ, check=check)
        return done.stdout + ("" if check else done.stderr)

    def submit(self, *options: str, engine: Sequence[str] = (), time: str = "5m") -> int:
        """Submit a service; return its job's number."""
        said = self.otela(
            *("submit", "--json", "--name", SERVICE, "--access", str(self.access)),
            *("--time", time, "--directory", str(self.services), "--memory", "1000"),
            *(*options, "--", *(engine or fake_engine("alpha"))),
        )
        return int(json.loads(said.splitlines()[0])["job"])

    def listed(self) -> Any:
        """Return what `otela jobs` says of the service."""
        (row,) = json.loads(self.otela("jobs", "--json"))
        return row

    def seen_sessions(self) -> Any:
        """Return what `otela sessions` says of this test's sessions."""
        if self._tool is None:
            self._tool = self.product.admit("tool", "looker")
        told = self.product.otela("sessions", "--access", str(self._tool), "--json")
        # One whose node died in the test before is listed until its grace has passed.
        return [one for one in json.loads(told) if one["session"] not in self._known]

    def sessions(self) -> int:
        """Return how many sessions the router would send requests to."""
        models = self.router.place.fetch(f"{self.router.url}/v1/models")["data"]
        return sum(one["otela"]["sessions"] for one in models if one["id"] == MODEL)

    def wait_for_sessions(self, count: int, *, within_s: float = SERVED_WITHIN_S) -> float:
        """Return once the router knows so many sessions of the model, no more and no fewer."""
        return wait_until(
            lambda: self.sessions() == count,
            f"{count} sessions",
            within_s=within_s,
            detail=lambda: self.cluster.tails() + self.product.tails(),
        )

    def wait_for_successor(self, job: int, *, within_s: float = 100.0) -> int:
        """Return the number of the job that follows *job*, once there is one."""
        found: list[int] = []

        def has_come() -> bool:
            found[:] = [row["job"] for row in self.listed()["jobs"] if row["job"] > job]
            return bool(found)

        wait_until(
            has_come, f"the successor of job {job}", within_s=within_s, detail=self.cluster.tails
        )
        return found[0]

    def wait_for_end(self, job: int, *, within_s: float = 60.0) -> None:
        """Return once nothing of *job* is left: no process, no ghost."""
        wait_until(
            lambda: not self.cluster.processes(SLURM_JOB_ID=str(job)),
            f"no process of job {job}",
            within_s=within_s,
            detail=lambda: f"{self.cluster.processes(SLURM_JOB_ID=str(job))}",
        )

    def output(self, job: int) -> str:
        """Return what a job has written."""
        return (self.services / f"otela-{SERVICE}-{job}.out").read_text(errors="replace")

    def told(self, job: int, event: str) -> list[dict[str, Any]]:
        """Return the lines of one log event in a job's output."""
        lines = (line for line in self.output(job).splitlines() if line.startswith("{"))
        found = (json.loads(line) for line in lines)
        return [line for line in found if line.get("event") == event]

    def _given(self, leaf: Leaf) -> Path:
        """Return the provider's access file as its user holds it."""
        path = self.services / "access.toml"
        shutil.copy(leaf.access, path)
        path.chmod(0o600)
        shutil.chown(path, USER)
        return path
