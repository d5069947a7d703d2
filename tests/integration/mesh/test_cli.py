"""`otela mesh` from init to revoke, as an operator types it."""

import asyncio
import json
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from opentela.cli import otela
from opentela.local.mesh import free_ports
from opentela.mesh import access as accesses
from opentela.mesh import jwt_reader
from opentela.mesh.server import NatsServer
from opentela.testing.mesh import until

Otela = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Otela:
    """Give `otela mesh COMMAND …` on one mesh folder."""

    def run(command: str, *arguments: str, code: int = 0) -> Result:
        where = [] if command in ("check", "serve") else ["--dir", str(tmp_path / "mesh")]
        result = CliRunner().invoke(otela, ["mesh", command, *where, *arguments])
        assert result.exit_code == code, result.output
        return result

    return run


def local(*more: str) -> tuple[str, ...]:
    """Return the options of a mesh on loopback that the system chooses ports for."""
    return ("--host", "127.0.0.1", "--tls", "none", "--port", "0", "--leaf-port", "0", *more)


def test_a_new_mesh_has_everything_and_keeps_its_secrets(run: Otela, tmp_path: Path) -> None:
    """Folders 0700, secrets 0600, an access file a role, TLS with names unless told otherwise."""
    said = run("init", "--host", "hub.example.org", "--websocket-port", "443").output
    assert "otela mesh serve" in said
    mesh = tmp_path / "mesh"
    public = {"ca.pem", "server.pem", "mesh.json"}
    for path in mesh.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        expected = 0o700 if path.is_dir() else 0o644 if path.name in public else 0o600
        assert mode == expected, path
    for role in ("registry", "router", "tool", "sys"):
        access = accesses.read(mesh / "access" / f"{role}.toml")
        assert (access.role, access.name) == (role, role)
        assert access.servers == ("tls://hub.example.org:4222",)
        assert "BEGIN CERTIFICATE" in access.ca
    assert not (mesh / "access" / "placer.toml").exists(), "it may command every provider's nodes"
    seeds = [path.read_text().strip() for path in (mesh / "keys").iterdir()]
    everything_else = "".join(
        path.read_text() for path in mesh.rglob("*") if path.is_file() and "keys" not in path.parts
    )
    assert len(seeds) == 4
    assert not [seed for seed in seeds if seed in everything_else]


def test_a_mesh_is_not_overwritten_by_accident(run: Otela, tmp_path: Path) -> None:
    """--force replaces it wholly: nothing that the old one issued is left about."""
    run("init", *local())
    run("invite", "--provider", "p")
    old = json.loads((tmp_path / "mesh" / "mesh.json").read_text())
    run("init", *local(), code=2)
    assert json.loads((tmp_path / "mesh" / "mesh.json").read_text()) == old
    said = json.loads(run("init", *local(), "--force", "--json").output)
    assert said["account"] != old["account"]
    assert not (tmp_path / "mesh" / "access" / "provider-p.toml").exists()
    assert len(list((tmp_path / "mesh" / "jwt").iterdir())) == 2


def test_a_folder_that_is_no_mesh_keeps_what_it_holds(run: Otela, tmp_path: Path) -> None:
    """Somebody's own `keys` folder is no old mesh."""
    mine = tmp_path / "mesh" / "keys" / "mine"
    mine.parent.mkdir(parents=True)
    mine.write_text("precious")
    run("init", *local())
    assert mine.read_text() == "precious"


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("--tls", "none", "--listen", "0.0.0.0"), "would send prompts in the clear"),
        (("--tls", "files"), "needs a certificate and a key"),
        (("--name", "Not A Name"), "is not a name"),
    ],
)
def test_a_mesh_that_makes_no_sense_is_refused_in_one_line(
    run: Otela, arguments: tuple[str, ...], fault: str
) -> None:
    """With what to do instead."""
    said = run("init", *arguments, code=2).stderr
    assert fault in said
    assert said.count("\n") == 1
    assert "; " in said


