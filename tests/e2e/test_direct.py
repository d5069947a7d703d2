"""A router dials a session of its own host, and keeps it when the mesh loses it."""

import json
import signal
import urllib.error
from pathlib import Path

import pytest
from tests.e2e.netns import Lab
from tests.e2e.processes import wait_until
from tests.e2e.product import (
    NOTHING_TO_LEARN,
    Namespace,
    Product,
    Service,
    fetch,
    wait_for_models,
)
from tests.e2e.scenes import MODEL, fake_engine

pytestmark = pytest.mark.nats

ASKED = json.dumps(
    {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2}
)
DOOR = "door.address=127.0.0.1:0"
SUSPECTED_WITHIN_S = 30.0


def answers(router: Service) -> bool:
    """Return whether a request is answered."""
    try:
        told = fetch(f"{router.url}/v1/chat/completions", ASKED)
    except urllib.error.HTTPError as error:
        error.close()
        return False
    return "alpha-" in told


def test_a_dialled_session_serves_on_without_its_leaf_and_no_longer_than_it_lives(
    tmp_path: Path,
) -> None:
    """Its site's server dies: registries suspect it, one router knows better, until it freezes."""
    with Product(tmp_path) as product:
        product.start_hub()
        registry = product.start_registry("registry", NOTHING_TO_LEARN)
        router = product.start_router()
        other = product.start_router("other", "direct.same_host=false")
        leaf = product.start_leaf("site-a")
        session = product.start_engine("alpha", leaf, fake_engine("alpha"), DOOR)
        for one in (router, other):
            wait_for_models(one, MODEL)
            assert answers(one)
        router.wait_for("channel_dialled")
        session.wait_for("channel_opened")
        leaf.process.kill()
        registry.wait_for("suspicion_raised", within_s=SUSPECTED_WITHIN_S)
        wait_until(lambda: not answers(other), "the other router gives up", within_s=30.0)
        assert answers(router), "its channel answers"
        session.process.send(signal.SIGSTOP)
        wait_until(lambda: not fetch_models(router), "a frozen session is given up", within_s=30.0)
        session.process.send(signal.SIGCONT)
        wait_until(lambda: answers(router), "it is used again", within_s=30.0)
        session.process.kill()
        wait_until(lambda: not fetch_models(router), "a dead session is given up", within_s=30.0)
        assert not list(other.events("channel_dialled"))


def fetch_models(router: Service) -> list[str]:
    """Return the models that a router lists."""
    return [one["id"] for one in json.loads(fetch(f"{router.url}/v1/models"))["data"]]


@pytest.mark.netns
@pytest.mark.slow
def test_a_session_of_another_host_is_dialled_where_its_site_is_named(
    lab: Lab, tmp_path: Path
) -> None:
    """Under TLS, by the one router whose operator trusts the site; the others ask over the mesh."""
    with Product(tmp_path, public=Namespace(lab, "hub")) as product:
        product.start_hub()
        product.start_registry("registry", NOTHING_TO_LEARN)
        site, other_host = Namespace(lab, "n1"), Namespace(lab, "n2")
        leaf = product.start_leaf("site-a", site)
        sites = {"trusts": 'direct.sites=["site-a"]', "does-not": 'direct.sites=["site-b"]'}
        routers = [
            product.start_router(name, setting, place=other_host) for name, setting in sites.items()
        ]
        door = f"door.address={site.address}:0"
        lends = "gateway.lends_engine=true"
        session = product.start_engine("alpha", leaf, fake_engine("alpha"), door, lends)
        session.wait_for("session_announced", lifecycle="SERVING")
        assert session.wait_for("door_opened")["tls"] is True
        for router in routers:
            wait_until(
                lambda url=router.url: served(other_host, url),  # type: ignore[misc]
                "an answer",
                within_s=40.0,
            )
        trusts, does_not = routers
        trusts.wait_for("channel_dialled")
        assert served(other_host, trusts.url)
        assert not list(does_not.events("channel_dialled"))
        assert not list(does_not.events("channel_not_made"))
        # The engine's loopback is not theirs.
        assert not list(session.events("engine_lent"))


def served(place: Namespace, url: str) -> bool:
    """Return whether a request from *place* is answered."""
    try:
        return "alpha-" in json.dumps(place.fetch(f"{url}/v1/chat/completions", ASKED))
    except AssertionError:
        return False
