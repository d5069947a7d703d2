"""A node's packets vanish: it is left in seconds, nobody waits for TCP, and it comes back."""

import time
from pathlib import Path

import pytest
from tests.e2e.history import Exchange
from tests.e2e.netns import Cut, Lab
from tests.e2e.product import NOTHING_TO_LEARN, Namespace, Product, wait_for_models
from tests.e2e.scenes import MODEL, Load, author, fake_engine, verify

pytestmark = [
    pytest.mark.netns,
    pytest.mark.nats,
    pytest.mark.slow,
    pytest.mark.timeout(240),
]

LONGEST_S = 15.0
"""Silence within a stream counts as loss after 5 s; one attempt elsewhere follows."""
ROUTED_AWAY_S = 7.0
"""Five missed heartbeats of 1 s, and a probe: after that the node is not even tried."""
CALM_REQUESTS = 12
CALM_S = 4.5
"""A request that meets no fault takes 0.5 s; one that goes on waiting for the lost node, 5 s. One
that is asked elsewhere after it is known by its attempts."""
BACK_WITHIN_S = 60.0


class Cycle:
    """One partition of a node, from its beginning to the first answer after it."""

    def __init__(self, lab: Lab, load: Load, cut: Cut) -> None:
        self.cut = cut
        load.wait_for(lambda known: answers(known, load.started_at, "alpha"), "alpha", within_s=60)
        self.cut_at = time.monotonic()
        lab.partition("n1", cut)
        self.calm_from = self.cut_at + ROUTED_AWAY_S
        load.wait_for(
            lambda known: sum(one.started_at > self.calm_from for one in known) >= CALM_REQUESTS,
            f"requests without the lost node ({cut.value})",
            within_s=ROUTED_AWAY_S + 30,
        )
        self.healed_at = time.monotonic()
        lab.heal("n1")
        load.wait_for(
            lambda known: answers(known, self.healed_at, "alpha"),
            f"an answer of the healed node ({cut.value})",
            within_s=BACK_WITHIN_S,
        )

    def disturbed(self, exchanges: list[Exchange]) -> list[str]:
        """Return the requests that noticed the lost node after it should have been left."""
        calm = [
            one
            for one in exchanges
            if self.calm_from < one.started_at and one.ended_at < self.healed_at
        ]
        return [
            f"{self.cut.value}: {one.describe()}"
            for one in calm
            if one.took_s > CALM_S or one.attempts > 1 or author(one) != "beta"
        ]


def answers(exchanges: list[Exchange], since: float, name: str) -> bool:
    """Return whether the engine *name* answered a request that was sent after *since*."""
    return any(one.started_at > since and author(one) == name for one in exchanges)


def test_a_half_open_node_is_left_within_seconds_and_comes_back(lab: Lab, tmp_path: Path) -> None:
    """No request waits for a TCP time-out, whichever direction is silent; healed, it serves."""
    with Product(tmp_path, public=Namespace(lab, "hub")) as product:
        product.start_hub()
        product.start_registry("registry", NOTHING_TO_LEARN)
        router = product.start_router()
        for node, name in zip(lab.nodes, ("alpha", "beta"), strict=True):
            leaf = product.start_leaf(f"site-{node}", Namespace(lab, node))
            product.start_engine(name, leaf, fake_engine(name))
        wait_for_models(router, MODEL, sessions=2)
        load = Load(product, router, place=Namespace(lab, "client"), concurrency=4)
        cycles = [Cycle(lab, load, cut) for cut in Cut]
        exchanges = load.finish()
    verify(exchanges, longest_s=LONGEST_S)
    disturbed = [line for cycle in cycles for line in cycle.disturbed(exchanges)]
    assert not disturbed, "\n".join(disturbed)