def test_a_role_is_added_once(run: Otela, tmp_path: Path) -> None:
    """The second time nothing changes; its name is taken for other roles."""
    run("init", *local("--port", "4222"))
    run("role", "--role", "router", "--name", "edge2")
    path = tmp_path / "mesh" / "access" / "edge2.toml"
    first = path.read_text()
    assert (
        "already admits router edge2" in run("role", "--role", "router", "--name", "edge2").output
    )
    assert path.read_text() == first
    out = ("--out", str(tmp_path / "elsewhere.toml"))
    run("role", "--role", "registry", "--name", "edge2", *out, code=2)
    told = json.loads(run("role", "--role", "router", "--name", "edge3", "--json").output)
    assert told["new"]
    assert "credentials" not in told


def test_an_invitation_says_who_where_and_for_how_long(run: Otela, tmp_path: Path) -> None:
    """All in one file of mode 0600."""
    run("init", *local("--port", "4222"))
    out = tmp_path / "p.toml"
    server = "tls://login1:4222"
    run("invite", "--provider", "p", "--site", "a", "--expires", "30d", "--server", server,
        "--out", str(out))  # fmt: skip
    access = accesses.read(out)
    assert (access.provider, access.site, access.servers) == ("p", "a", (server,))
    claims = jwt_reader.claims(access.jwt)
    assert claims["exp"] - claims["iat"] == 30 * 86400
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    run("invite", "--provider", "p", "--expires", "soon", code=2)
    run("invite", "--provider", "wrong", "--server", "http://x", code=2)
    run("role", "--role", "router", "--name", "wrong", "--server", "http://x", code=2)
    assert "wrong" not in run("members").output
    members = json.loads(run("members", "--json").output)
    assert [one["role"] for one in members][-1] == "provider"
    heading, *_, last = run("members").output.splitlines()
    assert last[heading.index("STANDING") :] == "30.0 days left"


def test_a_site_without_a_way_to_the_hub_is_refused_before_anything_is_written(
    run: Otela, tmp_path: Path
) -> None:
    """A hub on ports that the system chooses has no address yet."""
    run("init", *local())
    assert "--hub" in run("leaf", "--site", "a", code=2).stderr
    assert not (tmp_path / "mesh" / "leaves" / "a").exists()


@pytest.mark.nats
async def test_a_mesh_set_up_by_hand_works_from_hub_to_leaf_to_revocation(
    run: Otela, tmp_path: Path
) -> None:
    """Every file is used where it was written, with the ports that were asked for."""
    port, leaf_port, site_port = free_ports(3)
    run("init", "--host", "127.0.0.1", "--port", str(port), "--leaf-port", str(leaf_port),
        "--listen", "127.0.0.1")  # fmt: skip
    made = json.loads(
        run("leaf", "--site", "a", "--providers", "p,q", "--port", str(site_port), "--json").stdout
    )
    run("invite", "--provider", "p", "--site", "a", "--server", made["servers"][0])
    mesh = tmp_path / "mesh"
    hub = await NatsServer.start(mesh / "hub.conf", log=tmp_path / "hub.log")
    leaf = await NatsServer.start(Path(made["conf"]), log=tmp_path / "leaf.log")
    try:
        await until(lambda: (tmp_path / "leaf.log").read_text().count("connection created") == 2)
        access = str(mesh / "access" / "provider-p-a.toml")
        assert [one["ok"] for one in await check(access)] == [True, True]
        # Nobody answers a router: that is told, and is the exit status.
        found = await check(str(mesh / "access" / "router.toml"), code=1)
        assert [(one["what"].split()[0], one["ok"]) for one in found] == [
            ("reach", True),
            ("ask", False),
            ("subscribe", True),
        ]
        assert [one["ok"] for one in await check(str(mesh / "access" / "sys.toml"))] == [True]
        told = await in_process("revoke", "--dir", str(mesh), "--provider", "p")
        assert "1 revoked" in told
        assert "refuses provider p" in (await check(access, code=1))[0]["detail"]
    finally:
        await leaf.kill()
        await hub.kill()


@pytest.mark.nats
async def test_revoking_without_a_hub_is_kept_and_says_so(run: Otela, tmp_path: Path) -> None:
    """The operator knows that running servers were not told."""
    (port,) = free_ports(1)
    run("init", *local("--port", str(port)))
    run("invite", "--provider", "p")
    said = await in_process("revoke", "--dir", str(tmp_path / "mesh"), "--provider", "p", code=1)
    assert "but the hub was not told" in said
    assert json.loads(run("members", "--json").output)[-1]["revoked_at"] > 0
    run("revoke", "--provider", "nobody", code=2)
    run("revoke", code=2)


