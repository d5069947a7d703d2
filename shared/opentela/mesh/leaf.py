"""The configuration of a leaf: a site's own server, which dials out to the hub."""

from typing import Final

import msgspec

from opentela.mesh import server_conf
from opentela.mesh.server_conf import Section, TlsFiles, Trust

RECONNECT: Final = "1s"
"""Pause between dials of the hub; a site that lost it is back within this and a handshake."""

_HEADING: Final = """\
Leaf of an opentela mesh, written by `otela mesh leaf`. Paths are seen from this folder: start it
with `otela mesh serve leaf.conf`, or `cd` here first. It only dials out; its own clients need
access files like everybody else."""


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """What a leaf's configuration says.

    Attributes:
        name: The server's name, unique in the mesh.
        account: Public key of the mesh's account, which the link carries.
        remotes: The hub's servers as `tls://host:7422`, `nats://…`, `wss://…` or `ws://…`.
        credentials: File of the link's own user.
        system_credentials: File of its user in the system account, by which revocations arrive.
        remote_ca: File of the authority of the hub's certificate; empty for the system's.
        listen: Address for all listeners; not loopback only with TLS.
        port: For this site's clients.
        leaf_port: For further leaf servers behind this one; None for no listener, here and below.
        websocket_port: For clients and leaf servers behind proxies.
        monitor_port: For the monitoring page, on loopback.
        tls: For this site's clients; None speaks plainly.
    """

    name: str
    trust: Trust
    account: str
    remotes: tuple[str, ...]
    credentials: str
    system_credentials: str
    listen: str
    port: int
    remote_ca: str = ""
    leaf_port: int | None = None
    websocket_port: int | None = None
    monitor_port: int | None = None
    tls: TlsFiles | None = None


def render(leaf: Leaf) -> str:
    """Return the configuration file of *leaf*."""
    section: Section = server_conf.common(name=leaf.name, trust=leaf.trust)
    section |= server_conf.client_listener(leaf.listen, leaf.port, leaf.tls)
    section |= server_conf.monitor(leaf.monitor_port)
    section["leafnodes"] = server_conf.leaf_listener(leaf.listen, leaf.leaf_port, leaf.tls) | {
        "reconnect": RECONNECT,
        "remotes": [
            _remote(leaf, leaf.account, leaf.credentials),
            _remote(leaf, leaf.trust.system_account, leaf.system_credentials),
        ],
    }
    section |= server_conf.websocket_listener(leaf.listen, leaf.websocket_port, leaf.tls)
    return server_conf.render(section, heading=_HEADING)


def _remote(leaf: Leaf, account: str, credentials: str) -> Section:
    remote: Section = {
        "urls": [url.replace("nats://", "nats-leaf://") for url in leaf.remotes],
        "account": account,
        "credentials": credentials,
        "compression": server_conf.COMPRESSION,
    }
    if leaf.remote_ca:
        remote["tls"] = {"ca_file": leaf.remote_ca}
    return remote
