"""Names behind a leaf that nobody bears are told, each with what to do."""

from pathlib import Path

from opentela.mesh import setup
from opentela.mesh.layout import MeshLayout
from opentela.mesh.leaf_members import unknown
from opentela.mesh.permissions import Member, Role
from opentela.mesh.setup import LOOPBACK, LeafOptions, Listeners

NOW = 1_800_000_000.0
OPTIONS = LeafOptions(
    site="a",
    providers=("p", "q"),
    members=(
        Member(role=Role.REGISTRY, name="r1"),
        Member(role=Role.ROUTER, name="nobody"),
    ),
    behind=("b",),
    listeners=Listeners(tls="none", hosts=(LOOPBACK,), port=1, leaf_port=2),
)


def mesh(folder: Path) -> MeshLayout:
    listeners = Listeners(tls="none", hosts=(LOOPBACK,), port=0, leaf_port=3)
    return setup.init_mesh(folder, listeners, now=NOW)


def test_each_unknown_name_is_told_with_its_remedy(tmp_path: Path) -> None:
    """A slip of the pen otherwise shows when nothing arrives."""
    layout = mesh(tmp_path)
    setup.role_access(layout, role="registry", name="r1", now=NOW)
    setup.invite(layout, provider="p", now=NOW)
    assert unknown(layout.admissions, OPTIONS) == [
        "no router nobody was let in yet; otela mesh role --role router --name nobody",
        "no provider q was let in yet; otela mesh invite --provider q",
        "no site b is known yet; otela mesh leaf --site b --hub, with this leaf's address",
    ]


def test_whoever_was_thrown_out_counts_as_unknown(tmp_path: Path) -> None:
    """And whoever is let in later does not."""
    layout = mesh(tmp_path)
    for provider in ("p", "q"):
        setup.invite(layout, provider=provider, now=NOW)
    setup.role_access(layout, role="registry", name="r1", now=NOW)
    setup.role_access(layout, role="router", name="nobody", now=NOW)
    setup.add_leaf(layout, LeafOptions(site="b", listeners=OPTIONS.listeners), now=NOW)
    assert unknown(layout.admissions, OPTIONS) == []
    setup.revoke(layout, provider="p", now=NOW)
    assert len(unknown(layout.admissions, OPTIONS)) == 1