@pytest.mark.nats
async def test_revoking_works_in_a_mesh_that_init_did_not_make(run: Otela, tmp_path: Path) -> None:
    """`otela up` makes one without access to the servers' own account: it is made when needed."""
    port, mesh = free_ports(1)[0], tmp_path / "mesh"
    run("init", *local("--port", str(port)))
    run("invite", "--provider", "p")
    (mesh / "access" / "sys.toml").unlink()
    hub = await NatsServer.start(mesh / "hub.conf", log=tmp_path / "hub.log")
    try:
        told = await in_process("revoke", "--dir", str(mesh), "--provider", "p")
        assert "1 revoked, the hub knows" in told
    finally:
        await hub.kill()


@pytest.mark.nats
def test_serve_becomes_nats_server(run: Otela, tmp_path: Path) -> None:
    """The very process, so that signals of a service manager reach it."""
    run("init", *local())
    conf = tmp_path / "mesh" / "hub.conf"
    command = [sys.executable, "-m", "opentela.cli", "mesh", "serve", str(conf)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        assert any("Server is ready" in line for line in lines)
        assert Path(f"/proc/{process.pid}/exe").readlink().name == "nats-server"
        process.terminate()
        process.stderr.read()


async def check(access: str, *, code: int = 0) -> list[dict[str, Any]]:
    """Return the findings of `otela mesh check`."""
    findings: list[dict[str, Any]] = json.loads(
        await in_process("check", access, "--json", code=code)
    )
    return findings


async def in_process(*arguments: str, code: int = 0) -> str:
    """Run `otela mesh …` as a process of its own: it has an event loop of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "opentela.cli", "mesh", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    assert process.returncode == code, said.decode()
    return said.decode()


def test_members_are_told_apart_and_thrown_out_one_by_one(run: Otela, tmp_path: Path) -> None:
    """Two credentials of one provider have ids of their own; the mesh need not be up to say who."""
    run("init", *local("--port", "4222"))
    for name in ("one", "two"):
        run("invite", "--provider", "p", "--out", str(tmp_path / f"{name}.toml"))
    rows = [line for line in run("members").output.splitlines() if " provider " in line]
    ids = [row.split()[0] for row in rows]
    assert len(set(ids)) == 2
    first = accesses.read(tmp_path / "one.toml")
    assert first.identity.key.startswith(ids[0])
    said = run("revoke", "--id", ids[0].lower(), code=1).stderr
    assert "revoked in" in said
    assert "the hub was not told" in said
    standing = {row.split()[0]: row for row in run("members").output.splitlines()}
    assert standing[ids[0]].endswith("revoked")
    assert standing[ids[1]].endswith("let in")


def test_an_id_that_means_nobody_or_several_is_refused(run: Otela) -> None:
    """Nobody is thrown out by chance."""
    run("init", *local("--port", "4222"))
    assert "no member has the id UXX" in run("revoke", "--id", "UXX", code=2).stderr
    said = run("revoke", "--id", "U", code=2).stderr
    assert "matches 4" in said
    assert "give more of it" in said
    run("revoke", "--id", "U", "--name", "router", code=2)


def test_a_leaf_for_names_that_nobody_bears_is_made_with_a_note(run: Otela) -> None:
    """They may come later, or be a slip of the pen; leaves behind it need a port to dial."""
    run("init", *local("--port", "4222", "--leaf-port", "7422"))
    options = ("--site", "a", "--registry", "nobody", "--behind", "zzz")
    said = run("leaf", *options, code=2).stderr
    assert "leaves of zzz could not dial a; give it a port" in said
    notes = run("leaf", *options, "--leaf-port", "7423").stderr.splitlines()
    assert [note.partition(";")[0] for note in notes] == [
        "note: no registry nobody was let in yet",
        "note: no site zzz is known yet",
    ]


def test_an_old_mesh_is_upgraded_by_a_word(run: Otela) -> None:
    """And says what it did."""
    run("init", *local("--port", "4222"), "--no-jetstream")
    assert "the hub keeps lifecycle events" in run("upgrade").output
    assert "nothing to do" in run("upgrade").output
