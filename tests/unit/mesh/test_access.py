"""Access files: read back whole, private, and clear about what is wrong with them."""

import stat
from pathlib import Path

import msgspec
import pytest

from opentela.core.errors import ConfigError, CredentialError
from opentela.mesh import access as accesses
from opentela.mesh import tls
from opentela.mesh.access import Access, Server
from opentela.mesh.identity import Identity

IDENTITY = Identity(bytes(range(32)), Identity.new()._kind)
CREDENTIALS = accesses.credentials("the.j.wt", IDENTITY)
ACCESS = Access(
    name="p",
    role="provider",
    provider="p",
    site="a",
    servers=("tls://hub.example.org:4222", "wss://hub.example.org:443"),
    ca=tls.authority(name="test", now=1_800_000_000.0).certificate,
    credentials=CREDENTIALS,
)


def test_an_access_file_is_read_back_as_written(tmp_path: Path) -> None:
    """With mode 0600 from its first byte, and no trace of the writing left."""
    path = tmp_path / "p.toml"
    accesses.write(path, ACCESS)
    assert accesses.read(path) == ACCESS
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["p.toml"]


def test_an_access_file_without_options_is_read_back_too(tmp_path: Path) -> None:
    """What is empty is not written."""
    path = tmp_path / "r.toml"
    plain = Access(name="r", role="router", servers=("nats://h:1",), credentials=CREDENTIALS)
    accesses.write(path, plain)
    assert accesses.read(path) == plain
    assert "\nca =" not in path.read_text()


def test_what_a_newer_version_adds_is_not_read(tmp_path: Path) -> None:
    """A file of tomorrow lets a process of today in."""
    path = tmp_path / "p.toml"
    accesses.write(path, ACCESS)
    path.write_text(path.read_text() + '\nnovelty = "x"\n')
    assert accesses.read(path) == ACCESS


def test_an_access_knows_its_key_and_jwt_and_does_not_show_them() -> None:
    """They are for the handshake, not for logs."""
    assert ACCESS.jwt == "the.j.wt"
    assert ACCESS.identity.key == IDENTITY.key
    assert IDENTITY.seed not in repr(ACCESS)
    assert "the.j.wt" not in repr(ACCESS)


def test_the_own_authority_is_the_only_one_trusted() -> None:
    """No public authority may vouch for a server of the mesh; without one, the system's do."""
    own = ACCESS.tls()
    assert own.check_hostname
    assert [one["subject"] for one in own.get_ca_certs()] == [((("commonName", "test"),),)]
    system = Access(name="r", role="router", servers=(), credentials=CREDENTIALS).tls()
    assert system.check_hostname
    with pytest.raises(CredentialError, match="not a PEM certificate"):
        Access(name="r", role="router", servers=(), credentials="", ca="nonsense").tls()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("tls://h:1", Server("tls", "h", 1)),
        ("nats://h", Server("nats", "h", 4222)),
        ("h:1", Server("nats", "h", 1)),
        ("wss://h", Server("wss", "h", 443)),
        ("ws://h/", Server("ws", "h", 80)),
        ("tls://[::1]:7", Server("tls", "::1", 7)),
    ],
)
def test_a_server_is_named_by_scheme_host_and_port(url: str, expected: Server) -> None:
    """Each scheme has its usual port."""
    server = accesses.server(url)
    assert server == expected
    assert accesses.server(server.url) == expected
    assert server.is_encrypted == (server.scheme in ("tls", "wss"))
    assert server.is_websocket == (server.scheme in ("ws", "wss"))


@pytest.mark.parametrize(
    "url",
    ["http://h", "tls://", "tls://h:port", "tls://h:99999", "tls://u:p@h", "wss://h/path", ""],
)
def test_what_names_no_server_is_refused(url: str) -> None:
    """A password in a URL would be shown."""
    with pytest.raises(ConfigError, match="servers"):
        accesses.server(url)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("name = ", "Invalid value"),
        ('name = "p"', "missing required field"),
        ("servers = []", "servers is empty"),
        ('servers = ["ftp://h"]', "unknown scheme"),
        ('role = "king"', "Invalid enum value"),
        ('credentials = "none"', "hold no NATS USER JWT"),
        ('credentials = """BEGIN NATS USER JWT\nx\n"""', "hold no USER NKEY SEED"),
        (
            'credentials = """BEGIN NATS USER JWT\nx\nBEGIN USER NKEY SEED\nSUX\n"""',
            "NKey seed",
        ),
    ],
)
def test_an_access_file_that_is_none_says_why(tmp_path: Path, text: str, fault: str) -> None:
    """In one line that names the file and where to get another."""
    path = tmp_path / "x.toml"
    accesses.write(path, ACCESS)
    field = text.partition(" ")[0]
    kept = []
    skipping = False
    for line in path.read_text().splitlines():
        if line.startswith(f"{field} ="):
            skipping = line.endswith("'''")
            continue
        if not skipping:
            kept.append(line)
        skipping = skipping and line != "'''"
    only = text == 'name = "p"'
    path.write_text(text if only else "\n".join([*kept, text]))
    with pytest.raises(CredentialError, match=fault) as caught:
        accesses.read(path)
    assert f"access file {path}" in str(caught.value)
    assert "otela mesh" in caught.value.remedy
    assert "\n" not in caught.value.line()


def test_an_access_file_of_another_role_is_refused_before_it_is_used(tmp_path: Path) -> None:
    """The message says whose it is and how to get the right one."""
    path = tmp_path / "p.toml"
    accesses.write(path, ACCESS)
    assert accesses.read_for(path, "router", "provider") == ACCESS
    with pytest.raises(CredentialError) as refused:
        accesses.read_for(path, "tool", "router")
    assert refused.value.line() == (
        f"{path} is an access file of a provider, not of a tool;"
        " get one with: otela mesh role --role tool --name NAME"
    )
    accesses.write(path, msgspec.structs.replace(ACCESS, role="tool"))
    with pytest.raises(CredentialError) as refused:
        accesses.read_for(path, "provider")
    assert refused.value.line().endswith("get one with: otela mesh invite --provider NAME")
