"""A mesh of an earlier version works as a new one does, without a new access file."""

from pathlib import Path

import msgspec
import pytest

from opentela.core.errors import CredentialError
from opentela.mesh import access as accesses
from opentela.mesh import files, setup, warrants
from opentela.mesh.access import Access
from opentela.mesh.admission import issue
from opentela.mesh.layout import MeshLayout
from opentela.mesh.permissions import Permissions
from opentela.mesh.setup import LOOPBACK, Listeners
from opentela.mesh.upgrade import upgraded

NOW = 1_800_000_000.0
LISTENERS = Listeners(tls="none", hosts=(LOOPBACK,), port=4222, leaf_port=None)


def old_mesh(folder: Path) -> MeshLayout:
    """Make a mesh as earlier versions did: without streams and warrants."""
    layout = setup.init_mesh(folder, LISTENERS, now=NOW)
    (folder / "jetstream").rmdir()
    for access in (
        setup.invite(layout, provider="p", site="a", now=NOW),
        setup.role_access(layout, role="registry", name="r", now=NOW),
        setup.role_access(layout, role="router", name="edge", now=NOW),
    ):
        accesses.write(layout.access(access.name), msgspec.structs.replace(access, warrant=""))
    return layout


def test_an_old_mesh_gets_streams_and_warrants_once(tmp_path: Path) -> None:
    """Keys and addresses stay; the second time there is nothing to do."""
    layout = old_mesh(tmp_path)
    before = layout.admissions
    provider = accesses.read(layout.access("p"))
    with pytest.raises(CredentialError, match="holds no warrant"):
        warrants.of(provider)
    done = upgraded(layout, now=NOW)
    assert [line.partition(" ")[0] for line in done] == ["the", "p.toml", "r.toml"]
    assert layout.admissions == before
    assert layout.facts.has_jetstream
    assert layout.conf.read_text().count("jetstream {") == 1
    assert (tmp_path / "jetstream").is_dir()
    assert upgraded(layout, now=NOW) == []
    after = accesses.read(layout.access("p"))
    assert (after.credentials, after.site) == (provider.credentials, "a")
    assert warrants.of(after).site == "a"
    assert warrants.seal(accesses.read(layout.access("r"))).name == "r"


def test_the_warrant_is_the_one_that_a_new_access_would_have(tmp_path: Path) -> None:
    """Registries believe whoever bears it."""
    layout = setup.init_mesh(tmp_path / "mesh", LISTENERS, now=NOW)
    fresh = setup.invite(layout, provider="p", now=NOW, expires_at=NOW + 60)
    folder = tmp_path / "elsewhere"
    files.make_private_dir(folder)
    path = folder / "provider.toml"
    accesses.write(path, msgspec.structs.replace(fresh, warrant=""))
    upgraded(layout, now=NOW, folders=[folder])
    assert accesses.read(path) == fresh


@pytest.mark.parametrize("role", ["placer", "provider"])
def test_who_was_let_in_when_less_was_said_may_say_what_is_said_now(
    tmp_path: Path, role: str
) -> None:
    """Under the same key; a placer hears usage then, a provider's agents hear commands."""
    layout = setup.init_mesh(tmp_path, LISTENERS, now=NOW)
    fresh = (
        setup.invite(layout, provider="p", site="a", now=NOW)
        if role == "provider"
        else setup.role_access(layout, role="placer", name="p", now=NOW)
    )
    (admission,) = (one for one in layout.admissions if one.key == fresh.identity.key)
    less = issue(layout, admission, Permissions(publish=("otela.v1.x",), subscribe=()))
    old = accesses.credentials(less, fresh.identity)
    accesses.write(layout.access("p"), msgspec.structs.replace(fresh, credentials=old))
    *_, line = upgraded(layout, now=NOW)
    assert line.startswith("p.toml has the permissions of this version now")
    assert accesses.read(layout.access("p")) == fresh
    assert upgraded(layout, now=NOW) == []


def test_a_file_that_is_no_access_stays_as_it_is(tmp_path: Path) -> None:
    """The others are seen to all the same."""
    layout = old_mesh(tmp_path)
    files.write(layout.access("a"), "no access")
    assert upgraded(layout, now=NOW)[1].startswith("a.toml stays as it is: ")
    assert layout.access("a").read_text() == "no access"
    assert accesses.read(layout.access("p")).warrant


@pytest.mark.parametrize("how", ["revoked", "expired", "strange"])
def test_who_is_out_gets_no_warrant(tmp_path: Path, how: str) -> None:
    """Neither does the access of another mesh."""
    layout = setup.init_mesh(tmp_path / "mesh", LISTENERS, now=NOW)
    other = setup.init_mesh(tmp_path / "other", LISTENERS, now=NOW) if how == "strange" else layout
    expires_at = NOW - 1 if how == "expired" else 0.0
    access: Access = setup.invite(other, provider="p", now=NOW - 9, expires_at=expires_at)
    if how == "revoked":
        setup.revoke(layout, provider="p", now=NOW)
    accesses.write(layout.access("p"), msgspec.structs.replace(access, warrant=""))
    assert "p.toml opens this mesh no more, and stays as it is" in upgraded(layout, now=NOW)
    assert accesses.read(layout.access("p")).warrant == ""
