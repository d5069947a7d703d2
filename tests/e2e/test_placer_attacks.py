"""Placers and agents while something is wrong with one of them: no client notices, nothing twice.

Each takes a minute or two of real processes: `make placer-attacks`.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from tests.e2e.audits import Audits
from tests.e2e.history import Exchange
from tests.e2e.netns import Lab
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
from tests.e2e.product import (
    NOTHING_TO_LEARN,
    Leaf,
    Namespace,
    Place,
    Product,
    Service,
    wait_for_models,
)
from tests.e2e.scenes import Load, verify

pytestmark = [
    pytest.mark.nats,
    pytest.mark.timeout(600),
    pytest.mark.skipif("OTELA_TEST_PLACER" not in os.environ, reason="make placer-attacks"),
]

CLOCK = """
import os, time
_ahead, _time, _time_ns = float(os.environ["OTELA_TEST_CLOCK_S"]), time.time, time.time_ns
time.time = lambda: _time() + _ahead
time.time_ns = lambda: _time_ns() + int(_ahead * 1e9)
"""
AWAY_S = 30.0
FLOOD_S = 20.0
FLOOD = """
import asyncio, sys, time
from pathlib import Path
from opentela.mesh import access as accesses, nats_bus
from opentela.wire import subjects, usage
from tests.unit.placer.live import parts

async def main():
    until = time.monotonic() + float(sys.argv[2])
    access = accesses.read(Path(sys.argv[1]))
    async with await nats_bus.connect(access, name=access.name) as bus:
        while time.monotonic() < until:
            for _ in range(500):
                await bus.publish(subjects.USAGE, usage.encode(parts.used(sys.argv[3])))
            await asyncio.sleep(0)
    print("flooded", flush=True)

