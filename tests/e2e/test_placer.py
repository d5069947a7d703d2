"""Two placers, two agents, engines that come and go: demand shifts, and no client notices."""

import json
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.audits import Audits
from tests.e2e.processes import wait_until
from tests.e2e.product import NOTHING_TO_LEARN, Leaf, Product, Service, wait_for_models
from tests.e2e.scenes import TOKENS, Load, verify, words
from tests.unit.placer.live import ledger

pytestmark = [pytest.mark.nats, pytest.mark.timeout(300)]

MODELS = ("tiny", "small")
SLOTS = 2
MOVED_WITHIN_S = 90.0
TAKEN_OVER_WITHIN_S = 20.0
LONGEST_S = 15.0

AGENT = """
[template.fake]
command = {command}
"""
PLACER = """
access = "{access}"

[[models]]
name = "tiny"
template = "fake"
capacity_rps = 4.0
load_s = 2.0

[[models]]
name = "small"
template = "fake"
capacity_rps = 4.0
load_s = 2.0

[demand]
window_s = 6.0
fast_s = 3.0
learn_s = 0.0

[plan]
every_s = 2.0
cool_down_s = 2.0

[moves]
look_s = 1.0
retry_s = 0.5
"""


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    """A mesh on loopback with a hub."""
    with Product(tmp_path) as made:
        made.start_hub()
        yield made


def engine() -> list[str]:
    """Return the template of an engine whose words are known."""
    return [
        *(sys.executable, "-m", "opentela.testing.fake_engine", "--port", "{port}"),
        *("--model", "{model}", "--owned-by", "vllm", "--tokens", str(TOKENS)),
        *("--ttft-ms", "100", "--tpot-ms", "20", "--script", json.dumps({"text": words("fake")})),
    ]


def start_agent(product: Product, name: str, leaf: Leaf) -> Service:
    """Start an agent with places for engines on the CPU."""
    config = product.folder / f"{name}.toml"
    config.write_text(AGENT.format(command=json.dumps(engine())))
    return product.launch(
        *(name, leaf.place, "agent", "--access", str(leaf.access), "--node", name),
        *("--config", str(config), "--slots", str(SLOTS)),
    )


def start_placer(product: Product, name: str) -> Service:
    """Start a placer."""
    config = product.folder / f"{name}.toml"
    config.write_text(PLACER.format(access=product.admit("placer", name)))
    return product.launch(name, product.public, "placer", "--config", str(config))


def is_served(router: Service, model: str) -> bool:
    """Return whether a request for *model* is answered."""
    body = json.dumps({"model": model, "max_tokens": 1, "messages": []}).encode()
    request = urllib.request.Request(
        f"{router.url}/v1/chat/completions", body, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError:
        return False


def wait_until_served(router: Service, model: str) -> None:
    """Ask for *model* until somebody answers."""
    wait_until(
        lambda: is_served(router, model),
        f"an answer of {model}",
        within_s=MOVED_WITHIN_S,
        detail=router.process.tail,
    )


def sessions(router: Service, model: str) -> int:
    """Return how many sessions serve *model*."""
    listed = router.place.fetch(f"{router.url}/v1/models")["data"]
    return sum(one["otela"]["sessions"] for one in listed if one["id"] == model)


def commands(placers: list[Service], event: str) -> list[str]:
    """Return the starts that placers told of in that event."""
    return [line["command"] for placer in placers for line in placer.events(event)]


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


def settle(audits: Audits) -> None:
    """Wait until everything that was begun has come to its end, and all was told as it must."""
    wait_until(
        lambda: ledger.faults(audits.events()) == [],
        "a history without faults",
        within_s=MOVED_WITHIN_S,
        detail=lambda: "\n".join(ledger.faults(audits.events())),
    )


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
    burst = Load(product, router, model="tiny", concurrency=5)
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
    done = [line["start"] for agent in agents for line in agent.events("replica_started")]
    assert sorted(done) == sorted(told)
