"""How soon all views agree after a site was cut off for a minute, on real servers.

Three sites and a hub in network namespaces, each with a registry and a view; on both sides of the
cut some nodes die, some leave and some are born. Packets vanish; nothing is reset.
"""

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.bench.report import Figure
from tests.e2e.netns import Lab
from tests.e2e.processes import wait_until
from tests.e2e.product import Namespace, Product
from tests.e2e.three_sites import SITES, ThreeSites

CUT_S: Final = 60.0
QUICK_CUT_S: Final = 10.0
SIZE: Final = 10
"""Nodes of each fate on each side: eighty in all."""
QUICK_SIZE: Final = 2
SETTLED_S: Final = 15.0
AGREED_WITHIN_S: Final = 5.0
END_WITHIN_S: Final = 150.0


def run(*, quick: bool) -> list[Figure]:
    """Cut a site off once."""
    size, cut_s = (QUICK_SIZE, QUICK_CUT_S) if quick else (SIZE, CUT_S)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        lab = stack.enter_context(Lab(SITES))
        product = stack.enter_context(Product(folder, public=Namespace(lab, "hub")))
        mesh = ThreeSites(lab, product, size=size)
        mesh.wait_for(("stays", "dies", "leaves"))
        with mesh.cut():
            time.sleep(cut_s / 2)
            mesh.change_everything()
            time.sleep(cut_s / 2)
        healed_at = time.monotonic()
        time.sleep(SETTLED_S)
        return _figures(mesh, healed_at, f"{4 * 2 * size} nodes, cut of {cut_s:g} s")


def _figures(mesh: ThreeSites, healed_at: float, name: str) -> list[Figure]:
    fates = mesh.fates()
    live, ended = fates["stays"] + fates["born"], fates["dies"] + fates["leaves"]
    agreed_at = mesh.sightings.agreed_at(healed_at, live)
    lost = [one for one in live if one not in mesh.sightings.routable()]

    def have_ended() -> bool:
        return all(len(mesh.sightings.left_at(one)) == len(mesh.views) for one in ended)

    wait_until(have_ended, "the end of the ended in every view", within_s=END_WITHIN_S)
    ends_s = time.monotonic() - healed_at
    wait_until(
        lambda: len({view["digest"] for view in mesh.maps().values()}) == 1,
        "equal maps in every view",
        within_s=END_WITHIN_S,
    )
    risen = len(mesh.sightings.risen())
    agreed_s = float("inf") if agreed_at is None else agreed_at - healed_at
    return [
        Figure.below(f"equal views after healing, {name}", agreed_s, "s", AGREED_WITHIN_S),
        Figure(f"sessions lost, {name}", len(lost), "", "= 0", not lost),
        Figure(f"sessions that rose again, {name}", risen, "", "= 0", not risen),
        Figure(f"LEFT everywhere, those that died, {name}", ends_s, "s"),
    ]