asyncio.run(main())
"""


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    """A mesh on loopback with a hub."""
    with Product(tmp_path) as made:
        made.start_hub()
        yield made


def judge(
    histories: Iterable[list[Exchange]], agents: list[Service], placers: list[Service]
) -> None:
    """Check that no request failed, and that agents did once what placers told, and no more."""
    for history in histories:
        verify(history, longest_s=LONGEST_S)
        assert [one.describe() for one in history if not one.claims_success] == []
    done = started(agents)
    assert len(done) == len(set(done))
    assert set(done) <= set(commands(placers, "replica_start_told"))


def begun(product: Product) -> tuple[Service, Audits, Service, Leaf]:
    """Start registry, auditor, router and a leaf."""
    registry = product.start_registry("registry", NOTHING_TO_LEARN)
    return registry, Audits(product), product.start_router(), product.start_leaf("site-a")


def shifted(
    product: Product, router: Service, harm: Callable[[], None], *, place: Place | None = None
) -> list[list[Exchange]]:
    """Move demand from one model to the other, do *harm* in between, and return who asked."""
    for model in MODELS:
        wait_until_served(router, model)
    steady = [Load(product, router, place=place, model=name, concurrency=1) for name in MODELS]
    burst = Load(product, router, place=place, model="tiny", concurrency=5)
    wait_for_models(router, "tiny", sessions=3, within_s=MOVED_WITHIN_S)
    histories = [burst.finish()]
    burst = Load(product, router, place=place, model="small", concurrency=5)
    harm()
    wait_for_models(router, "small", sessions=3, within_s=MOVED_WITHIN_S)
    wait_until(lambda: sessions(router, "tiny") == 1, "one tiny left", within_s=MOVED_WITHIN_S)
    return [*histories, burst.finish(), *(load.finish() for load in steady)]


def wait_for_a_stop(leader: Service) -> dict[str, object]:
    """Return the stop that a leader has just told, in the middle of its moves."""
    return leader.wait_for("replica_stop_told", within_s=MOVED_WITHIN_S)


def clock(product: Product, ahead_s: float) -> dict[str, str]:
    """Return the environment of a process whose clock is so far ahead."""
    folder = product.folder / "clock"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(CLOCK)
    return {"PYTHONPATH": str(folder), "OTELA_TEST_CLOCK_S": str(ahead_s)}


@pytest.mark.netns
def test_a_leader_that_is_cut_off_is_followed_and_follows(lab: Lab, tmp_path: Path) -> None:
    """What it sent and what comes only when its path has healed is refused."""
    hub = Namespace(lab, "hub")
    with Product(tmp_path, public=hub) as product:
        product.start_hub()
        product.start_registry("registry", NOTHING_TO_LEARN)
        audits, router = Audits(product), product.start_router()
        leaf = product.start_leaf("site-a", Namespace(lab, "n2"))
        agents = [start_agent(product, name, leaf) for name in ("one", "two")]
        first = start_placer(product, "first", place=Namespace(lab, "n1"))
        first.wait_for("placer_led")
        second = start_placer(product, "second")
        second.wait_for("readiness_changed", ready=True)

        def cut() -> None:
            wait_for_a_stop(first)
            lab.partition("n1")
            second.wait_for("placer_led", within_s=TAKEN_OVER_WITHIN_S)
            first.wait_for("placer_deposed", within_s=TAKEN_OVER_WITHIN_S)
            wait_for_models(router, "small", sessions=3, within_s=MOVED_WITHIN_S)
            lab.heal("n1")
            wait_until(
                lambda: first.status()["leader"] == "second", "it follows", within_s=MOVED_WITHIN_S
            )

        judge(shifted(product, router, cut, place=hub), agents, [first, second])
        settle(audits)


@pytest.mark.parametrize("ahead_s", [600.0, -600.0])
def test_clocks_that_are_wrong_change_nothing(product: Product, ahead_s: float) -> None:
    """Of either placer, the first of which is killed, and of an agent."""
    _, _, router, leaf = begun(product)
    agents = [
        start_agent(product, "one", leaf, env=clock(product, -ahead_s)),
        start_agent(product, "two", leaf),
    ]
    first = start_placer(product, "first", env=clock(product, ahead_s))
    first.wait_for("placer_led")
    second = start_placer(product, "second", env=clock(product, -ahead_s))
    second.wait_for("readiness_changed", ready=True)

    def kill() -> None:
        wait_for_a_stop(first)
        first.process.send(signal.SIGKILL)
        second.wait_for("placer_led", within_s=TAKEN_OVER_WITHIN_S)

    judge(shifted(product, router, kill), agents, [first, second])
    terms = [next(one.events("placer_led"))["term"] for one in (first, second)]
    assert terms == sorted(terms)


def test_an_agent_that_is_killed_while_it_drains_may_come_back(product: Product) -> None:
    """On the same allocation, as another session: what it had is made up for, and nothing twice.

    What ran there is lost with it, so that requests may fail until it is served elsewhere.
    """
    _, audits, router, leaf = begun(product)
    agents = [start_agent(product, name, leaf) for name in ("one", "two")]
    placer = start_placer(product, "first")
    placer.wait_for("readiness_changed", ready=True)

    def kill() -> None:
        told = wait_for_a_stop(placer)
        victim = next(one for one in agents if one.status()["session"] == told["agent"])
        victim.process.send(signal.SIGKILL)
        victim.process.wait(MOVED_WITHIN_S)
        agents.append(product.launch_again(victim))

    shifted(product, router, kill)
    done = started(agents)
    assert len(done) == len(set(done))
    settle(audits)


def test_without_registries_what_was_known_is_carried_out(product: Product) -> None:
    """And who came meanwhile is found when they are back."""
    registry, audits, router, leaf = begun(product)
    agents = [start_agent(product, name, leaf) for name in ("one", "two")]
    placer = start_placer(product, "first")
    placer.wait_for("readiness_changed", ready=True)

    def end() -> None:
        wait_for_a_stop(placer)
        registry.process.send(signal.SIGKILL)
        registry.process.wait(MOVED_WITHIN_S)
        agents.append(start_agent(product, "three", leaf))
        back_at = time.monotonic() + AWAY_S
        wait_until(lambda: time.monotonic() >= back_at, "time to pass", within_s=2 * AWAY_S)
        product.launch_again(registry)

    judge(shifted(product, router, end), agents, [placer])
    settle(audits)


def test_a_flood_of_usage_deposes_nobody(product: Product) -> None:
    """Two routers say as fast as they can that a model is asked for, and it is started."""
    _, _, router, leaf = begun(product)
    start_agent(product, "one", leaf)
    first = start_placer(product, "first")
    first.wait_for("placer_led")
    second = start_placer(product, "second")
    second.wait_for("readiness_changed", ready=True)
    access = product.admit("router", "rogue")
    argv = [sys.executable, "-c", FLOOD, str(access), str(FLOOD_S), "tiny"]
    rogues = [product.started(name, product.public, argv) for name in ("rogue", "rogue")]
    wait_for_models(router, "tiny", within_s=MOVED_WITHIN_S)
    for rogue in rogues:
        rogue.wait_for_words("flooded", within_s=FLOOD_S + MOVED_WITHIN_S)
    assert list(first.events("placer_deposed")) == []
    assert list(second.events("placer_led")) == []
