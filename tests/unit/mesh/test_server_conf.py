"""The form of nats-server's configuration: quoted, nested, nothing open by default."""

from opentela.mesh import server_conf
from opentela.mesh.server_conf import TlsFiles, Trust

TLS = TlsFiles(certificate="c.pem", key="k.pem")


def test_values_are_written_as_the_server_reads_them() -> None:
    """Text is quoted whatever it holds; numbers and booleans are not."""
    section: server_conf.Section = {
        "name": 'a "quoted" { one',
        "count": 3,
        "on": True,
        "inner": {"deep": {"x": "y"}},
        "list": ["a", {"b": 1}],
    }
    assert server_conf.render(section, heading="One.\n\nTwo.").splitlines() == [
        "# One.",
        "#",
        "# Two.",
        'name: "a \\"quoted\\" { one"',
        "count: 3",
        "on: true",
        "inner {",
        "  deep {",
        '    x: "y"',
        "  }",
        "}",
        "list: [",
        '  "a"',
        "  {",
        "    b: 1",
        "  }",
        "]",
    ]


def test_an_address_may_have_a_port_of_the_systems_choice_and_be_of_either_version() -> None:
    """nats-server writes -1 for a random port."""
    assert server_conf.listen("127.0.0.1", 0) == "127.0.0.1:-1"
    assert server_conf.listen("::", 4222) == "[::]:4222"


def test_listeners_that_were_not_asked_for_do_not_exist() -> None:
    """No port, no section."""
    assert server_conf.websocket_listener("0.0.0.0", None, None) == {}
    assert server_conf.leaf_listener("0.0.0.0", None, TLS) == {}
    assert server_conf.monitor(None) == {}


def test_listeners_are_encrypted_when_there_is_a_certificate() -> None:
    """All three kinds; the monitoring page never leaves the host."""
    files = {"cert_file": "c.pem", "key_file": "k.pem"}
    assert server_conf.client_listener("h", 1, TLS)["tls"] == {**files, "handshake_first": "auto"}
    assert server_conf.leaf_listener("h", 1, TLS)["tls"] == files
    assert server_conf.websocket_listener("h", 1, TLS)["websocket"] == {
        "listen": "h:1",
        "tls": files,
    }
    assert server_conf.monitor(8222) == {"http": "127.0.0.1:8222"}


def test_listeners_without_a_certificate_say_so() -> None:
    """A websocket wants it spelled out."""
    assert "tls" not in server_conf.client_listener("h", 1, None)
    assert "tls" not in server_conf.leaf_listener("h", 1, None)
    assert server_conf.websocket_listener("h", 1, None)["websocket"]["no_tls"] is True  # type: ignore[index, call-overload]


def test_every_server_drops_a_silent_link_in_seconds() -> None:
    """The defaults would keep a half-open link for minutes."""
    section = server_conf.common(name="n", trust=Trust(operator="jwt", system_account="A"))
    assert section["ping_interval"] == "2s"
    assert section["ping_max"] == 2
    assert section["operator"] == "jwt"
    assert "no_auth_user" not in section
