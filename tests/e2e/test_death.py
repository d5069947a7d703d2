"""Real deaths: a node by SIGKILL, a site's server by SIGKILL; what every view makes of them."""

import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from tests.e2e.lines import Lines
from tests.e2e.netns import Cut, Lab
from tests.e2e.processes import wait_until
from tests.e2e.product import NOTHING_TO_LEARN, Leaf, Namespace, Product, Service, wait_for_models
from tests.e2e.scenes import MODEL, Engine, Load, author, fake_engine, kill_node, verify
from tests.e2e.sightings import Sightings

from opentela.testing.waiting import TRIES

pytestmark = [pytest.mark.nats, pytest.mark.slow]

VIEWS = ("view-1", "view-2", "view-3")
GRACE_S = 2.0
WITHIN_S = 60.0
"""Generous: how long it takes is measured by `make bench-registry`."""
UP_WITHIN_S = 60.0
FEW = 8
LONGEST_S = 15.0
NODES = 3
BEFORE_PINGS_S = 4.0
"""A server gives a silent link up no sooner, after two pings: until then silence tells."""


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    """A mesh on loopback with a hub."""
    with Product(tmp_path) as made:
        made.start_hub()
        yield made


def start_registries(product: Product, *settings: str) -> list[Service]:
    """Start two: neither decides alone."""
    return [
        product.start_registry(name, NOTHING_TO_LEARN, *settings)
        for name in ("registry-1", "registry-2")
    ]


def first_at(registries: list[Service], event: str, session: str) -> float:
    """Return when the first of them told *event* of a session, by the clock of this machine."""
    return min(
        datetime.fromisoformat(line["timestamp"]).timestamp()
        for registry in registries
        for line in registry.events(event)
        if line["session"] == session
    )


def watch(product: Product) -> Sightings:
    """Start views at the hub, with what a router is let in with."""
    accesses = [str(product.admit("router", view)) for view in VIEWS]
    argv = [sys.executable, "-m", "tests.e2e.watcher", *accesses]
    watcher = Lines(product.started("watcher", product.public, argv).process)
    watcher.wait_for("watching", within_s=UP_WITHIN_S)
    return Sightings((watcher,), VIEWS)


def start_nodes(product: Product, leaf: Leaf, seen: Sightings) -> list[str]:
    """Start nodes behind *leaf*, and return their sessions once every view routes to them."""
    argv = [sys.executable, "-m", "tests.e2e.nodes", "--count", str(NODES), str(leaf.access)]
    product.started("nodes", leaf.place, argv)
    wait_until(
        lambda: len(seen.routable()) == NODES,
        "the nodes in every view",
        within_s=UP_WITHIN_S,
        detail=product.tails,
    )
    return list(seen.routable())


def test_a_killed_node_leaves_every_view_and_is_given_up_after_the_grace(product: Product) -> None:
    """Nobody routes to it any more, it is `LEFT` only after the grace, and for ever."""
    registries = start_registries(product, f"detector.grace_s={GRACE_S}")
    router = product.start_router()
    seen = watch(product)
    leaf = product.start_leaf("site-a")
    alpha = Engine(product.start_engine("alpha", leaf, fake_engine("alpha")))
    product.start_engine("beta", leaf, fake_engine("beta"))
    wait_for_models(router, MODEL, sessions=2)
    session = alpha.session
    kill_node(alpha)
    wait_until(
        lambda: len(seen.left_at(session)) == len(VIEWS),
        "the end of the killed node in every view",
        within_s=WITHIN_S,
        detail=product.tails,
    )
    suspected_at = first_at(registries, "suspicion_raised", session)
    # It counts from its own suspicion, which another one had to share before it was told.
    assert first_at(registries, "session_left", session) - suspected_at > GRACE_S / 2
    exchanges = Load(product, router, count=FEW).complete()
    verify(exchanges, longest_s=LONGEST_S)
    assert {author(one) for one in exchanges} == {"beta"}
    assert seen.risen() == []


def test_sessions_behind_a_killed_leaf_leave_every_view_and_come_back(product: Product) -> None:
    """They are suspected, not ended; when the leaf is back, each refutes under its own id."""
    start_registries(product)
    seen = watch(product)
    leaf = product.start_leaf("site-a")
    sessions = start_nodes(product, leaf, seen)
    before = seen.latest()
    leaf.process.kill()
    wait_until(
        lambda: all(len(seen.suspected_at(one)) == len(VIEWS) for one in sessions),
        "the absence of the sessions from every view",
        within_s=WITHIN_S,
        detail=product.tails,
    )
    product.restart_leaf(leaf)
    wait_until(
        lambda: set(seen.routable()) == set(sessions),
        "the sessions in every view",
        within_s=WITHIN_S,
        detail=product.tails,
    )
    for session in sessions:
        for view, now in seen.latest()[session].items():
            assert now["incarnation"] > before[session][view]["incarnation"], now
        assert seen.left_at(session) == {}
    assert seen.risen() == []


@pytest.mark.netns
def test_sessions_behind_a_half_open_link_leave_every_view_before_pings_find_it(
    tmp_path: Path,
) -> None:
    """With default settings: packets vanish, nothing is reset, and healed they are used again."""
    with Lab(("n1",)) as lab, Product(tmp_path, public=Namespace(lab, "hub")) as product:
        product.start_hub()
        start_registries(product)
        seen = watch(product)
        leaf = product.start_leaf("site-a", Namespace(lab, "n1"))
        sessions = start_nodes(product, leaf, seen)
        took_s: list[float] = []
        while not took_s or (min(took_s) >= BEFORE_PINGS_S and len(took_s) < TRIES):
            cut_at = time.monotonic()
            lab.partition("n1", Cut.BOTH)
            wait_until(
                lambda since=cut_at: all(  # type: ignore[misc]
                    len(seen.out_at(one, since)) == len(VIEWS) for one in sessions
                ),
                "the absence of the sessions from every view",
                within_s=WITHIN_S,
                detail=product.tails,
            )
            outs = [at - cut_at for one in sessions for at in seen.out_at(one, cut_at).values()]
            took_s.append(max(outs))
            lab.heal("n1")
            wait_until(
                lambda: set(seen.routable()) == set(sessions),
                "the sessions in every view",
                within_s=WITHIN_S,
                detail=product.tails,
            )
        assert min(took_s) < BEFORE_PINGS_S, took_s
        assert all(seen.left_at(one) == {} for one in sessions)
        assert seen.risen() == []
