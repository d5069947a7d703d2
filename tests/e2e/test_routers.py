"""Several routers are one to their clients: they are replaced under load, and lost, unnoticed."""

import json
import signal
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import pytest
from tests.e2e.processes import Process, wait_until
from tests.e2e.product import (
    NOTHING_TO_LEARN,
    OTELA,
    Place,
    Product,
    Service,
    wait_for_models,
)
from tests.e2e.scenes import MODEL, Asking, Engine, Load, fake_engine, verify

pytestmark = pytest.mark.nats

LONGEST_S: Final = 15.0
LEAVES_WITHIN_S: Final = 40.0
ROUNDS: Final = 2
CLIENTS: Final = 8


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    """A mesh with two engines."""
    with Product(tmp_path) as made:
        made.start_hub()
        made.start_registry("registry", NOTHING_TO_LEARN)
        leaf = made.start_leaf("site-a")
        for name in ("alpha", "beta"):
            made.start_engine(name, leaf, fake_engine(name))
        yield made


def start_sharing(product: Product, access: Path, held: socket.socket, number: int) -> Service:
    """Start a router on a socket that the test holds; return once it serves."""
    shell = 'exec "$@" 3<&"$0"'
    argv = [
        *("bash", "-c", shell, str(held.fileno()), "env", "LISTEN_FDS=1", *OTELA, "router"),
        *("--set", f"access={access}", "--set", "listen.address=inherited"),
    ]
    log = product.folder / f"router-{number}.log"
    process = Process(f"router-{number}", argv, log=log, pass_fds=[held.fileno()])
    service = Service(process, Place())
    product.services.append(service)
    service.url = service.wait_for("router_opened")["url"]
    service.wait_for("readiness_changed", ready=True)
    return service


def test_routers_are_replaced_under_load_and_no_request_fails(product: Product) -> None:
    """Unary and streaming, on connections that clients keep; each process has its own pages."""
    access = product.admit("router", "routers")
    with socket.create_server(("127.0.0.1", 0)) as held:
        routers = [start_sharing(product, access, held, number) for number in range(2)]
        assert routers[0].url == routers[1].url
        assert routers[0].health != routers[1].health
        wait_until(
            lambda: all(one.status()["models"].get(MODEL) == 2 for one in routers),
            "both sessions at both routers",
            within_s=LEAVES_WITHIN_S,
        )
        load = Load(product, routers[0], concurrency=CLIENTS)
        for turn in range(ROUNDS * len(routers)):
            load.wait_for_count((turn + 1) * 3 * CLIENTS)
            leaving = routers.pop(0)
            leaving.process.send(signal.SIGTERM)
            assert leaving.process.wait(LEAVES_WITHIN_S) == 0
            leaving.wait_for("drained")
            assert not list(leaving.events("drain_cut_short"))
            routers.append(start_sharing(product, access, held, 2 + turn))
        exchanges = load.finish()
    verify(exchanges, longest_s=LONGEST_S)
    assert len(exchanges) >= ROUNDS * 2 * 3 * CLIENTS
    assert all(one.claims_success for one in exchanges), [one.describe() for one in exchanges]


class Failover:
    """Clients that know several addresses, and take the next one when one does not answer."""

    def __init__(self, urls: list[str], count: int) -> None:
        self.failed: list[str] = []
        self.answered = 0
        self._urls = urls
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(number, count)) for number in range(CLIENTS)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _run(self, number: int, count: int) -> None:
        body = json.dumps({"model": MODEL, "max_tokens": 4, "messages": []}).encode()
        for turn in range(count):
            problems = []
            for hop in range(len(self._urls)):
                url = self._urls[(number + turn + hop) % len(self._urls)]
                request = urllib.request.Request(f"{url}/v1/chat/completions", data=body)
                try:
                    with urllib.request.urlopen(request, timeout=LONGEST_S) as answer:
                        json.load(answer)
                    break
                except (OSError, ValueError) as error:
                    problems.append(f"{url}: {error!r}")
            with self._lock:
                if len(problems) == len(self._urls):
                    self.failed.append("; ".join(problems))
                self.answered += 1


def test_a_router_that_is_lost_takes_nothing_with_it_but_its_connections(product: Product) -> None:
    """Routers share nothing: who knows another address is served there at once."""
    routers = [product.start_router(name) for name in ("first", "second")]
    for router in routers:
        wait_for_models(router, MODEL, sessions=2)
    engines = [Engine(one) for one in product.services if one.process.name in {"alpha", "beta"}]
    stream = Asking(routers[0], stream=True)
    stream.read_deltas(1)
    with Failover([router.url for router in routers], count=12) as clients:
        wait_until(lambda: clients.answered >= CLIENTS * 3, "some answers", within_s=30)
        routers[0].process.send(signal.SIGKILL)
        routers[0].process.wait(LEAVES_WITHIN_S)
    stream.leave()
    assert clients.failed == []
    assert clients.answered == CLIENTS * 12
    # A client has its answer a moment before the router has booked it.
    wait_until(
        lambda: routers[1].status()["in_flight"] == 0, "an idle router", within_s=LEAVES_WITHIN_S
    )
    assert routers[1].status()["models"] == {MODEL: 2}
    wait_until(
        lambda: all(engine.seen()["running"] == 0 for engine in engines),
        "engines without the requests of the lost router",
        within_s=LEAVES_WITHIN_S,
    )
