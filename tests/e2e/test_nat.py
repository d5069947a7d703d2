"""A consumer outside reaches a real engine behind a real NAT, by either kind of leaf link."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.e2e import sdk
from tests.e2e.netns import HUB_IP, NAT_IP, Lab
from tests.e2e.product import NOTHING_TO_LEARN, Namespace, Product, Service, wait_for_models
from tests.e2e.scenes import MODEL, llama_engine

pytestmark = [pytest.mark.netns, pytest.mark.nats, pytest.mark.engine]


def sniff(product: Product, lab: Lab, place: str, device: str, *words: str) -> Service:
    """Start to read what passes a device."""
    argv = [sys.executable, "-m", "tests.e2e.sniffer", device, *words]
    sniffer = product.started(f"sniffer-{place}", Namespace(lab, place), argv)
    sniffer.wait_for_words("sniffing")
    return sniffer


def heard(sniffer: Service) -> Any:
    """Return what a sniffer counted."""
    sniffer.process.end()
    return json.loads(sniffer.process.log.read_text().splitlines()[-1])


@pytest.mark.parametrize("websocket", [False, True], ids=["leaf", "websocket-leaf"])
def test_an_answer_streams_from_behind_a_nat_and_nothing_crosses_it_in_the_clear(
    lab: Lab, tmp_path: Path, *, websocket: bool
) -> None:
    """The OpenAI SDK gets a real model's answer; the site only dialled out, all of it under TLS."""
    with Product(tmp_path, public=Namespace(lab, "hub")) as product:
        product.start_hub()
        product.start_registry("registry", NOTHING_TO_LEARN)
        router = product.start_router()
        leaf = product.start_leaf("site-a", Namespace(lab, "n1"), websocket=websocket)
        product.start_engine("llama", leaf, llama_engine())
        wait_for_models(router, MODEL)
        outside = sniff(product, lab, "client", "eth0", "Switzerland")
        border = sniff(product, lab, "nat", "wan", "Switzerland")
        argv = [sys.executable, "-m", "tests.e2e.sdk", "--url", router.url, "--model", MODEL]
        told = json.loads(Namespace(lab, "client").run(argv))
        at_client, at_border = heard(outside), heard(border)
    assert told["models"] == [MODEL]
    assert "Bern" in told["text"], told
    assert told["pieces"] > 1
    assert told["finish"] == ["stop"]
    assert told["completion_tokens"] > 0
    # The client's own hop is plain HTTP here, so the sniffer can read; the site's link is not.
    assert "Switzerland" in sdk.PROMPT
    assert at_client["words"]["Switzerland"] > 0
    assert at_border["bytes"] > 0
    assert at_border["words"]["Switzerland"] == 0


def test_a_session_behind_a_nat_calls_home(lab: Lab, tmp_path: Path) -> None:
    """It dials the router from within, under TLS; then requests pass no server of the mesh."""
    with Product(tmp_path, public=Namespace(lab, "hub")) as product:
        product.start_hub()
        product.start_registry("registry", NOTHING_TO_LEARN)
        router = product.start_router("router", f"home.address={HUB_IP}:0")
        leaf = product.start_leaf("site-a", Namespace(lab, "n1"))
        supervisor = product.start_engine("llama", leaf, llama_engine())
        wait_for_models(router, MODEL)
        argv = [sys.executable, "-m", "tests.e2e.sdk", "--url", router.url, "--model", MODEL]
        Namespace(lab, "client").run(argv)
        supervisor.wait_for("channel_opened")
        border = sniff(product, lab, "nat", "wan", "Switzerland")
        told = json.loads(Namespace(lab, "client").run(argv))
        at_border = heard(border)
    assert "Bern" in told["text"], told
    assert told["finish"] == ["stop"]
    assert at_border["bytes"] > 0
    assert at_border["words"]["Switzerland"] == 0


def test_a_site_only_dials_out(lab: Lab, tmp_path: Path) -> None:
    """Every connection of a site comes from its NAT router's address, opened from within."""
    with Product(tmp_path, public=Namespace(lab, "hub")) as product:
        hub = product.start_hub()
        product.start_leaf("site-a", Namespace(lab, "n1"))
        hub.wait_for_words("Leafnode connection created")
        joined = [
            line
            for line in hub.process.log.read_text().splitlines()
            if "Leafnode connection created" in line
        ]
        assert joined
        assert all(f" {NAT_IP}:" in line for line in joined)
