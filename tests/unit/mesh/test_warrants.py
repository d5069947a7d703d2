"""Warrants in access files, with real keys."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from opentela.core.errors import ConfigError, CredentialError
from opentela.core.record import Warrant
from opentela.mesh import access as accesses
from opentela.mesh import setup, warrants
from opentela.mesh.access import Access
from opentela.mesh.layout import MeshLayout
from opentela.mesh.listeners import Listeners
from opentela.testing.owner import BORN_AT_MS, Owner

NOW = BORN_AT_MS / 1000


def new_mesh(root: Path) -> MeshLayout:
    return setup.init_mesh(root, Listeners(hosts=(setup.LOOPBACK,)), now=NOW)


@pytest.fixture
def mesh(tmp_path: Path) -> MeshLayout:
    return new_mesh(tmp_path / "mesh")


def claims(access: Access, *, site: str = "s", number: int = 0) -> Owner:
    """Return what a supervisor claims with *access*."""
    owner = Owner(access.identity, provider=access.provider, site=site, number=number)
    owner.say(warrant=warrants.of(access))
    return owner


def test_whoever_was_invited_is_believed_by_whoever_was_let_in(
    mesh: MeshLayout, tmp_path: Path
) -> None:
    """The access files of both are all that it takes."""
    path = tmp_path / "provider.toml"
    accesses.write(path, setup.invite(mesh, provider="p", now=NOW))
    router = setup.role_access(mesh, role="router", name="router1", now=NOW)
    owner = claims(accesses.read(path))
    assert warrants.authority(router)(owner.claim, owner.signed) == ""


def test_another_mesh_is_not_believed(mesh: MeshLayout, tmp_path: Path) -> None:
    """Though its provider has the same name."""
    other = new_mesh(tmp_path / "other")
    owner = claims(setup.invite(other, provider="p", now=NOW))
    router = setup.role_access(mesh, role="router", name="router1", now=NOW)
    assert "nobody whom this mesh trusts" in warrants.authority(router)(owner.claim, owner.signed)


def test_the_limits_of_an_invitation_are_in_its_warrant(mesh: MeshLayout) -> None:
    """Site and expiry, as the servers enforce them."""
    access = setup.invite(mesh, provider="p", site="t", now=NOW, expires_at=NOW + 60)
    warrant = warrants.of(access)
    assert (warrant.site, warrant.expires_at) == ("t", NOW + 60)
    authority = warrants.authority(access)
    here, there = claims(access, site="t"), claims(access, site="s")
    assert authority(here.claim, here.signed) == ""
    assert authority(there.claim, there.signed) == "its key is warranted for site t, not s"


def test_two_sessions_of_one_key_differ(mesh: MeshLayout) -> None:
    """All supervisors of a provider claim with one key, each session under an id of its own."""
    access = setup.invite(mesh, provider="p", now=NOW)
    one, other = claims(access, number=1), claims(access, number=2)
    assert one.claim.key == other.claim.key
    assert one.claim.session != other.claim.session


@pytest.mark.parametrize("text", ["", "%", "AAAA", "gaFh"])
def test_an_access_without_a_warrant_is_refused_in_words(mesh: MeshLayout, text: str) -> None:
    """Before anything is started that nobody would believe."""
    access = replace(setup.invite(mesh, provider="p", now=NOW), warrant=text)
    with pytest.raises(CredentialError, match="holds no warrant") as caught:
        warrants.of(access)
    assert "otela mesh invite" in caught.value.line()


def test_an_access_with_a_damaged_jwt_trusts_nobody(mesh: MeshLayout) -> None:
    """It fails, in words, rather than believing anybody."""
    access = setup.invite(mesh, provider="p", now=NOW)
    for jwt in ("x", "a.b.c", "a.e30.c", "a.W10.c"):
        damaged = replace(access, credentials=accesses.credentials(jwt, access.identity))
        with pytest.raises(CredentialError, match="damaged JWT"):
            warrants.authority(damaged)


def test_a_warrant_is_small(mesh: MeshLayout) -> None:
    """It is in every claim: less than a tenth of the JWT that says the same."""
    access = setup.invite(mesh, provider="p" * 20, site="s" * 20, now=NOW, expires_at=NOW + 60)
    text = warrants.written(warrants.of(access))
    assert warrants.of(access) != Warrant()
    assert len(text) < len(access.jwt) / 8


def test_what_a_registry_says_is_believed_by_whoever_was_let_in(
    mesh: MeshLayout, tmp_path: Path
) -> None:
    """By its access file alone; of another mesh's registry nothing is."""
    path = tmp_path / "registry.toml"
    accesses.write(path, setup.role_access(mesh, role="registry", name="r1", site="a", now=NOW))
    seal = warrants.seal(accesses.read(path))
    assert (seal.name, seal.site) == ("r1", "a")
    owner = claims(setup.invite(mesh, provider="p", now=NOW))
    meant = owner.claim.lifecycle, owner.claim.incarnation
    statement = seal.state(owner.claim.session, meant, quorum=1, sites=1)
    router = setup.role_access(mesh, role="router", name="router1", now=NOW)
    assert warrants.authority(router).statement(owner.claim.session, statement) == ""
    other = setup.role_access(new_mesh(tmp_path / "other"), role="registry", name="r1", now=NOW)
    lie = warrants.seal(other).state(owner.claim.session, meant, quorum=1, sites=1)
    assert warrants.authority(router).statement(owner.claim.session, lie)


def test_a_registry_without_a_warrant_is_told_what_to_do(mesh: MeshLayout) -> None:
    """Its access file is of a version in which registries did not sign."""
    access = replace(setup.role_access(mesh, role="registry", name="r1", now=NOW), warrant="")
    with pytest.raises(CredentialError, match="registry r1 holds no warrant"):
        warrants.seal(access)


def test_only_a_registry_is_at_a_site(mesh: MeshLayout) -> None:
    """Of the others nobody asks where they are."""
    with pytest.raises(ConfigError, match="a router has no site"):
        setup.role_access(mesh, role="router", name="router1", site="a", now=NOW)
