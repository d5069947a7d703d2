"""Setting a mesh up: certificates of either origin, leaves in all positions, faults in one line."""

import json
from pathlib import Path

import msgspec
import pytest

from opentela.core.errors import ConfigError, CredentialError
from opentela.mesh import admission, files, jwt_reader, setup, tls
from opentela.mesh.layout import MeshLayout
from opentela.mesh.listeners import Listeners
from opentela.mesh.setup import LeafOptions

NOW = 1_800_000_000.0
PLAIN = Listeners(hosts=("127.0.0.1",), port=4222, leaf_port=7422, websocket_port=8443)
ENCRYPTED = msgspec.structs.replace(PLAIN, hosts=("hub",), tls="auto")


@pytest.fixture
def plain(tmp_path: Path) -> MeshLayout:
    """Give a mesh on loopback."""
    return setup.init_mesh(tmp_path / "mesh", PLAIN, now=NOW)


def certificate(folder: Path) -> Listeners:
    """Return listeners with a certificate from elsewhere."""
    authority = tls.authority(name="ours", now=NOW)
    pair = tls.server(authority, hosts=("hub",), now=NOW)
    for name, text in (("c.pem", pair.certificate), ("k.pem", pair.key), ("ca.pem", authority[0])):
        (folder / name).write_text(text)
    return msgspec.structs.replace(
        ENCRYPTED,
        tls="files",
        certificate=folder / "c.pem",
        key=folder / "k.pem",
        ca=folder / "ca.pem",
    )


def test_urls_follow_from_hosts_ports_and_encryption(tmp_path: Path) -> None:
    """Every host is one; a port that the system chooses has no URL yet."""
    hosts = ("hub1", "hub2")
    facts = setup.init_mesh(
        tmp_path / "a", msgspec.structs.replace(ENCRYPTED, hosts=hosts, leaf_port=0), now=NOW
    ).facts
    assert facts.servers == ("tls://hub1:4222", "tls://hub2:4222")
    assert facts.websockets == ("wss://hub1:8443", "wss://hub2:8443")
    assert facts.leaf_servers == ()
    plain = setup.init_mesh(tmp_path / "b", PLAIN, now=NOW).facts
    assert plain.servers == ("nats://127.0.0.1:4222",)
    assert plain.websockets == ("ws://127.0.0.1:8443",)
    assert plain.leaf_servers == ("nats://127.0.0.1:7422",)


def test_certificates_from_elsewhere_are_used_where_they_lie(tmp_path: Path) -> None:
    """Access files then name their authority; the mesh has none of its own."""
    layout = setup.init_mesh(tmp_path / "mesh", certificate(tmp_path), now=NOW)
    assert f'cert_file: "{tmp_path / "c.pem"}"' in layout.conf.read_text()
    access = setup.role_access(layout, role="router", name="r", now=NOW)
    assert access.ca == (tmp_path / "ca.pem").read_text()
    assert not layout.facts.is_own_authority
    leaf = LeafOptions(site="a", listeners=msgspec.structs.replace(ENCRYPTED, leaf_port=None))
    with pytest.raises(ConfigError, match="no authority of its own"):
        setup.add_leaf(layout, leaf, now=NOW)


def test_certificates_that_every_system_knows_need_no_authority(tmp_path: Path) -> None:
    """Neither in access files nor in a leaf's folder."""
    known = msgspec.structs.replace(certificate(tmp_path), ca=None)
    layout = setup.init_mesh(tmp_path / "mesh", known, now=NOW)
    assert setup.role_access(layout, role="router", name="r", now=NOW).ca == ""
    leaf = setup.add_leaf(layout, LeafOptions(site="a"), now=NOW)
    assert "ca_file" not in leaf.conf.read_text()
    assert not (leaf.root / "ca.pem").exists()


