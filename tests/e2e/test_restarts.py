"""Each part of the mesh ends and comes back; requests flow while it can be, and again after it."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.processes import wait_until
from tests.e2e.product import NOTHING_TO_LEARN, Product, wait_for_models
from tests.e2e.scenes import MODEL, Engine, Load, author, fake_engine, kill_engine, verify

pytestmark = pytest.mark.nats

FEW = 12
"""Requests that show that they flow."""
AGAIN_WITHIN_S = 40.0
LONGEST_S = 15.0


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    """A mesh on loopback with a hub."""
    with Product(tmp_path) as made:
        made.start_hub()
        yield made


def assert_requests_flow(load: Load) -> None:
    """Check that everything that a client asks now is answered."""
    exchanges = load.complete()
    verify(exchanges, longest_s=LONGEST_S)
    assert all(one.claims_success for one in exchanges), [one.describe() for one in exchanges]


def test_a_leaf_between_hub_and_leaf_restarts_and_requests_flow_again(product: Product) -> None:
    """Interest from behind the restarted server is restored end to end."""
    product.start_registry("registry", NOTHING_TO_LEARN)
    router = product.start_router()
    middle = product.start_leaf("site-a", behind=("site-b",))
    far = product.start_leaf("site-b", through=middle)
    engine = Engine(product.start_engine("alpha", far, fake_engine("alpha")))
    wait_for_models(router, MODEL)
    assert_requests_flow(Load(product, router, count=FEW))
    session = engine.session
    middle.process.kill()
    product.restart_leaf(middle)
    load = Load(product, router)
    load.wait_for(
        lambda known: sum(one.claims_success for one in known) >= FEW,
        "requests through the restarted leaf",
        within_s=AGAIN_WITHIN_S,
    )
    load.finish()
    assert_requests_flow(Load(product, router, count=FEW))
    assert engine.session == session


def test_requests_flow_without_a_registry_and_through_a_router_that_restarts(
    product: Product,
) -> None:
    """A router serves from what it holds; a new one asks a registry that came back."""
    registry = product.start_registry()
    router = product.start_router()
    leaf = product.start_leaf("site-a")
    product.start_engine("alpha", leaf, fake_engine("alpha"))
    wait_for_models(router, MODEL)
    registry.process.kill()
    assert_requests_flow(Load(product, router, count=FEW))
    product.launch_again(registry).wait_for("readiness_changed", ready=True)
    router.process.end()
    assert router.process.returncode == 0
    again = product.start_router()
    wait_for_models(again, MODEL)
    assert_requests_flow(Load(product, again, count=FEW))


def test_a_withdrawn_session_comes_back_as_a_new_one(product: Product) -> None:
    """A supervisor that was stopped and started again is routed again, under another id."""
    registry = product.start_registry("registry", NOTHING_TO_LEARN)
    router = product.start_router()
    leaf = product.start_leaf("site-a")
    engine = Engine(product.start_engine("alpha", leaf, fake_engine("alpha")))
    wait_for_models(router, MODEL)
    session = engine.session
    engine.service.process.end()
    registry.wait_for("session_left", session=session)
    wait_until(
        lambda: not router.place.fetch(f"{router.url}/v1/models")["data"],
        "the model's absence",
        within_s=AGAIN_WITHIN_S,
    )
    again = Engine(product.start_engine("beta", leaf, fake_engine("beta")))
    wait_for_models(router, MODEL)
    assert again.session != session
    exchanges = Load(product, router, count=FEW).complete()
    assert {author(one) for one in exchanges} == {"beta"}


def test_requests_wait_for_the_only_engine_that_is_started_again(product: Product) -> None:
    """From its end until it serves again, although its command names no model."""
    product.start_registry("registry", NOTHING_TO_LEARN)
    router = product.start_router()
    leaf = product.start_leaf("site-a")
    script = f"exec {shlex.join(fake_engine('alpha'))}"
    engine = Engine(product.start_engine("alpha", leaf, ["sh", "-c", script]))
    wait_for_models(router, MODEL)
    session = engine.session
    kill_engine(engine)
    engine.service.wait_for("engine_ended", launch=0)
    exchanges = Load(product, router, count=FEW).complete()
    assert [one.status for one in exchanges] == [200] * FEW
    assert engine.session != session
