"""The product as a benchmark needs it: one path through every process, and who works on it."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench import bare
from tests.bench.engine import MODEL
from tests.e2e.product import NOTHING_TO_LEARN, PROVIDER, Product, Service, wait_for_models

from opentela.wire.subjects import SessionPath

ALONE: Final = "direct.same_host=false"
"""Keeps a router from dialling."""
UNLENT: Final = "direct.engine=false"
"""Keeps a router from asking the engine itself."""
BARE: Final = (sys.executable, "-m", "tests.bench.bare")
ENGINE: Final = (sys.executable, "-m", "tests.bench.engine", "--port", "{port}")

ASKED: Final = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "hello"}]})
"""The first request takes the mesh, and lets the router invite the session."""


class ServingPath(NamedTuple):
    """A path that is up.

    Attributes:
        router_port: Where clients send.
        home_port: A router that the session has dialled; its requests take that connection.
        dialled_port: A router that has dialled the session, on the same host.
        lent_port: A router that has done so too, and to which the engine is lent.
        timed_port: A second router on the same mesh, which tells where the time went.
        engine_port: The mock engine behind it, for the direct way.
        pids: By role, of everything that works on a request, and of the registry.
        access: Lets the control in, as a router.
        bare: Where the control's answers come from.
    """

    router_port: int
    home_port: int
    dialled_port: int
    lent_port: int
    timed_port: int
    engine_port: int
    pids: dict[str, int]
    access: Path
    bare: SessionPath


def start(product: Product, *settings: str, engine: Sequence[str] = ()) -> ServingPath:
    """Start hub, registry, routers, leaf, and a supervisor with the mock engine.

    Args:
        product: The mesh in which they are.
        settings: Of each router.
        engine: Further words of the engine's command.
    """
    announce = product.folder / "engine.json"
    services: dict[str, Service] = {"hub": product.start_hub()}
    services["registry"] = product.start_registry("registry", NOTHING_TO_LEARN)
    services["router"] = product.start_router("router", ALONE, *settings)
    home = "home.address=127.0.0.1:0"
    timed = product.start_router("timed", "server_timing=true", ALONE, *settings)
    services["home"] = product.start_router("home", ALONE, UNLENT, home, *settings)
    services["dialled"] = product.start_router("dialled", UNLENT, *settings)
    services["lent"] = product.start_router("lent", *settings)
    services["leaf"] = leaf = product.start_leaf("site-a")
    argv: Sequence[str] = (*ENGINE, "--announce", str(announce), *engine)
    services["supervisor"] = product.start_engine(
        "supervisor", leaf, argv, "door.address=127.0.0.1:0", "gateway.lends_engine=true"
    )
    for role in ("router", "home", "dialled", "lent"):
        wait_for_models(services[role], MODEL)
    wait_for_models(timed, MODEL)
    services["home"].place.fetch(f"{services['home'].url}/v1/chat/completions", ASKED)
    services["supervisor"].wait_for("channel_opened")
    services["dialled"].place.fetch(f"{services['dialled'].url}/v1/chat/completions", ASKED)
    services["dialled"].wait_for("channel_dialled")
    services["lent"].place.fetch(f"{services['lent'].url}/v1/chat/completions", ASKED)
    services["lent"].wait_for("engine_borrowed")
    control = product.started("bare", leaf.place, [*BARE, str(leaf.access)])
    control.wait_for_words("answering")
    told = json.loads(announce.read_text())
    pids = {role: service.process.pid for role, service in services.items()}
    return ServingPath(
        router_port=_port(services["router"]),
        home_port=_port(services["home"]),
        dialled_port=_port(services["dialled"]),
        lent_port=_port(services["lent"]),
        timed_port=_port(timed),
        engine_port=told["port"],
        pids={**pids, "engine": told["pid"]},
        access=product.admit("router", bare.NAME),
        bare=bare.session(PROVIDER, leaf.site),
    )


def _port(service: Service) -> int:
    return int(service.url.rpartition(":")[2])
