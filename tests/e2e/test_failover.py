"""Engines and supervisors die or freeze under load: clients are told the truth, mostly good."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.e2e.history import Exchange
from tests.e2e.product import NOTHING_TO_LEARN, Product, Service, wait_for_models
from tests.e2e.scenes import (
    MODEL,
    Engine,
    Load,
    author,
    fake_engine,
    freeze_engine,
    freeze_node,
    kill_engine,
    kill_node,
    llama_engine,
    verify,
)

pytestmark = [pytest.mark.nats, pytest.mark.slow, pytest.mark.timeout(240)]

REQUESTS = 200
FEWER_REQUESTS = 80
"""Where the survivor is a real engine, which computes."""
HOME = "home.address=127.0.0.1:0"
"""Has the router invite the sessions to a connection of their own."""
LONGEST_S = 30.0
"""A frozen engine is found after some 6 s; then the request is asked elsewhere."""


class Scene:
    """A mesh of two sites and three engines."""

    def __init__(self, product: Product, router: Service, engines: Sequence[Engine]) -> None:
        self.product = product
        self.router = router
        self.engines = engines


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    """A mesh on loopback, with a hub and a registry."""
    with Product(tmp_path) as made:
        made.start_hub()
        made.start_registry("registry", NOTHING_TO_LEARN)
        yield made


def stage(product: Product, commands: dict[str, list[str]], *settings: str) -> Scene:
    """Start a router and the engines, the first two at one site and the others at another."""
    router = product.start_router("router", *settings)
    leaves = [product.start_leaf("site-a"), product.start_leaf("site-b")]
    engines = [
        Engine(product.start_engine(name, leaves[index // 2], command))
        for index, (name, command) in enumerate(commands.items())
    ]
    wait_for_models(router, MODEL, sessions=len(engines))
    return Scene(product, router, engines)


def run(
    scene: Scene,
    first: Callable[[Engine], None],
    second: Callable[[Engine], None],
    *,
    count: int = REQUESTS,
) -> list[Exchange]:
    """Return the history of a load under which the first two engines meet their faults."""
    load = Load(scene.product, scene.router, count=count)
    load.wait_for_count(count // 5)
    first(scene.engines[0])
    load.wait_for_count(count * 2 // 5)
    second(scene.engines[1])
    return load.complete()


@pytest.mark.parametrize(
    ("first", "second", "settings"),
    [
        (kill_engine, freeze_engine, ()),
        (kill_node, freeze_node, ()),
        (kill_engine, freeze_engine, (HOME,)),
        (kill_node, freeze_node, (HOME,)),
    ],
    ids=["engines", "nodes", "engines-at-home", "nodes-at-home"],
)
def test_no_request_fails_while_one_of_three_dies_and_another_freezes(
    product: Product,
    first: Callable[[Engine], None],
    second: Callable[[Engine], None],
    settings: Sequence[str],
) -> None:
    """Unary requests all succeed; a stream that had begun ends well or with an error event."""
    commands = {name: fake_engine(name) for name in ("alpha", "beta", "gamma")}
    scene = stage(product, commands, *settings)
    exchanges = run(scene, first, second)
    assert len(exchanges) == REQUESTS
    verify(exchanges, longest_s=LONGEST_S)
    assert {"alpha", "beta", "gamma"} <= {author(one) for one in exchanges}
    called = [
        event for engine in scene.engines for event in engine.service.events("channel_opened")
    ]
    assert bool(called) == bool(settings)
    # The faults did hit running requests, or this would have shown nothing.
    assert any(one.attempts > 1 or one.error for one in exchanges)


@pytest.mark.engine
def test_a_real_engine_takes_over_from_scripted_ones(product: Product) -> None:
    """Nothing of this depends on how the engine speaks: llama.cpp is the one that survives."""
    scene = stage(
        product,
        {"alpha": fake_engine("alpha"), "beta": fake_engine("beta"), "llama": llama_engine()},
    )
    exchanges = run(scene, kill_engine, freeze_engine, count=FEWER_REQUESTS)
    verify(exchanges, longest_s=LONGEST_S)
    assert any(one.text and author(one) not in ("alpha", "beta") for one in exchanges)
