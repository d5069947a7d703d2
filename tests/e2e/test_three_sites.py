"""A site is cut off while sessions are born and die on both sides; healed, all is known."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.netns import Lab
from tests.e2e.processes import wait_until
from tests.e2e.product import Namespace, Product, wait_for_models
from tests.e2e.scenes import MODEL, Load, author, fake_engine, verify
from tests.e2e.three_sites import CUT_OFF, ELSEWHERE, SITES, ThreeSites

pytestmark = [
    pytest.mark.netns,
    pytest.mark.nats,
    pytest.mark.slow,
    pytest.mark.timeout(300),
]

GRACE_S = 3.0
"""Shorter than the cut: were the cut-off taken for dead, they would be given up within it."""
SIZE = 2
REQUESTS = 8
LONGEST_S = 30.0
AGREE_WITHIN_S = 60.0
"""Generous: what it takes is measured by `make bench-registry`."""


@pytest.fixture
def lab() -> Iterator[Lab]:
    """A hub, a client, and three sites behind a NAT router."""
    with Lab(SITES) as made:
        yield made


def served_by(load: Load, name: str) -> None:
    """Wait until an engine that the client can reach has answered some requests of late."""
    before = len(load.history())
    load.wait_for(
        lambda known: sum(author(one) == name for one in known[before:]) >= REQUESTS,
        f"answers of {name}",
        within_s=AGREE_WITHIN_S,
    )


def told(maps: dict[str, Any], session: str) -> set[tuple[str, bool]]:
    """Return what the views say of a session: its lifecycle, and whether it can be used."""
    return {
        (one["lifecycle"], one["routable"])
        for view in maps.values()
        for one in [view["records"][session]]
    }


def test_both_sides_of_a_cut_serve_and_agree_after_it(lab: Lab, tmp_path: Path) -> None:
    """Nobody who lived is lost, nobody who ended rises, and every view says the same."""
    with Product(tmp_path, public=Namespace(lab, "hub")) as product:
        mesh = ThreeSites(lab, product, f"detector.grace_s={GRACE_S}", size=SIZE)
        for site, name in ((CUT_OFF, "alpha"), (ELSEWHERE, "beta")):
            product.start_engine(f"{site}-serves", mesh.leaves[site], fake_engine(name))
        mesh.wait_for(("stays", "dies", "leaves"))
        for router in mesh.routers.values():
            wait_for_models(router, MODEL, sessions=2)
        inner = Load(product, mesh.routers[CUT_OFF], place=Namespace(lab, CUT_OFF), concurrency=2)
        outer = Load(product, mesh.routers["hub"], place=Namespace(lab, "client"), concurrency=2)
        with mesh.cut():
            mesh.change_everything()
            served_by(inner, "alpha")
            served_by(outer, "beta")
            mesh.wait_for(("born", "stays"), f"view-{CUT_OFF}", side=CUT_OFF)
            mesh.wait_for(("born", "stays"), "view-hub", side=ELSEWHERE)
            mesh.wait_until_out(f"view-{CUT_OFF}", side=ELSEWHERE)
            mesh.wait_until_out("view-hub", side=CUT_OFF)
        mesh.wait_for(("born", "stays"))
        fates = mesh.fates()
        ended = fates["dies"] + fates["leaves"]
        wait_until(
            lambda: all(len(mesh.sightings.left_at(one)) == len(mesh.views) for one in ended),
            "the end of all that died or left, in every view",
            within_s=AGREE_WITHIN_S,
        )
        wait_until(
            lambda: len({view["digest"] for view in mesh.maps().values()}) == 1,
            "equal maps in every view",
            within_s=AGREE_WITHIN_S,
        )
        served_by(inner, "beta")
        served_by(outer, "alpha")
        maps = dict(mesh.maps())
        for load in (inner, outer):
            verify(load.finish(), longest_s=LONGEST_S)
    assert {fate: len(sessions) for fate, sessions in fates.items()} == {
        **dict.fromkeys(("stays", "dies", "leaves", "born"), 2 * SIZE),
        "serves": 2,
    }
    for session in fates["stays"] + fates["born"] + fates["serves"]:
        assert told(maps, session) == {("SERVING", True)}, session
    for session in ended:
        assert told(maps, session) == {("LEFT", False)}, session
    assert mesh.sightings.risen() == []
