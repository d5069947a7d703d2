"""A client that goes away stops the engine, wherever its request is at that moment."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.processes import wait_until
from tests.e2e.product import NOTHING_TO_LEARN, Product, Service, wait_for_models
from tests.e2e.scenes import MODEL, Asking, Engine, fake_engine

from opentela.testing.waiting import TRIES

pytestmark = pytest.mark.nats

ABORT_WITHIN_S = 1.0
LONG_MS = 60_000.0
"""Longer than the test waits for anything: nothing ends by itself."""


class Scene:
    """A router and one engine."""

    def __init__(self, router: Service, engine: Engine) -> None:
        self.router = router
        self.engine = engine

    def wait_for(self, **counts: int) -> None:
        """Return once the engine's counts are so."""
        wait_until(
            lambda: counts.items() <= self.engine.seen().items(),
            f"{counts} at the engine",
            within_s=15,
            detail=lambda: str(self.engine.seen()),
        )


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A router and one engine behind a leaf."""
    with Product(tmp_path) as product:
        product.start_hub()
        product.start_registry("registry", NOTHING_TO_LEARN)
        router = product.start_router()
        leaf = product.start_leaf("site-a")
        engine = Engine(product.start_engine("alpha", leaf, fake_engine("alpha")))
        wait_for_models(router, MODEL)
        yield Scene(router, engine)


def test_a_client_that_leaves_stops_the_engine_within_a_second(scene: Scene) -> None:
    """In a unary request, before the first token, and in mid-stream; nothing stays in flight."""
    cases = {
        "unary": ({"ttft_ms": LONG_MS, "tpot_ms": 0.0}, False, 0),
        "before the first token": ({"ttft_ms": LONG_MS, "tpot_ms": 0.0}, True, 0),
        "in mid-stream": ({"ttft_ms": 0.0, "tpot_ms": 100.0}, True, 3),
    }
    aborted = 0
    for what, (script, stream, deltas) in cases.items():
        scene.engine.script(**script)
        took_s: list[float] = []
        while not took_s or (min(took_s) >= ABORT_WITHIN_S and len(took_s) < TRIES):
            asking = Asking(scene.router, stream=stream)
            try:
                scene.wait_for(running=1)
                asking.read_deltas(deltas)
            finally:
                asking.leave()
            left_at = time.monotonic()
            aborted += 1
            scene.wait_for(running=0, aborted=aborted)
            took_s.append(time.monotonic() - left_at)
        assert min(took_s) < ABORT_WITHIN_S, (what, took_s)
    wait_until(lambda: scene.engine.running == 0, "an idle supervisor", within_s=10)
    wait_until(lambda: scene.router.status()["in_flight"] == 0, "an idle router", within_s=10)
