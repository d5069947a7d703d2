"""A stream that loses its engine in the middle says so, and claims nothing else."""

import json
import time
from pathlib import Path

import pytest
from tests.e2e.processes import wait_until
from tests.e2e.product import NOTHING_TO_LEARN, Product, Service
from tests.e2e.scenes import (
    MODEL,
    Asking,
    Engine,
    fake_engine,
    freeze_engine,
    freeze_node,
    kill_engine,
    kill_node,
)

pytestmark = [pytest.mark.nats, pytest.mark.slow]

DELTAS = 3
SLOW_MS = 50.0
"""Between tokens: an answer of 64 takes three seconds, so that a fault meets it in the middle."""
TOLD_WITHIN_S = {
    "killed engine": 4.5,  # its supervisor sees the connection end; for silence it would be 5 s
    "frozen engine": 20.0,  # its supervisor's probes are not answered, for 6 s
    "killed node": 15.0,  # the router hears nothing for 5 s
    "frozen node": 15.0,
}
"""What finds each, and the time that shared cores take; whatever else would find them: a minute."""


def break_one(router: Service, engine: Engine, fault: str) -> None:
    """Lose *engine* in the middle of a stream, and check what the client is told."""
    faults = {
        "killed engine": kill_engine,
        "killed node": kill_node,
        "frozen engine": freeze_engine,
        "frozen node": freeze_node,
    }
    asking = Asking(router, stream=True)
    try:
        asking.read_deltas(DELTAS)
        faults[fault](engine)
        lost_at = time.monotonic()
        *events, last = asking.read_to_end()
        took_s = time.monotonic() - lost_at
    finally:
        asking.leave()
    assert json.loads(last)["error"]["message"], fault
    reasons = [c["finish_reason"] for event in events for c in json.loads(event)["choices"]]
    assert len(reasons) >= DELTAS
    assert set(reasons) == {None}, fault
    assert took_s < TOLD_WITHIN_S[fault], (fault, took_s)
    request = asking.header("x-request-id")
    assert router.wait_for("request_finished", request=request)["outcome"] == "broken", fault


def test_a_stream_that_loses_its_engine_ends_with_an_error_event(tmp_path: Path) -> None:
    """No reason to finish and no [DONE] is invented, and the request is recorded as broken."""
    with Product(tmp_path) as product:
        product.start_hub()
        product.start_registry("registry", NOTHING_TO_LEARN)
        router = product.start_router()
        leaf = product.start_leaf("site-a")
        for fault in TOLD_WITHIN_S:
            name = fault.replace(" ", "-")
            command = fake_engine("alpha", tpot_ms=SLOW_MS)
            # An engine that is lost is not started again: the next fault brings its own.
            service = product.start_engine(name, leaf, command, "restart.failures_max=0")
            service.wait_for("session_announced", lifecycle="SERVING")
            wait_until(
                lambda: router.status()["models"].get(MODEL) == 1,
                f"the engine for {fault} alone",
                within_s=60,
                detail=router.process.tail,
            )
            break_one(router, Engine(service), fault)
            service.process.end()
