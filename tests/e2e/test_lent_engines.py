"""A router asks the engine of its own host itself; whatever dies, clients are told the truth."""

import signal
from pathlib import Path

import pytest
from tests.e2e.processes import wait_until
from tests.e2e.product import NOTHING_TO_LEARN, Leaf, Product, Service
from tests.e2e.scenes import MODEL, Asking, Engine, fake_engine, kill_engine
from tests.e2e.test_broken_streams import DELTAS, SLOW_MS, break_one
from tests.e2e.test_direct import DOOR, answers

pytestmark = [pytest.mark.nats, pytest.mark.slow]

LENDS = "gateway.lends_engine=true"
WITHIN_S = 40.0


def lent(product: Product, router: Service, leaf: Leaf, name: str, *settings: str) -> Service:
    """Return a supervisor, the only one, whose engine the router has borrowed."""
    command = fake_engine("alpha", tpot_ms=SLOW_MS)
    service = product.start_engine(name, leaf, command, DOOR, LENDS, *settings)
    service.wait_for("session_announced", lifecycle="SERVING")
    wait_until(
        lambda: router.status()["models"].get(MODEL) == 1,
        f"{name} alone",
        within_s=60,
        detail=router.process.tail,
    )
    assert answers(router)
    router.wait_for("engine_borrowed", session=Engine(service).session)
    return service


def test_a_lent_engine_serves_drains_and_dies_as_any_other(tmp_path: Path) -> None:
    """Its session waits for what runs; a stream that is lost says so; another engine takes over."""
    with Product(tmp_path) as product:
        product.start_hub()
        product.start_registry("registry", NOTHING_TO_LEARN)
        router = product.start_router()
        leaf = product.start_leaf("site-a")

        service = lent(product, router, leaf, "drained")
        asking = Asking(router, stream=True)
        asking.read_deltas(DELTAS)
        wait_until(lambda: Engine(service).running == 1, "it knows of that", within_s=WITHIN_S)
        service.process.send(signal.SIGTERM)
        service.wait_for("session_announced", lifecycle="DRAINING")
        router.wait_for("loan_closed", running=1)
        events = asking.read_to_end()
        asking.leave()
        assert events[-1] == "[DONE]"
        assert service.process.wait(WITHIN_S) == 0
        assert service.wait_for("loan_ended")["reason"] == "closed"

        # The engine is lost in the middle of a stream, then between two answers; then all of it is.
        service = lent(product, router, leaf, "killed")
        break_one(router, Engine(service), "killed engine")
        wait_until(lambda: answers(router), "its successor answers", within_s=WITHIN_S)
        router.wait_for("engine_borrowed", session=Engine(service).session)
        kill_engine(Engine(service))
        wait_until(lambda: answers(router), "the next one answers", within_s=WITHIN_S)
        break_one(router, Engine(service), "killed node")
