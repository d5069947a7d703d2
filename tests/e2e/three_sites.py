"""Three sites and a hub, each with a registry and a view; the first site can be cut off.

Some nodes are there all the time, some die, some leave in order, and some are born while the site
is cut off, on both sides of the cut.
"""

import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from tests.e2e.lines import Lines
from tests.e2e.netns import Lab
from tests.e2e.processes import Process, wait_until
from tests.e2e.product import Leaf, Namespace, Product, Service
from tests.e2e.sightings import Sightings

SITES: Final = ("n1", "n2", "n3")
CUT_OFF: Final = SITES[0]
ELSEWHERE: Final = SITES[1]
UP_WITHIN_S: Final = 60.0
LEFT: Final = "LEFT"


class ThreeSites:
    """The mesh and what its views see.

    Args:
        size: Nodes of each fate on each side of the cut.
        settings: Of every registry.

    Attributes:
        leaves: By site.
        routers: The one at the hub, and the one at the site that is cut off.
        sightings: Of the views, one at the hub and one at each site.
    """

    def __init__(self, lab: Lab, product: Product, *settings: str, size: int) -> None:
        self._lab = lab
        self._product = product
        self._size = size
        self._crowds: dict[tuple[str, str], Process] = {}
        product.start_hub()
        product.start_registry("registry-hub", "peers.learn_s=0.5", *settings)
        self.leaves = {site: self._start_site(site, settings) for site in SITES}
        self.routers = {
            "hub": product.start_router("router-hub"),
            CUT_OFF: product.start_router(f"router-{CUT_OFF}", at=self.leaves[CUT_OFF]),
        }
        self._watchers = {f"view-{place}": self._watch(place) for place in ("hub", *SITES)}
        self.sightings = Sightings(tuple(self._watchers.values()), tuple(self._watchers))
        for side in (CUT_OFF, ELSEWHERE):
            for fate in ("stays", "dies", "leaves"):
                self.start_nodes(side, fate)

    # What befalls it

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Cut the first site off while the block lasts."""
        self._lab.partition(CUT_OFF)
        try:
            yield
        finally:
            self._lab.heal(CUT_OFF)

    def start_nodes(self, side: str, fate: str) -> None:
        """Start nodes at a site; they are not waited for."""
        leaf = self.leaves[side]
        argv = [sys.executable, "-m", "tests.e2e.nodes", "--count", str(self._size)]
        argv += ["--name", f"{side}-{fate}", str(leaf.access)]
        crowd = self._product.started(f"{side}-{fate}", leaf.place, argv)
        self._crowds[side, fate] = crowd.process

    def change_everything(self) -> None:
        """On both sides, let some die, some leave, and some be born."""
        for side in (CUT_OFF, ELSEWHERE):
            self._crowds[side, "dies"].kill()
            self._crowds[side, "leaves"].send(signal.SIGTERM)
            self.start_nodes(side, "born")

    # What is seen

    @property
    def views(self) -> tuple[str, ...]:
        """The names of all views."""
        return tuple(self._watchers)

    def fates(self) -> dict[str, list[str]]:
        """Return every session that any view ever saw, by the fate of its node."""
        found: dict[str, dict[str, None]] = {}
        for one in self.sightings.changes():
            fate = one["node"].split("-")[1]
            found.setdefault(fate, {})[one["session"]] = None
        return {fate: list(sessions) for fate, sessions in found.items()}

    def wait_for(self, fates: tuple[str, ...], view: str = "", *, side: str = "") -> None:
        """Return once every view, or one, routes to the nodes of *fates*, on one side or both."""
        sides = (side,) if side else (CUT_OFF, ELSEWHERE)
        wanted = {f"{one}-{fate}" for one in sides for fate in fates}

        def are_routed() -> bool:
            nodes = self.sightings.routable(view).values()
            counts = {name: sum(node.startswith(f"{name}-") for node in nodes) for name in wanted}
            return all(count == self._size for count in counts.values())

        wait_until(
            are_routed,
            f"{wanted} in {view or 'every view'}",
            within_s=UP_WITHIN_S,
            detail=self._product.tails,
        )

    def wait_until_out(self, view: str, *, side: str) -> None:
        """Return once a view routes to nobody at a site."""
        wait_until(
            lambda: (
                not any(
                    node.startswith(f"{side}-") for node in self.sightings.routable(view).values()
                )
            ),
            f"no route of {view} to {side}",
            within_s=UP_WITHIN_S,
            detail=self._product.tails,
        )

    def maps(self) -> Mapping[str, dict[str, Any]]:
        """Return the whole map of each view, as it is now."""
        since = time.monotonic()
        for watcher in self._watchers.values():
            watcher.process.send(signal.SIGUSR1)
        return {
            name: watcher.wait_for("held", within_s=UP_WITHIN_S, since=since)[-1]
            for name, watcher in self._watchers.items()
        }

    # Making

    def _start_site(self, site: str, settings: tuple[str, ...]) -> Leaf:
        registry = f"registry-{site}"
        members = [("registry", registry), ("router", f"router-{site}"), ("router", f"view-{site}")]
        leaf = self._product.start_leaf(f"site-{site}", Namespace(self._lab, site), members=members)
        self._product.start_registry(registry, *settings, at=leaf)
        return leaf

    def _watch(self, place: str) -> Lines:
        leaf = self.leaves.get(place)
        access = self._product.admit("router", f"view-{place}", leaf)
        argv = [sys.executable, "-m", "tests.e2e.watcher", str(access)]
        where = leaf.place if leaf else self._product.public
        watcher: Service = self._product.started(f"watcher-{place}", where, argv)
        lines = Lines(watcher.process)
        lines.wait_for("watching", within_s=UP_WITHIN_S)
        return lines