def test_a_sites_own_certificate_adds_its_authority_to_the_meshs(tmp_path: Path) -> None:
    """Whoever gets an access file afterwards trusts either, once each."""
    layout = setup.init_mesh(tmp_path / "mesh", ENCRYPTED, now=NOW)
    own = layout.ca.read_text()
    site = msgspec.structs.replace(certificate(tmp_path), leaf_port=None, websocket_port=None)
    for _ in range(2):
        setup.add_leaf(layout, LeafOptions(site="a", listeners=site), now=NOW)
    assert layout.ca.read_text() == own + (tmp_path / "ca.pem").read_text()
    # The first is still the one that signs.
    leaf = LeafOptions(site="b", listeners=msgspec.structs.replace(ENCRYPTED, leaf_port=None))
    assert (setup.add_leaf(layout, leaf, now=NOW).root / "tls" / "server.pem").exists()


@pytest.mark.parametrize(
    ("listeners", "fault"),
    [
        (msgspec.structs.replace(PLAIN, hosts=()), "hosts is empty"),
        (msgspec.structs.replace(PLAIN, listen="192.0.2.1"), "in the clear"),
        (msgspec.structs.replace(ENCRYPTED, tls="files"), "needs a certificate and a key"),
        (
            msgspec.structs.replace(
                ENCRYPTED, tls="files", certificate=Path("c"), key=Path("k"), ca=Path("/no/ca")
            ),
            "cannot read ca",
        ),
    ],
)
def test_listeners_that_make_no_sense_are_refused(
    tmp_path: Path, listeners: Listeners, fault: str
) -> None:
    """In one line."""
    with pytest.raises(ConfigError, match=fault):
        setup.init_mesh(tmp_path / "mesh", listeners, now=NOW)


def test_a_leaf_dials_what_it_is_told_or_what_the_hub_offers(plain: MeshLayout) -> None:
    """Its leaf port, its websocket, or any address; nothing that is no address."""
    for options, expected in (
        (LeafOptions(site="a"), "nats-leaf://127.0.0.1:7422"),
        (LeafOptions(site="a", is_websocket=True), "ws://127.0.0.1:8443"),
        (LeafOptions(site="a", hubs=("tls://x:7422",)), "tls://x:7422"),
    ):
        assert f'"{expected}"' in setup.add_leaf(plain, options, now=NOW).conf.read_text()
    with pytest.raises(ConfigError, match="unknown scheme"):
        setup.add_leaf(plain, LeafOptions(site="b", hubs=("ftp://x",)), now=NOW)
    with pytest.raises(ConfigError, match="is not a name"):
        setup.add_leaf(plain, LeafOptions(site="b", behind=("C",)), now=NOW)
    assert not plain.leaf("b").exists()


def test_a_leafs_folder_holds_all_that_it_needs_and_no_key_of_the_mesh(plain: MeshLayout) -> None:
    """It is copied to a site that the operator does not own."""
    leaf = setup.add_leaf(plain, LeafOptions(site="a"), now=NOW)
    facts = plain.facts
    assert {path.name for path in leaf.root.rglob("*") if path.is_file()} == {
        "leaf.conf",
        "leaf.creds",
        "sys.creds",
        f"{facts.account}.jwt",
        f"{facts.system}.jwt",
    }
    everything = "".join(path.read_text() for path in leaf.root.rglob("*") if path.is_file())
    for seed in (plain.root / "keys").iterdir():
        assert seed.read_text().strip() not in everything


def test_revocations_stand_in_the_account_that_the_user_belongs_to(plain: MeshLayout) -> None:
    """A leaf has a user in each; a provider of the same name as a role is somebody else."""
    setup.invite(plain, provider="x", now=NOW)
    setup.role_access(plain, role="router", name="x", now=NOW)
    setup.add_leaf(plain, LeafOptions(site="a"), now=NOW)
    assert [one.role for one in setup.revoke(plain, provider="x", now=NOW + 1)] == ["provider"]
    assert len(setup.revoke(plain, name="leaf-a", now=NOW + 1)) == 2
    facts = plain.facts
    mesh, system = (
        jwt_reader.claims(plain.account_jwt(key))["nats"]["revocations"]
        for key in (facts.account, facts.system)
    )
    assert (len(mesh), len(system)) == (2, 1)
    assert [one.role for one in setup.revoke(plain, name="x", now=NOW + 2)] == ["router"]


