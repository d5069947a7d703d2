"""How long after a real death nobody is sent there any more, and how long until it has `LEFT`.

What dies: a node (supervisor and engine, SIGKILL), a leaf server (SIGKILL), a leaf's link to the
hub (packets vanish in a network namespace, nothing is reset). Who watches: views with a router's
credentials, at the hub, fed by two real registries. A session is out when a view holds it for
suspected or ended.
"""

import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from tests.bench.load import percentile
from tests.bench.report import Figure
from tests.e2e.lines import Lines
from tests.e2e.netns import Cut, Lab
from tests.e2e.processes import Process, wait_until
from tests.e2e.product import Leaf, Namespace, Product
from tests.e2e.scenes import fake_engine
from tests.e2e.sightings import Sightings

VIEWS: Final = 8
REGISTRIES: Final = 2
NODES: Final = 10
"""Real supervisors with engines at a time; they die one after the other."""
BATCHES: Final = 4
CROWD: Final = 5
"""Sessions behind the leaf that is lost."""
LOSSES: Final = 15
PAUSE_S: Final = (0.2, 1.2)
"""Between two deaths: uniform, so that they fall anywhere between two heartbeats."""
GRACE_S: Final = 3.0
UP_WITHIN_S: Final = 90.0
OUT_WITHIN_S: Final = 30.0
BACK_WITHIN_S: Final = 60.0
TARGET_S: Final = 2.0
WORST: Final = 99
SHORT_GRACE: Final = (f"detector.grace_s={GRACE_S:g}", "restraint.evictions_min=1000")
"""So that the end of ten nodes is seen within the measurement."""


class Measure(Protocol):
    """Measures one kind of death, and names it."""

    def __call__(self, *, quick: bool) -> tuple[str, "Deaths"]:
        """Return its name and what it came to."""


class Deaths(NamedTuple):
    """Seconds from deaths to what views made of them.

    Attributes:
        out_s: Of each death and view.
        out_everywhere_s: Of each death, of the last view.
        left_s: Of each death and view; none where nobody is given up.
        back_s: Of each loss that was mended, until every view routes there again.
    """

    out_s: list[float]
    out_everywhere_s: list[float]
    left_s: list[float]
    back_s: list[float]


def run(kind: str, *, quick: bool) -> list[Figure]:
    """Measure one kind of death."""
    name, deaths = KINDS[kind](quick=quick)
    count = len(deaths.out_everywhere_s)
    figures = [
        Figure(f"out of a view, p50, {name}", percentile(deaths.out_s, 50), "s"),
        Figure.below(
            f"out of a view, p{WORST}, {name}", percentile(deaths.out_s, WORST), "s", TARGET_S
        ),
        Figure(
            f"out of every view, the worst of {count}, {name}", max(deaths.out_everywhere_s), "s"
        ),
    ]
    for what, values in (("LEFT", deaths.left_s), ("routed again after mending", deaths.back_s)):
        if values:
            figures.append(Figure(f"{what}, p50, {name}", percentile(values, 50), "s"))
            figures.append(Figure(f"{what}, the worst, {name}", max(values), "s"))
    return figures


class Scene:
    """A mesh with two registries and views that tell what they see."""

    def __init__(self, product: Product, *settings: str) -> None:
        self.product = product
        product.start_hub()
        for number in range(REGISTRIES):
            product.start_registry(f"registry-{number}", "peers.learn_s=0.5", *settings)
        views = [f"view-{number}" for number in range(VIEWS)]
        accesses = [str(product.admit("router", view)) for view in views]
        argv = [sys.executable, "-m", "tests.e2e.watcher", *accesses]
        watcher = Lines(product.started("watcher", product.public, argv).process)
        watcher.wait_for("watching", within_s=UP_WITHIN_S)
        self.seen = Sightings((watcher,), views)

    def crowd(self, leaf: Leaf) -> Process:
        """Start nodes behind *leaf*; wait until every view routes to them."""
        argv = [sys.executable, "-m", "tests.e2e.nodes"]
        argv += ["--count", str(CROWD), str(leaf.access)]
        crowd = self.product.started("crowd", leaf.place, argv)
        self.wait_routable(CROWD)
        return crowd.process

    def wait_routable(self, count: int) -> float:
        """Return the seconds until every view routes to so many sessions."""
        return wait_until(
            lambda: len(self.seen.routable()) >= count,
            f"{count} sessions in every view",
            within_s=UP_WITHIN_S,
            detail=self.product.tails,
        )

    def outs(self, sessions: Sequence[str], since: float) -> list[list[float]]:
        """Return, for each session, the seconds after *since* at which each view left it."""
        wait_until(
            lambda: all(len(self.seen.out_at(one, since)) == VIEWS for one in sessions),
            "the sessions' absence from every view",
            within_s=OUT_WITHIN_S,
            detail=self.product.tails,
        )
        return [[at - since for at in self.seen.out_at(one, since).values()] for one in sessions]


