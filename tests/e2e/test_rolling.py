"""Registries are restarted one after the other, under load: nobody but their operator notices."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.processes import wait_until
from tests.e2e.product import NOTHING_TO_LEARN, Product, Service, wait_for_models
from tests.e2e.scenes import MODEL, Engine, Load, fake_engine, verify

from opentela.core.record import Lifecycle, claim_of, lifecycle_of
from opentela.registry import state

pytestmark = pytest.mark.nats

REGISTRIES = ("first", "second", "third")
LONGEST_S = 15.0
READY_WITHIN_S = 40.0
PATIENT = ("detector.late_beats=3", "detector.lease_beats=5")
"""On shared cores a session may stand still for two seconds: that is not what is looked for."""


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    """A mesh on loopback with a hub."""
    with Product(tmp_path) as made:
        made.start_hub()
        yield made


def is_well(registry: Service, *, peers: int, sessions: int) -> bool:
    """Return whether a registry knows as much."""
    status = registry.status()
    known = len(status["peers"]), status["sessions"], status["phase"]
    return known == (peers, sessions, "knowing") and not status["peers_away"]


def wait_until_well(registry: Service, *, peers: int, sessions: int) -> None:
    """Return once a registry knows as much."""
    wait_until(
        lambda: is_well(registry, peers=peers, sessions=sessions),
        f"{registry.process.name} with {peers} peers and {sessions} sessions",
        within_s=READY_WITHIN_S,
        detail=registry.process.tail,
    )


def listed(product: Product, tool: Path) -> set[str]:
    """Return the sessions that a view sees which begins now."""
    rows = json.loads(product.otela("sessions", "--json", "--access", str(tool)))
    return {row["session"] for row in rows if row["routable"]}


def has_left(session: str, *, file: Path) -> bool:
    """Return whether the file of a registry says that a session has left."""
    kept = state.read(file)
    return kept is not None and any(
        claim_of(record).session == session and lifecycle_of(record) is Lifecycle.LEFT
        for record in kept.records
    )


def test_registries_restart_one_by_one_and_nobody_notices(product: Product) -> None:
    """Requests are answered, whoever begins to look sees all, and nobody is suspected."""
    registries = {
        name: product.start_registry(
            name, *PATIENT, *([NOTHING_TO_LEARN] if name == "first" else [])
        )
        for name in REGISTRIES
    }
    router = product.start_router()
    tool = product.admit("tool", "looker")
    leaf = product.start_leaf("site-a")
    engines = [
        Engine(product.start_engine(name, leaf, fake_engine(name))) for name in ("alpha", "beta")
    ]
    wait_for_models(router, MODEL, sessions=2)
    sessions = {engine.session for engine in engines}
    every = list(registries.values())
    load = Load(product, router)
    for name in REGISTRIES:
        for registry in registries.values():
            wait_until_well(registry, peers=2, sessions=2)
        registries[name].process.end()
        assert registries[name].process.returncode == 0
        for other in REGISTRIES:
            if other != name:
                wait_until_well(registries[other], peers=1, sessions=2)
        assert listed(product, tool) == sessions
        registries[name] = product.launch_again(registries[name])
        every.append(registries[name])
        registries[name].wait_for("readiness_changed", ready=True)
        assert listed(product, tool) == sessions
    exchanges = load.finish()
    verify(exchanges, longest_s=LONGEST_S)
    assert exchanges
    assert all(one.claims_success for one in exchanges), [one.describe() for one in exchanges]
    for registry in every:
        for verdict in ("suspicion_raised", "session_left", "session_went_down"):
            assert list(registry.events(verdict)) == []
    assert {engine.session for engine in engines} == sessions


def test_a_registry_alone_comes_back_from_its_file(product: Product, tmp_path: Path) -> None:
    """It was killed, and answers at once with what it knew, the dead included."""
    kept = (
        f"retention.state_file={tmp_path / 'registry.state'}",
        "retention.state_every_s=0.2",
        # Without the file it would listen for so long before it answers anybody.
        "peers.learn_s=3600",
    )
    registry = product.start_registry("first", NOTHING_TO_LEARN, *kept[:2])
    router = product.start_router()
    leaf = product.start_leaf("site-a")
    stays = Engine(product.start_engine("alpha", leaf, fake_engine("alpha")))
    leaves = Engine(product.start_engine("beta", leaf, fake_engine("beta")))
    wait_for_models(router, MODEL, sessions=2)
    gone = leaves.session
    leaves.service.process.end()
    registry.wait_for("session_left", session=gone)
    wait_until(
        lambda: has_left(gone, file=tmp_path / "registry.state"),
        "the tombstone in the file",
        within_s=READY_WITHIN_S,
    )
    registry.process.send(signal.SIGKILL)
    registry.process.wait(READY_WITHIN_S)
    again = product.start_registry("second", *kept)
    again.wait_for("readiness_changed", ready=True)
    status = again.status()
    assert (status["sessions"], status["tombstones"]) == (1, 1)
    tool = product.admit("tool", "looker")
    assert listed(product, tool) == {stays.session}
    assert list(again.events("suspicion_raised")) == []