def test_a_revocation_is_forgotten_when_it_has_expired_anyhow(plain: MeshLayout) -> None:
    """An account stays small however many jobs come and go."""
    setup.invite(plain, provider="p", now=NOW, expires_at=NOW + 100)
    setup.invite(plain, provider="p", now=NOW)
    setup.revoke(plain, provider="p", now=NOW + 1)
    account = plain.facts.account
    assert len(jwt_reader.claims(plain.account_jwt(account))["nats"]["revocations"]) == 2
    admission.renew_accounts(plain, now=NOW + 101)
    assert len(jwt_reader.claims(plain.account_jwt(account))["nats"]["revocations"]) == 1


def test_a_name_belongs_to_one_role(plain: MeshLayout) -> None:
    """Answers go by it; a second access for the same role is a second process."""
    setup.role_access(plain, role="router", name="edge", now=NOW)
    setup.role_access(plain, role="router", name="edge", now=NOW)
    with pytest.raises(ConfigError, match="name of a router already"):
        setup.role_access(plain, role="registry", name="edge", now=NOW)
    setup.invite(plain, provider="edge", now=NOW)


def test_a_folder_without_a_mesh_or_with_a_damaged_one_is_told(tmp_path: Path) -> None:
    """With what to do."""
    layout = MeshLayout(tmp_path)
    with pytest.raises(ConfigError, match="there is no mesh in") as caught:
        _ = layout.facts
    assert "--dir" in caught.value.remedy
    (tmp_path / "mesh.json").write_text("{")
    with pytest.raises(ConfigError, match=r"mesh\.json: ") as caught:
        _ = layout.facts
    assert "backup" in caught.value.remedy


@pytest.mark.parametrize("folder", ["", "missing"])
def test_nobody_is_let_into_a_mesh_that_is_not_there(tmp_path: Path, folder: str) -> None:
    """Who runs a command in the wrong folder is told so."""
    layout = MeshLayout(tmp_path / folder)
    for admit in (
        lambda: setup.invite(layout, provider="p", now=NOW),
        lambda: setup.role_access(layout, role="router", name="r", now=NOW),
        lambda: setup.add_leaf(layout, LeafOptions(site="a"), now=NOW),
        lambda: setup.revoke(layout, provider="p", now=NOW),
    ):
        with pytest.raises(ConfigError, match="there is no mesh in") as caught:
            admit()
        assert "--dir" in caught.value.remedy


def test_a_key_that_others_could_read_is_not_used(plain: MeshLayout) -> None:
    """Whoever reads it owns the mesh."""
    (plain.root / "keys" / "signing.seed").chmod(0o644)
    with pytest.raises(CredentialError, match="can be read by others"):
        setup.invite(plain, provider="p", now=NOW)


def test_public_facts_hold_no_secret(plain: MeshLayout) -> None:
    """`mesh.json` may be shown to anybody."""
    text = (plain.root / "mesh.json").read_text()
    assert set(json.loads(text)) == {
        "account",
        "has_jetstream",
        "is_own_authority",
        "leaf_servers",
        "name",
        "operator",
        "servers",
        "signing",
        "system",
        "websockets",
    }
    for seed in (plain.root / "keys").iterdir():
        assert seed.read_text().strip() not in text


def test_a_mesh_whose_making_failed_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk leaves half of one, which could neither run nor be replaced without a word."""
    root = tmp_path / "mesh"
    write = files.write

    def fail_at_last(path: Path, text: str, *, mode: int = files.PRIVATE_FILE) -> None:
        if path.name == "hub.conf":
            raise ConfigError("no space", remedy="make some")
        write(path, text, mode=mode)

    with monkeypatch.context() as patch:
        patch.setattr(files, "write", fail_at_last)
        with pytest.raises(ConfigError, match="no space"):
            setup.init_mesh(root, Listeners(), now=1.0)
    half = MeshLayout(root)
    assert not half.exists
    made = setup.init_mesh(root, Listeners(), now=2.0)
    assert made.exists
    assert made.conf.exists()
    accounts = {made.facts.account, made.facts.system}
    assert {path.stem for path in made.jwt_dir.iterdir()} == accounts, "of the first attempt"
