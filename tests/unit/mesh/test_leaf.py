"""A leaf's configuration: it dials out, twice, and asks its own clients for credentials."""

from opentela.mesh import leaf
from opentela.mesh.leaf import Leaf
from opentela.mesh.server_conf import Trust


def of(**more: object) -> str:
    """Return a leaf's configuration."""
    form = Leaf(
        name="mesh-leaf-a",
        trust=Trust(operator="jwt", system_account="ASYS"),
        account="AMESH",
        remotes=("nats://127.0.0.1:7422", "wss://hub:443"),
        credentials="leaf.creds",
        system_credentials="sys.creds",
        listen="127.0.0.1",
        port=4222,
        **more,  # type: ignore[arg-type]
    )
    return leaf.render(form)


def test_a_leaf_dials_out_for_the_mesh_and_for_the_servers_own_account() -> None:
    """The second link is how revocations arrive."""
    text = of(remote_ca="ca.pem")
    assert text.count('"nats-leaf://127.0.0.1:7422"') == text.count('"wss://hub:443"') == 2
    for line in ('account: "AMESH"', 'account: "ASYS"', '"leaf.creds"', '"sys.creds"'):
        assert text.count(line) == (1 if "creds" in line or "AMESH" in line else 2)
    assert text.count('ca_file: "ca.pem"') == 2
    assert 'reconnect: "1s"' in text


def test_a_leaf_believes_the_systems_authorities_unless_told() -> None:
    """No file is named then."""
    assert "ca_file" not in of()


def test_a_leaf_that_others_stand_behind_listens_for_them() -> None:
    """And only then."""
    assert 'listen: "127.0.0.1:7422"' in of(leaf_port=7422)
    assert of().count("listen:") == 1