def _nodes(*, quick: bool) -> tuple[str, Deaths]:
    deaths = Deaths([], [], [], [])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        product = stack.enter_context(Product(folder))
        scene = Scene(product, *SHORT_GRACE)
        leaf = product.start_leaf("site-a")
        for batch in range(1 if quick else BATCHES):
            names = [f"node-{batch}-{number}" for number in range(2 if quick else NODES)]
            services = {name: product.start_engine(name, leaf, fake_engine("x")) for name in names}
            scene.wait_routable(len(names))
            sessions = {node: session for session, node in scene.seen.routable().items()}
            killed: dict[str, float] = {}
            for name, service in services.items():
                time.sleep(_pause())
                killed[sessions[name]] = time.monotonic()
                service.process.send_tree(signal.SIGKILL)
            for session, at in killed.items():
                _add(deaths, scene.outs([session], at))
                deaths.left_s.extend(_left(scene, session, at))
    return "node killed", deaths


def _left(scene: Scene, session: str, since: float) -> Iterator[float]:
    wait_until(
        lambda: len(scene.seen.left_at(session)) == VIEWS,
        f"{session}'s end in every view",
        within_s=OUT_WITHIN_S,
        detail=scene.product.tails,
    )
    for at in scene.seen.left_at(session).values():
        yield at - since


def _leaves(*, quick: bool) -> tuple[str, Deaths]:
    deaths = Deaths([], [], [], [])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        product = stack.enter_context(Product(folder))
        scene = Scene(product)
        leaf = product.start_leaf("site-a")
        scene.crowd(leaf)
        _lose(
            scene,
            deaths,
            count=2 if quick else LOSSES,
            harm=lambda: leaf.process.kill(),  # noqa: PLW0108 - another one each time
            mend=lambda: product.restart_leaf(leaf),
        )
    return "leaf server killed", deaths


def _half_open(*, quick: bool) -> tuple[str, Deaths]:
    deaths = Deaths([], [], [], [])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        lab = stack.enter_context(Lab(("n1",)))
        product = stack.enter_context(Product(folder, public=Namespace(lab, "hub")))
        scene = Scene(product)
        leaf = product.start_leaf("site-a", Namespace(lab, "n1"))
        scene.crowd(leaf)
        _lose(
            scene,
            deaths,
            count=2 if quick else LOSSES,
            harm=lambda: lab.partition("n1", Cut.BOTH),
            mend=lambda: lab.heal("n1"),
        )
    return "leaf link half-open", deaths


def _lose(
    scene: Scene,
    deaths: Deaths,
    *,
    count: int,
    harm: Callable[[], None],
    mend: Callable[[], None],
) -> None:
    """Lose and mend the leaf again and again."""
    for _ in range(count):
        time.sleep(_pause())
        sessions = list(scene.seen.routable())
        at = time.monotonic()
        harm()
        _add(deaths, scene.outs(sessions, at))
        mended_at = time.monotonic()
        mend()
        deaths.back_s.append(scene.wait_routable(CROWD) + time.monotonic() - mended_at)


def _add(deaths: Deaths, outs: Sequence[Sequence[float]]) -> None:
    for views in outs:
        deaths.out_s.extend(views)
        deaths.out_everywhere_s.append(max(views))


def _pause() -> float:
    return random.uniform(*PAUSE_S)


KINDS: Final[dict[str, Measure]] = {
    "node": _nodes,
    "leaf": _leaves,
    "half-open": _half_open,
}
