"""What befalls registries all at once, while nodes come and go: nobody is lost, nobody rises."""

import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.e2e import nodes
from tests.e2e.lines import Lines
from tests.e2e.processes import Process, wait_until
from tests.e2e.product import NOTHING_TO_LEARN, Leaf, Product, Service
from tests.e2e.sightings import Sightings

pytestmark = [pytest.mark.nats, pytest.mark.slow]

VIEWS = ("view-1", "view-2")
NAMES = ("first", "second", "third")
STAY = 4
COME_AND_GO = 3
CHURN_EVERY_S = 0.4
REPLACED_MEANWHILE = 4
WITHIN_S = 60.0
GRACE_S = 3.0
_STATE, _INODE, _CLOSE_WAIT = 3, 9, "08"
"""Columns of the kernel's table of connections, and who waits for its own side to close."""
QUICK = (f"detector.grace_s={GRACE_S}", "peers.memory_s=10", NOTHING_TO_LEARN)
AS_SHIPPED = (NOTHING_TO_LEARN,)


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    """A mesh on loopback with a hub."""
    with Product(tmp_path, tls=False) as made:
        made.start_hub()
        yield made


def has_been_left(process: Process) -> bool:
    """Return whether the other end has closed a connection of *process*, which did not notice."""
    sockets = {
        target.removeprefix("socket:[").removesuffix("]")
        for link in Path(f"/proc/{process.pid}/fd").iterdir()
        if (target := str(link.readlink())).startswith("socket:[")
    }
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(row[_STATE] == _CLOSE_WAIT and row[_INODE] in sockets for row in rows)


class Scene:
    """Registries, views that watch, and nodes of which some come and go."""

    def __init__(
        self, product: Product, names: Sequence[str], folder: Path, settings: Sequence[str]
    ) -> None:
        self.product = product
        self.registries = [
            product.start_registry(
                name,
                *settings,
                f"retention.state_file={folder / name}.state",
                "retention.state_every_s=0.3",
            )
            for name in names
        ]
        self.seen = self._watch()
        self._leaf: Leaf = product.start_leaf("site-a")
        self._start_nodes("stay", STAY)
        self.staying = self._routable(STAY)
        self.moving = self._start_nodes("move", COME_AND_GO, "--churn-every", str(CHURN_EVERY_S))
        self._routable(STAY + COME_AND_GO)

    def _watch(self) -> Sightings:
        accesses = [str(self.product.admit("router", view)) for view in VIEWS]
        argv = [sys.executable, "-m", "tests.e2e.watcher", *accesses]
        watcher = Lines(self.product.started("watcher", self.product.public, argv).process)
        watcher.wait_for("watching", within_s=WITHIN_S)
        return Sightings((watcher,), VIEWS)

    def _start_nodes(self, name: str, count: int, *options: str) -> Process:
        argv = [sys.executable, "-m", "tests.e2e.nodes", "--name", name, "--count", str(count)]
        argv += [*options, str(self._leaf.access)]
        return self.product.started(name, self._leaf.place, argv).process

    def _routable(self, count: int) -> set[str]:
        wait_until(
            lambda: len(self.seen.routable()) == count,
            f"{count} nodes in every view",
            within_s=WITHIN_S,
            detail=self.product.tails,
        )
        return set(self.seen.routable())

    def churn_on(self) -> None:
        """Return when so many nodes more have left and come back."""
        lines = Lines(self.moving)
        before = len(list(lines.all("replaced")))
        wait_until(
            lambda: len(list(lines.all("replaced"))) >= before + REPLACED_MEANWHILE,
            "nodes to come and go",
            within_s=WITHIN_S,
            detail=self.moving.tail,
        )

    def verify(self, registries: Sequence[Service]) -> None:
        """Check that all come to see exactly those that stay, and that these never left."""
        wait_until(
            lambda: set(self.seen.routable()) == self.staying,
            "those that stay, and nobody else, in every view",
            within_s=WITHIN_S,
            detail=self.product.tails,
        )
        wait_until(
            lambda: all(one.status()["sessions"] == STAY for one in registries),
            "those that stay at every registry",
            within_s=WITHIN_S,
            detail=self.product.tails,
        )
        assert self.seen.risen() == []
        for service in self.product.services:
            for event in ("session_left", "session_went_down"):
                assert not {line["session"] for line in service.events(event)} & self.staying


def test_all_registries_are_killed_and_come_back_in_any_order(
    product: Product, tmp_path: Path
) -> None:
    """Nodes come and go meanwhile, and some die with nobody there to notice."""
    scene = Scene(product, NAMES, tmp_path, QUICK)
    scene.moving.send(nodes.BEGIN)
    scene.churn_on()
    for registry in scene.registries:
        registry.process.send(signal.SIGKILL)
    scene.churn_on()
    scene.moving.send(signal.SIGKILL)
    again = []
    for registry in random.sample(scene.registries, k=len(NAMES)):
        registry.process.wait(WITHIN_S)
        again.append(product.launch_again(registry))
    scene.verify(again)


@pytest.mark.skipif("OTELA_TEST_REGISTRY" not in os.environ, reason="make registry-incidents")
@pytest.mark.parametrize(
    ("names", "settings", "still_s"),
    [(NAMES[:2], QUICK, 8.0), (NAMES[:1], AS_SHIPPED, 60.0), (NAMES[:2], AS_SHIPPED, 60.0)],
)
def test_registries_that_stood_still_together_end_nobody(
    product: Product,
    tmp_path: Path,
    names: Sequence[str],
    settings: Sequence[str],
    still_s: float,
) -> None:
    """For longer than lease and grace, so that the hub took them for gone; then they look first."""
    scene = Scene(product, names, tmp_path, settings)
    for registry in scene.registries:
        registry.process.send(signal.SIGSTOP)
    try:
        scene.moving.send(signal.SIGKILL)
        end_at = time.monotonic() + still_s
        wait_until(
            lambda: (
                time.monotonic() > end_at
                and all(has_been_left(one.process) for one in scene.registries)
            ),
            "the hub to take the registries for gone",
            within_s=still_s + WITHIN_S,
            detail=product.tails,
        )
    finally:
        for registry in scene.registries:
            registry.process.send(signal.SIGCONT)
    scene.verify(scene.registries)
