"""A hub's configuration: what it opens, and to whom."""

from opentela.mesh import hub
from opentela.mesh.hub import Hub
from opentela.mesh.server_conf import TlsFiles, Trust

TRUST = Trust(operator="jwt", system_account="ASYS")


def test_a_hub_with_everything() -> None:
    """All listeners, encrypted."""
    text = hub.render(
        Hub(
            name="mesh-hub",
            trust=TRUST,
            listen="0.0.0.0",
            port=4222,
            leaf_port=7422,
            websocket_port=443,
            monitor_port=8222,
            tls=TlsFiles(certificate="tls/server.pem", key="tls/server.key"),
        )
    )
    for line in (
        'server_name: "mesh-hub"',
        'listen: "0.0.0.0:4222"',
        'http: "127.0.0.1:8222"',
        '  listen: "0.0.0.0:7422"',
        '  listen: "0.0.0.0:443"',
        'system_account: "ASYS"',
    ):
        assert line in text.splitlines()
    assert text.count('cert_file: "tls/server.pem"') == 3


def test_the_least_hub() -> None:
    """One listener for clients, on loopback, and nobody gets in without credentials."""
    text = hub.render(Hub(name="h", trust=TRUST, listen="127.0.0.1", port=0))
    assert 'listen: "127.0.0.1:-1"' in text
    for absent in ("leafnodes", "websocket", "http", "tls", "no_auth_user", "accounts"):
        assert f"\n{absent}" not in text
