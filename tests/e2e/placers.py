"""Placers, their agents, and who asks: what tests of them have in common."""

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping

from tests.e2e.audits import Audits
from tests.e2e.processes import wait_until
from tests.e2e.product import Leaf, Place, Product, Service
from tests.e2e.scenes import TOKENS, words
from tests.unit.placer.live import ledger

MODELS = ("tiny", "small")
SLOTS = 2
MOVED_WITHIN_S = 90.0
TAKEN_OVER_WITHIN_S = 20.0
LONGEST_S = 15.0

AGENT = """
[template.fake]
command = {command}
"""
MODEL = """
[[models]]
name = "{name}"
template = "fake"
capacity_rps = 4.0
load_s = 2.0
"""
PLACER = """
access = "{access}"
{models}
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
_ASK = "import sys; from tests.e2e.placers import answers; print(int(answers(*sys.argv[1:])))"


def engine() -> list[str]:
    """Return the template of an engine whose words are known."""
    return [
        *(sys.executable, "-m", "opentela.testing.fake_engine", "--port", "{port}"),
        *("--model", "{model}", "--owned-by", "vllm", "--tokens", str(TOKENS)),
        *("--ttft-ms", "100", "--tpot-ms", "20", "--script", json.dumps({"text": words("fake")})),
    ]


def start_agent(
    product: Product, name: str, leaf: Leaf, *, env: Mapping[str, str] | None = None
) -> Service:
    """Start an agent with places for engines on the CPU."""
    config = product.folder / f"{name}.toml"
    config.write_text(AGENT.format(command=json.dumps(engine())))
    return product.launch(
        *(name, leaf.place, "agent", "--access", str(leaf.access), "--node", name),
        *("--config", str(config), "--slots", str(SLOTS)),
        env=env,
    )


def start_placer(
    product: Product,
    name: str,
    *settings: str,
    models: Iterable[str] = MODELS,
    place: Place | None = None,
    env: Mapping[str, str] | None = None,
) -> Service:
    """Start a placer."""
    config = product.folder / f"{name}.toml"
    listed = "".join(MODEL.format(name=model) for model in models)
    config.write_text(PLACER.format(access=product.admit("placer", name), models=listed))
    chosen = [word for setting in settings for word in ("--set", setting)]
    argv = ("placer", "--config", str(config), *chosen)
    return product.launch(name, place or product.public, *argv, env=env)


def answers(url: str, model: str) -> bool:
    """Return whether a request for *model* is answered."""
    body = json.dumps({"model": model, "max_tokens": 1, "messages": []}).encode()
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", body, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError:
        return False


def is_served(router: Service, model: str) -> bool:
    """Return whether a request for *model* is answered, asked from where the router is."""
    if type(router.place) is Place:
        return answers(router.url, model)
    return router.place.run([sys.executable, "-c", _ASK, router.url, model]).strip() == "1"


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


def commands(placers: Iterable[Service], event: str) -> list[str]:
    """Return the starts that placers told of in that event."""
    return [line["command"] for placer in placers for line in placer.events(event)]


def started(agents: Iterable[Service]) -> list[str]:
    """Return the starts that agents did."""
    return [line["start"] for agent in agents for line in agent.events("replica_started")]


def settle(audits: Audits) -> None:
    """Wait until everything that was begun has come to its end, and all was told as it must."""
    wait_until(
        lambda: ledger.faults(audits.events()) == [],
        "a history without faults",
        within_s=MOVED_WITHIN_S,
        detail=lambda: "\n".join(ledger.faults(audits.events())),
    )
