"""A node's packets vanish: it is left in seconds, nobody waits for TCP, and it comes back."""

import time
from pathlib import Path

import pytest
from tests.e2e.history import Exchange
from tests.e2e.netns import Cut, Lab
from tests.e2e.product import Namespace, Product, wait_for_models
from tests.e2e.scenes import MODEL, Load, author, fake_engine, verify

pytestmark = [pytest.mark.netns, pytest.mark.nats, pytest.mark.slow]

LONGEST_S = 8.0
"""Silence within a stream counts as loss after 5 s; one attempt elsewhere follows."""
ROUTED_AWAY_S = 7.0
"""Five missed heartbeats of 1 s, and a probe: after that the node is not even tried."""
CALM_S = 2.0
"""A request that meets no fault takes 0.5 s."""
BACK_WITHIN_S = 20.0


@pytest.mark.parametrize("cut", list(Cut), ids=[cut.value for cut in Cut])
def test_a_half_open_node_is_left_within_seconds_and_comes_back(
    lab: Lab, tmp_path: Path, cut: Cut
) -> None:
    """No request waits for a TCP time-out, whichever direction is silent; healed, it serves."""
    with Product(tmp_path, public=Namespace(lab, "hub")) as product:
        product.start_hub()
        product.start_registry()
        router = product.start_router()
        for node, name in zip(lab.nodes, ("alpha", "beta"), strict=True):
            leaf = product.start_leaf(f"site-{node}", Namespace(lab, node))
            product.start_engine(name, leaf, fake_engine(name))
        wait_for_models(router, MODEL, sessions=2)
        load = Load(product, router, place=Namespace(lab, "client"), concurrency=4)
        load.wait_for(lambda known: {*map(author, known)} >= {"alpha", "beta"}, "both", within_s=20)

        cut_at = time.monotonic()
        lab.partition("n1", cut)
        calm_from = cut_at + ROUTED_AWAY_S
        load.wait_for(
            lambda known: sum(one.started_at > calm_from for one in known) >= 20,
            "requests without the lost node",
            within_s=40,
        )
        healed_at = time.monotonic()
        lab.heal("n1")
        load.wait_for(
            lambda known: any(
                one.started_at > healed_at and author(one) == "alpha" for one in known
            ),
            "an answer of the healed node",
            within_s=BACK_WITHIN_S,
        )
        exchanges = load.finish()

    verify(exchanges, longest_s=LONGEST_S)

    def is_calm(one: Exchange) -> bool:
        return calm_from < one.started_at and one.ended_at < healed_at

    calm = [one for one in exchanges if is_calm(one)]
    slow = [one.describe() for one in calm if one.took_s > CALM_S or author(one) != "beta"]
    assert not slow, slow
