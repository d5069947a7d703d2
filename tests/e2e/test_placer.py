"""Two placers, two agents, engines that come and go: demand shifts, and no client notices."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.audits import Audits
from tests.e2e.placers import (
    LONGEST_S,
    MODELS,
    MOVED_WITHIN_S,
    TAKEN_OVER_WITHIN_S,
    commands,
    sessions,
    settle,
    start_agent,
    start_placer,
    started,
    wait_until_served,
)
from tests.e2e.processes import wait_until
from tests.e2e.product import NOTHING_TO_LEARN, Product, Service, wait_for_models
from tests.e2e.scenes import Load, verify

pytestmark = [pytest.mark.nats, pytest.mark.timeout(300)]


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    """A mesh on loopback with a hub."""
    with Product(tmp_path) as made:
        made.start_hub()
        yield made


def roles(placers: list[Service]) -> tuple[Service, Service]:
    """Return who leads, and the other."""
    leader = next(one for one in placers if one.status()["leads"])
    return leader, next(one for one in placers if one is not leader)


def freeze_until_another_leads(leader: Service, other: Service) -> None:
    """Stop a placer's process for longer than its lease; once it goes on it knows at once."""
    leader.process.send(signal.SIGSTOP)
    other.wait_for("placer_led", within_s=TAKEN_OVER_WITHIN_S)
    other.wait_for("replica_found", within_s=TAKEN_OVER_WITHIN_S)
    leader.process.send(signal.SIGCONT)
    leader.wait_for("placer_deposed", within_s=TAKEN_OVER_WITHIN_S)


def test_models_move_as_demand_shifts_and_no_request_fails(product: Product) -> None:
    """Although the leader is frozen in the middle: the other goes on, and nothing is done twice.

    Once it thaws it follows. Every command has its decision, and what came of it is told.
    """
    product.start_registry("registry", NOTHING_TO_LEARN)
    audits = Audits(product)
    router = product.start_router()
    leaf = product.start_leaf("site-a")
    agents = [start_agent(product, name, leaf) for name in ("one", "two")]
    placers = {name: start_placer(product, name) for name in ("first", "second")}
    for placer in placers.values():
        placer.wait_for("readiness_changed", ready=True)
    # Nobody has ever served these models: that they are asked for is enough.
    for model in MODELS:
        wait_until_served(router, model)
    steady = [Load(product, router, model=model, concurrency=1) for model in MODELS]
    for load in steady:
        load.wait_for_count(1)
    burst = Load(product, router, model="tiny", concurrency=5)
    burst.wait_for_count(20)
    wait_for_models(router, "tiny", sessions=3, within_s=MOVED_WITHIN_S)
    histories = [burst.finish()]

    leader, other = roles(list(placers.values()))
    before = len(list(leader.events("replica_stop_told")))
    burst = Load(product, router, model="small", concurrency=5)
    wait_until(
        lambda: len(list(leader.events("replica_stop_told"))) > before,
        "the leader in the middle of its moves",
        within_s=MOVED_WITHIN_S,
    )
    freeze_until_another_leads(leader, other)
    wait_for_models(router, "small", sessions=3, within_s=MOVED_WITHIN_S)
    wait_until(lambda: sessions(router, "tiny") == 1, "one tiny left", within_s=MOVED_WITHIN_S)
    histories.append(burst.finish())
    histories += [load.finish() for load in steady]

    for history in histories:
        verify(history, longest_s=LONGEST_S)
        assert [one.describe() for one in history if not one.claims_success] == []
    settle(audits)
    both = [leader, other]
    told = commands(both, "replica_start_told")
    assert len(told) == len(set(told))
    assert commands(both, "replica_failed") == []
    assert sorted(started(agents)) == sorted(told)
